// The routes about resources as such: list, look, download, remove, and a file that comes in one piece. Uploads in parts are in
// upload-routes.ts, grants in resource-grant-routes.ts; how bytes and documents stay together in resource-repository.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readResourceForm, resourceLimits } from "@astraflow/protocol";
import {
  actorOf,
  canSeeResource,
  createResourceRepository,
  decodeDocumentCursor,
  encodeCursor,
  isAdmin,
  isOwnerOrAdmin,
  measureBytes,
  missingBytesFault,
  type ResourceRecord,
  type ResourceRepositoryOptions,
  readVisiblePage,
  resourceNotFound,
  type StoredRecord,
} from "@astraflow/services";
import { type RestCall, type RouteHandler, readIdempotencyKey, readPageLimit } from "../requests/rest-call.ts";
import { type FormFile, readMultipartForm } from "./multipart-form.ts";
import { type ResourceGrantRoutes, resourceGrantHandlers } from "./resource-grant-routes.ts";
import { attachmentHeader, parseRange, presentResource, sanitizeFilename, sanitizeMediaType } from "./resource-response.ts";
import { type UploadRoutes, uploadHandlers } from "./upload-routes.ts";

type ResourceRoutes = "listResources" | "createResource" | "getResource" | "deleteResource" | "downloadResource";

export function resourceHandlers(
  options: ResourceRepositoryOptions,
): Record<ResourceRoutes | UploadRoutes | ResourceGrantRoutes, RouteHandler> {
  const repository = createResourceRepository(options);
  const { store } = repository;

  const find = async (call: RestCall): Promise<{ stored: StoredRecord<ResourceRecord>; head: number }> => {
    const id = call.params["resourceId"] ?? "";
    const { stored, head } = await store.find(call.identity.tenant, "resource", id);
    if (stored === null || !canSeeResource(call.identity, stored.record)) throw resourceNotFound("resource", id);
    return { stored, head };
  };

  return {
    ...uploadHandlers(options, repository),
    ...resourceGrantHandlers(options, repository),

    async listResources(call) {
      const { identity, query } = call;
      const owner = readOwnerFilter(call);
      const limit = readPageLimit(query);
      const { search } = query;
      const { items, next, head } = await readVisiblePage(
        (after) =>
          store.list("resource", {
            tenant: identity.tenant,
            order: "desc",
            limit,
            ...(search !== undefined && { search }),
            ...(after !== undefined && { after }),
          }),
        (record) => canSeeResource(identity, record) && (owner === null || record.owner === owner),
        decodeDocumentCursor(query["cursor"]),
      );
      return { body: { items: items.map(presentResource), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createResource(call) {
      const { identity, stream } = call;
      const key = readIdempotencyKey(call);
      await repository.sweepExpiredUploads(identity.tenant);
      // Under a key the id follows from it, so that a repeat finds what the first made.
      const id = key === null ? null : options.digest(canonicalJson({ of: "resource", user: identity.user, key }));
      const existing = id === null ? null : (await store.find(identity.tenant, "resource", id)).stored;
      const record = await readMultipartForm(call.header("content-type"), stream ?? emptyBytes(), {
        onFile(file, fields) {
          // Said again once the bytes are here: fields may stand behind them.
          const readLateFields = () => readResourceFields(file, fields, repository.defaultProvider);
          const named = { ...readLateFields(), owner: identity.user, metadata: null };
          const bytesMax = Math.min(resourceLimits.chunkBytesMax, repository.blobStoreOf(named.provider).bytesMax);
          if (existing !== null) return checkSameBytes(existing.record, file.bytes, bytesMax);
          // That the key is this file's; whether these bytes are the same, the file itself says.
          const keyed = key === null || id === null ? {} : { id, ask: { key, digest: id } };
          return repository.create(actorOf(call), { ...named, bytesMax, readLateFields, ...keyed }, file.bytes);
        },
      });
      const { head } = await store.find(identity.tenant, "resource", record.id);
      return {
        body: { ...presentResource(record), asOf: head },
        headers: { location: `/api/v1/resources/${record.id}`, ...(existing !== null && { "idempotent-replayed": "true" }) },
      };
    },

    async getResource(call) {
      const { stored, head } = await find(call);
      return { body: { ...presentResource(stored.record), asOf: head } };
    },

    async deleteResource(call) {
      const { stored } = await find(call);
      if (!isOwnerOrAdmin(call.identity, stored.record.owner))
        throw fault("E.AUTH.FORBIDDEN", `resource ${stored.record.id} is not yours; its owner or an admin can remove it`);
      await repository.remove(actorOf(call), stored);
      return { body: "", status: 204 };
    },

    async downloadResource(call) {
      const { record } = (await find(call)).stored;
      const blobs = repository.blobStoreOf(record.provider);
      const blobKey = { tenant: call.identity.tenant, name: record.id };
      // Now, while a refusal can still be said: the bytes themselves leave after the head.
      if ((await blobs.stat(blobKey)) === null) throw missingBytesFault();
      const range = parseRange(call.header("range"), record.sizeBytes);
      const { start, end } = range ?? { start: 0, end: record.sizeBytes - 1 };
      return {
        body: "",
        bytes: () => (record.sizeBytes === 0 ? emptyBytes() : blobs.read(blobKey, { start, end })),
        media: record.mimeType ?? "application/octet-stream",
        ...(range !== null && { status: 206 }),
        headers: {
          "content-length": String(end - start + 1),
          "content-disposition": attachmentHeader(record.filename),
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
function readResourceFields(
  file: FormFile,
  fields: Readonly<Record<string, string>>,
  defaultProvider: ResourceRecord["provider"],
) {
  const form = readResourceForm(fields);
  if (form instanceof Fault) throw form;
  const {
    provider = defaultProvider,
    visibility = "private",
    filename = file.filename,
    mimeType = file.mimeType,
    sha256 = null,
  } = form;
  return { provider, visibility, filename: sanitizeFilename(filename), mimeType: sanitizeMediaType(mimeType), sha256 };
}

async function* emptyBytes(): AsyncGenerator<Buffer> {
  // A body that was not sent.
}

/** A repeat under one key brings the same bytes, or it is none. */
async function checkSameBytes(
  record: ResourceRecord,
  bytes: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<ResourceRecord> {
  let sha256 = "";
  const counted = measureBytes(bytes, bytesMax, (stored) => {
    sha256 = stored.sha256;
  });
  for await (const _chunk of counted) {
    // Only counted: they are here already.
  }
  if (sha256 === record.sha256) return record;
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another file; use a new key");
}

/** Null: anybody's. Only admins ask for what is somebody else's. */
function readOwnerFilter({ identity, query }: RestCall): string | null {
  const { ownerId } = query;
  if (ownerId === undefined) return null;
  const owner = ownerId === "me" ? identity.user : ownerId;
  if (owner !== identity.user && !isAdmin(identity))
    throw fault("E.AUTH.FORBIDDEN", "only admins can ask for the resources of others; say ownerId=me");
  return owner;
}
