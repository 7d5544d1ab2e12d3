// The routes about resources as such: list, look, download, remove, and a file that comes in one piece. Uploads in parts are in
// upload-routes.ts, grants in grant-routes.ts; how bytes and documents stay together in resource-keeper.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readResourceForm, resourceLimits } from "@astraflow/protocol";
import { measured, missingBytes } from "../../resources/blobs.ts";
import type { Kept, ResourceRecord } from "../../resources/resource-store.ts";
import { type Call, type Handler, readIdempotencyKey, readLimit } from "../call.ts";
import { readDocsCursor, spellCursor } from "../people/user-cursor.ts";
import { type GrantRoutes, grantHandlers } from "./grant-routes.ts";
import { canSee, createKeeper, doerOf, isAdmin, isOwn, missing, type ResourcesOptions, seen } from "./resource-keeper.ts";
import { attachment, cleanMedia, cleanName, rangeIn, viewResource } from "./resource-view.ts";
import { type FormFile, readForm } from "./upload-form.ts";
import { type UploadRoutes, uploadHandlers } from "./upload-routes.ts";

type ResourceRoutes = "listResources" | "createResource" | "getResource" | "deleteResource" | "downloadResource";

export function resourcesHandlers(options: ResourcesOptions): Record<ResourceRoutes | UploadRoutes | GrantRoutes, Handler> {
  const keeper = createKeeper(options);
  const { store } = keeper;

  const find = async (call: Call): Promise<{ kept: Kept<ResourceRecord>; head: number }> => {
    const id = call.params["resourceId"] ?? "";
    const { kept, head } = await store.find(call.identity.tenant, "resource", id);
    if (kept === null || !canSee(call.identity, kept.record)) throw missing("resource", id);
    return { kept, head };
  };

  return {
    ...uploadHandlers(options, keeper),
    ...grantHandlers(options, keeper),

    async listResources(call) {
      const { identity, query } = call;
      const owner = ownerIn(call);
      const limit = readLimit(query);
      const { search } = query;
      const { items, next, head } = await seen(
        (after) =>
          store.list("resource", {
            tenant: identity.tenant,
            order: "desc",
            limit,
            ...(search !== undefined && { search }),
            ...(after !== undefined && { after }),
          }),
        (record) => canSee(identity, record) && (owner === null || record.owner === owner),
        readDocsCursor(query["cursor"]),
      );
      return { body: { items: items.map(viewResource), nextCursor: spellCursor(next), asOf: head } };
    },

    async createResource(call) {
      const { identity, stream } = call;
      const key = readIdempotencyKey(call);
      await keeper.sweep(identity.tenant);
      // Under a key the id follows from it, so that a repeat finds what the first made.
      const id = key === null ? null : options.digest(canonicalJson({ of: "resource", user: identity.user, key }));
      const before = id === null ? null : (await store.find(identity.tenant, "resource", id)).kept;
      const record = await readForm(call.header("content-type"), stream ?? nothing(), {
        file(file, fields) {
          // Said again once the bytes are here: fields may stand behind them.
          const late = () => wordsOf(file, fields, keeper.providerDefault);
          const named = { ...late(), owner: identity.user, metadata: null };
          const bytesMax = Math.min(resourceLimits.chunkBytesMax, keeper.blobsOf(named.provider).bytesMax);
          if (before !== null) return sameAgain(before.record, file.bytes, bytesMax);
          // That the key is this file's; whether these bytes are the same, the file itself says.
          const keyed = key === null || id === null ? {} : { id, ask: { key, digest: id } };
          return keeper.keep(doerOf(call), { ...named, bytesMax, late, ...keyed }, file.bytes);
        },
      });
      const { head } = await store.find(identity.tenant, "resource", record.id);
      return {
        body: { ...viewResource(record), asOf: head },
        headers: { location: `/api/v1/resources/${record.id}`, ...(before !== null && { "idempotent-replayed": "true" }) },
      };
    },

    async getResource(call) {
      const { kept, head } = await find(call);
      return { body: { ...viewResource(kept.record), asOf: head } };
    },

    async deleteResource(call) {
      const { kept } = await find(call);
      if (!isOwn(call.identity, kept.record.owner))
        throw fault("E.AUTH.FORBIDDEN", `resource ${kept.record.id} is not yours; its owner or an admin can remove it`);
      await keeper.remove(doerOf(call), kept);
      return { body: "", status: 204 };
    },

    async downloadResource(call) {
      const { record } = (await find(call)).kept;
      const blobs = keeper.blobsOf(record.provider);
      const place = { tenant: call.identity.tenant, name: record.id };
      // Now, while a refusal can still be said: the bytes themselves leave after the head.
      if ((await blobs.stat(place)) === null) throw missingBytes();
      const range = rangeIn(call.header("range"), record.sizeBytes);
      const { start, end } = range ?? { start: 0, end: record.sizeBytes - 1 };
      return {
        body: "",
        bytes: () => (record.sizeBytes === 0 ? nothing() : blobs.read(place, { start, end })),
        media: record.mimeType ?? "application/octet-stream",
        ...(range !== null && { status: 206 }),
        headers: {
          "content-length": String(end - start + 1),
          "content-disposition": attachment(record.filename),
          // Should a browser show it after all, nothing in it runs.
          "content-security-policy": "sandbox; default-src 'none'",
          "accept-ranges": "bytes",
          etag: `"${record.sha256}"`,
          ...(range !== null && { "content-range": `bytes ${start}-${end}/${record.sizeBytes}` }),
        },
      };
    },
  };
}

/** What the form says of its file, as far as it has been read. */
function wordsOf(file: FormFile, fields: Readonly<Record<string, string>>, usual: ResourceRecord["provider"]) {
  const form = readResourceForm(fields);
  if (form instanceof Fault) throw form;
  const { provider = usual, visibility = "private", filename = file.filename, mimeType = file.mimeType, sha256 = null } = form;
  return { provider, visibility, filename: cleanName(filename), mimeType: cleanMedia(mimeType), sha256 };
}

async function* nothing(): AsyncGenerator<Buffer> {
  // A body that was not sent.
}

/** A repeat under one key brings the same bytes, or it is none. */
async function sameAgain(record: ResourceRecord, bytes: AsyncIterable<Uint8Array>, bytesMax: number): Promise<ResourceRecord> {
  let sha256 = "";
  const counted = measured(bytes, bytesMax, (stored) => {
    sha256 = stored.sha256;
  });
  for await (const _chunk of counted) {
    // Only counted: they are here already.
  }
  if (sha256 === record.sha256) return record;
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another file; use a new key");
}

/** Null: anybody's. Only admins ask for what is somebody else's. */
function ownerIn({ identity, query }: Call): string | null {
  const { ownerId } = query;
  if (ownerId === undefined) return null;
  const owner = ownerId === "me" ? identity.user : ownerId;
  if (owner !== identity.user && !isAdmin(identity))
    throw fault("E.AUTH.FORBIDDEN", "only admins can ask for the resources of others; say ownerId=me");
  return owner;
}
