// The routes of uploads in parts: begun with a size, filled in any order, made into a resource at the end. Parts are bytes of their own until then.

import { canonicalJson } from "@astraflow/graph";
import {
  Fault,
  fault,
  type ResourceUploadInit,
  type ResourceUploadSession,
  readResourceUploadInit,
  resourceLimits,
} from "@astraflow/protocol";
import { isConflict } from "../../people/people-store.ts";
import { type Kept, putUpload, type ResourceRecord, type UploadRecord } from "../../resources/resource-store.ts";
import { type Call, type Handler, readBody, readIdempotencyKey } from "../call.ts";
import { instant } from "../view.ts";
import {
  canSee,
  doerOf,
  isOver,
  isOwn,
  missing,
  partsOf,
  type ResourceKeeper,
  type ResourcesOptions,
  seen,
} from "./resource-keeper.ts";
import { viewResource } from "./resource-view.ts";
import { isForm, readBare, readForm } from "./upload-form.ts";

export type UploadRoutes = "createUpload" | "getUpload" | "abortUpload" | "putUploadPart" | "completeUpload";

/** Parts that come at the same moment change one document; each finds its turn soon. */
const changesTriedMax = 50;

export function uploadHandlers({ environment, digest }: ResourcesOptions, keeper: ResourceKeeper): Record<UploadRoutes, Handler> {
  const { clock, ids } = environment;
  const { store } = keeper;

  const find = async (call: Call): Promise<{ kept: Kept<UploadRecord>; head: number }> => {
    const id = call.params["uploadId"] ?? "";
    const { kept, head } = await store.find(call.identity.tenant, "upload", id);
    const isThere = kept !== null && kept.record.status !== "removing" && !isOver(kept.record, clock.now());
    if (!isThere || !isOwn(call.identity, kept.record.owner)) throw missing("upload", id);
    return { kept, head };
  };
  /** A resource that the caller may see with the same bytes, as far as a digest can say. */
  const findSame = async (call: Call, wanted: ResourceUploadInit, provider: string): Promise<ResourceRecord | null> => {
    if (wanted.sha256 === undefined) return null;
    const search = wanted.sha256.toLowerCase();
    const isSame = (one: ResourceRecord): boolean =>
      one.sha256 === search && one.provider === provider && one.sizeBytes === wanted.sizeBytes && canSee(call.identity, one);
    const list = (after: string | undefined) =>
      store.list("resource", {
        tenant: call.identity.tenant,
        search,
        order: "desc",
        limit: 200,
        ...(after !== undefined && { after }),
      });
    return (await seen(list, isSame, undefined)).items[0] ?? null;
  };
  const addPart = async (call: Call, part: number): Promise<UploadRecord> => {
    for (let tries = 1; ; tries += 1) {
      const { kept } = await find(call);
      if (kept.record.status !== "pending" || hasPart(kept.record, part)) return kept.record;
      const filled = { ...kept.record, parts: withPart(kept.record.parts, part), updatedAt: clock.now() };
      try {
        await store.write(doerOf(call), { puts: [putUpload(filled, kept.rev)] });
        return filled;
      } catch (why) {
        if (!isConflict(why) || tries >= changesTriedMax) throw why;
      }
    }
  };
  /** The upload was given up while the part came in: its bytes belong to nobody. */
  const forget =
    ({ identity }: Call, { id, provider }: UploadRecord, part: number) =>
    async (why: unknown): Promise<never> => {
      if (why instanceof Fault && why.code === "E.NOT_FOUND")
        await keeper.blobsOf(provider).delete({ tenant: identity.tenant, name: `${id}.${part}` });
      throw why;
    };
  const takePart = async (call: Call, upload: UploadRecord, part: number): Promise<void> => {
    const place = { tenant: call.identity.tenant, name: `${upload.id}.${part}` };
    const wanted = sizeOfPart(upload, part);
    const body = call.stream ?? emptyBody();
    const media = call.header("content-type");
    const isBare = media?.split(";")[0]?.trim().toLowerCase() === "application/octet-stream";
    if (!isBare && !isForm(media))
      throw fault(
        "E.REQUEST.MEDIA",
        "send the part as multipart/form-data, in a part named file, or as application/octet-stream",
      );
    const keep = (bytes: AsyncIterable<Uint8Array>) =>
      keeper.blobsOf(upload.provider).write(place, exactly(bytes, wanted), wanted);
    await (isBare ? keep(readBare(body)) : readForm(media, body, { file: ({ bytes }) => keep(bytes) }));
  };

  return {
    async createUpload(call) {
      const key = readIdempotencyKey(call);
      const wanted = readResourceUploadInit(readBody(call));
      if (wanted instanceof Fault) throw wanted;
      const { tenant, user } = call.identity;
      await keeper.sweep(tenant);
      const provider = wanted.provider ?? keeper.providerDefault;
      refuseTooLarge(wanted, keeper.blobsOf(provider).bytesMax);
      const same = await findSame(call, wanted, provider);
      const now = clock.now();
      const upload: UploadRecord = {
        // Under a key the id follows from it, so that the answer to a repeat can name it.
        id: key === null ? ids.next() : digest(canonicalJson({ of: "upload", user, key })),
        owner: user,
        provider,
        visibility: wanted.visibility ?? "private",
        filename: wanted.filename,
        sizeBytes: wanted.sizeBytes,
        chunkSize: chunkSizeOf(wanted),
        mimeType: wanted.mimeType ?? null,
        sha256: wanted.sha256?.toLowerCase() ?? null,
        metadata: wanted.metadata ?? null,
        createdAt: now,
        updatedAt: now,
        status: same === null ? "pending" : "completed",
        resource: same?.id ?? null,
        parts: [],
      };
      const audit = { action: "upload.create", targetType: "upload", target: upload.id };
      const ask = key === null ? null : { key, digest: digest(canonicalJson({ of: "createUpload", wanted })) };
      const { repeated } = await store.write(doerOf(call), { puts: [putUpload(upload, 0)], audit, ask });
      const { kept, head } = await store.find(tenant, "upload", upload.id);
      const there = repeated ? kept?.record : upload;
      if (there === undefined) throw missing("upload", upload.id);
      const headers = { location: `/api/v1/resources/uploads/${upload.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...viewUpload(there), asOf: head }, headers };
    },

    async getUpload(call) {
      const { kept, head } = await find(call);
      return { body: { ...viewUpload(kept.record), asOf: head } };
    },

    async abortUpload(call) {
      const { kept } = await find(call);
      await keeper.dropUpload(doerOf(call), kept, "upload.abort");
      return { body: "", status: 204 };
    },

    async putUploadPart(call) {
      const part = readPart(call.params["partNumber"]);
      const { record: upload } = (await find(call)).kept;
      if (part >= partsOf(upload))
        throw fault("E.REQUEST.INVALID", `the upload has the parts 0 to ${partsOf(upload) - 1}`, { path: "params.partNumber" });
      const isNew = upload.status === "pending" && !hasPart(upload, part);
      if (isNew) await takePart(call, upload, part);
      const after = isNew ? await addPart(call, part).catch(forget(call, upload, part)) : upload;
      const { uploadedBytes, nextPart, totalParts } = viewUpload(after);
      const status = nextPart === totalParts ? "completed" : "pending";
      return {
        body: { uploadId: upload.id, partNumber: part, uploadedBytes, nextPart, status, receivedBytes: sizeOfPart(upload, part) },
      };
    },

    async completeUpload(call) {
      readIdempotencyKey(call);
      const { tenant } = call.identity;
      const { kept } = await find(call);
      const made = kept.record.status === "completed" ? null : await assemble(call, kept);
      const id = made?.id ?? kept.record.resource ?? "";
      const { kept: resource, head } = await store.find(tenant, "resource", id);
      if (resource === null) throw missing("resource", id);
      return { body: { ...viewResource(resource.record), asOf: head } };
    },
  };

  /** Null where somebody else has completed it meanwhile: theirs counts. */
  async function assemble(call: Call, { record: upload, rev }: Kept<UploadRecord>): Promise<ResourceRecord | null> {
    const { nextPart, totalParts, uploadedBytes } = viewUpload(upload);
    if (nextPart < totalParts)
      throw fault("E.REQUEST.INVALID", `part ${nextPart} is missing: ${uploadedBytes} of ${upload.sizeBytes} bytes are here`, {
        nextPart,
      });
    const { tenant } = call.identity;
    const { provider, visibility, filename, mimeType, owner, metadata, sha256, sizeBytes } = upload;
    const blobs = keeper.blobsOf(provider);
    async function* joined(): AsyncGenerator<Uint8Array> {
      for (let part = 0; part < totalParts; part += 1) yield* blobs.read({ tenant, name: `${upload.id}.${part}` });
    }
    const named = { provider, visibility, filename, mimeType, owner, metadata, sha256, bytesMax: sizeBytes };
    try {
      const made = await keeper.keep(doerOf(call), named, joined(), ({ id }) => [
        putUpload({ ...upload, status: "completed", resource: id, updatedAt: clock.now() }, rev),
      ]);
      await keeper.dropParts(tenant, upload);
      return made;
    } catch (why) {
      if (!isConflict(why) && !(why instanceof Fault && why.code === "E.NOT_FOUND")) throw why;
      const { kept } = await find(call);
      if (kept.record.status !== "completed") throw why;
      return (await store.find(tenant, "resource", kept.record.resource ?? "")).kept?.record ?? null;
    }
  }
}

async function* emptyBody(): AsyncGenerator<Buffer> {
  // A body that was not sent.
}

function readPart(text: string | undefined): number {
  if (text !== undefined && /^\d{1,6}$/.test(text)) return Number(text);
  throw fault("E.REQUEST.INVALID", "the number of a part must be a whole number from 0", { path: "params.partNumber" });
}

function refuseTooLarge({ sizeBytes, chunkSize, metadata }: ResourceUploadInit, bytesMax: number): void {
  if (sizeBytes > bytesMax) throw fault("E.REQUEST.TOO_LARGE", `a file may have ${bytesMax} bytes with this provider`);
  if (Math.ceil(sizeBytes / (chunkSize ?? resourceLimits.chunkBytesMax)) > resourceLimits.partsMax)
    throw fault("E.REQUEST.INVALID", `there would be more than ${resourceLimits.partsMax} parts; choose a larger chunkSize`, {
      path: "body.chunkSize",
    });
  if (metadata !== undefined && JSON.stringify(metadata).length > resourceLimits.metadataBytesMax)
    throw fault("E.REQUEST.INVALID", `body.metadata is longer than ${resourceLimits.metadataBytesMax} characters`, {
      path: "body.metadata",
    });
}

const chunkSizeOf = ({ chunkSize, sizeBytes }: ResourceUploadInit): number =>
  chunkSize ?? Math.max(resourceLimits.chunkBytesDefault, Math.ceil(sizeBytes / resourceLimits.partsMax));

const sizeOfPart = (upload: UploadRecord, part: number): number =>
  Math.min(upload.chunkSize, upload.sizeBytes - part * upload.chunkSize);

/** Not one byte less; more is refused by whoever writes them. */
async function* exactly(source: AsyncIterable<Uint8Array>, wanted: number): AsyncGenerator<Uint8Array> {
  let came = 0;
  for await (const chunk of source) {
    came += chunk.length;
    if (came > wanted) break;
    yield chunk;
  }
  if (came !== wanted)
    throw fault("E.REQUEST.INVALID", `chunk size mismatch: this part must have exactly ${wanted} bytes`, { wantedBytes: wanted });
}

const hasPart = ({ parts }: UploadRecord, part: number): boolean => parts.some(([first, last]) => part >= first && part <= last);

/** The stretches with one part more, those that touch made one. */
export function withPart(parts: UploadRecord["parts"], part: number): UploadRecord["parts"] {
  const merged: [number, number][] = [];
  for (const [first, last] of [...parts, [part, part] as const].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

function viewUpload(upload: UploadRecord): ResourceUploadSession {
  const { id, owner: _owner, visibility: _visibility, parts, resource, createdAt, updatedAt, ...rest } = upload;
  const { mimeType, sha256, metadata, status, ...plain } = rest;
  const totalParts = partsOf(upload);
  const isDone = status === "completed";
  // Of one that is over nothing is missing, though no part came, or they are kept no longer.
  const there: typeof parts = isDone ? [[0, totalParts - 1]] : parts;
  const completedParts = there.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
  const bytes = completedParts.reduce((sum, part) => sum + sizeOfPart(upload, part), 0);
  const [first] = parts;
  const nextPart = first === undefined || first[0] > 0 ? 0 : first[1] + 1;
  return {
    uploadId: id,
    ...plain,
    status: status === "removing" ? "aborted" : status,
    uploadedBytes: isDone ? upload.sizeBytes : bytes,
    nextPart: isDone ? totalParts : nextPart,
    totalParts,
    completedParts,
    createdAt: instant(createdAt),
    updatedAt: instant(updatedAt),
    ...(mimeType !== null && { mimeType }),
    ...(sha256 !== null && { sha256 }),
    ...(metadata !== null && { metadata }),
    ...(resource !== null && { resourceId: resource }),
  };
}
