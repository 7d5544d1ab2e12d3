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
import {
  actorOf,
  canSeeResource,
  isConflict,
  isExpired,
  isOwnerOrAdmin,
  isoTime,
  partCountOf,
  type ResourceRecord,
  type ResourceRepository,
  type ResourceRepositoryOptions,
  readVisiblePage,
  resourceNotFound,
  type StoredRecord,
  type UploadRecord,
  uploadPut,
} from "@astraflow/services";
import { type RestCall, type RouteHandler, readIdempotencyKey, readJsonBody } from "../requests/rest-call.ts";
import { isMultipart, readMultipartForm, readRawBody } from "./multipart-form.ts";
import { presentResource } from "./resource-response.ts";

export type UploadRoutes = "createUpload" | "getUpload" | "abortUpload" | "putUploadPart" | "completeUpload";

/** Parts that come at the same moment change one document; each finds its turn soon. */
const updateAttemptsMax = 50;

export function uploadHandlers(
  { environment, digest }: ResourceRepositoryOptions,
  repository: ResourceRepository,
): Record<UploadRoutes, RouteHandler> {
  const { clock, ids } = environment;
  const { store } = repository;

  const find = async (call: RestCall): Promise<{ stored: StoredRecord<UploadRecord>; head: number }> => {
    const id = call.params["uploadId"] ?? "";
    const { stored, head } = await store.find(call.identity.tenant, "upload", id);
    const isThere = stored !== null && stored.record.status !== "removing" && !isExpired(stored.record, clock.now());
    if (!isThere || !isOwnerOrAdmin(call.identity, stored.record.owner)) throw resourceNotFound("upload", id);
    return { stored, head };
  };
  /** A resource that the caller may see with the same bytes, as far as a digest can say. */
  const findIdenticalResource = async (
    call: RestCall,
    wanted: ResourceUploadInit,
    provider: string,
  ): Promise<ResourceRecord | null> => {
    if (wanted.sha256 === undefined) return null;
    const search = wanted.sha256.toLowerCase();
    const isSame = (one: ResourceRecord): boolean =>
      one.sha256 === search &&
      one.provider === provider &&
      one.sizeBytes === wanted.sizeBytes &&
      canSeeResource(call.identity, one);
    const list = (after: string | undefined) =>
      store.list("resource", {
        tenant: call.identity.tenant,
        search,
        order: "desc",
        limit: 200,
        ...(after !== undefined && { after }),
      });
    return (await readVisiblePage(list, isSame, undefined)).items[0] ?? null;
  };
  const recordPart = async (call: RestCall, part: number): Promise<UploadRecord> => {
    for (let attempts = 1; ; attempts += 1) {
      const { stored } = await find(call);
      if (stored.record.status !== "pending" || hasPart(stored.record, part)) return stored.record;
      const filled = { ...stored.record, parts: withPartAdded(stored.record.parts, part), updatedAt: clock.now() };
      try {
        await store.write(actorOf(call), { puts: [uploadPut(filled, stored.rev)] });
        return filled;
      } catch (why) {
        if (!isConflict(why) || attempts >= updateAttemptsMax) throw why;
      }
    }
  };
  /** The upload was given up while the part came in: its bytes belong to nobody. */
  const deleteOrphanedPart =
    ({ identity }: RestCall, { id, provider }: UploadRecord, part: number) =>
    async (why: unknown): Promise<never> => {
      if (why instanceof Fault && why.code === "E.NOT_FOUND")
        await repository.blobStoreOf(provider).delete({ tenant: identity.tenant, name: `${id}.${part}` });
      throw why;
    };
  const storePart = async (call: RestCall, upload: UploadRecord, part: number): Promise<void> => {
    const blobKey = { tenant: call.identity.tenant, name: `${upload.id}.${part}` };
    const wanted = sizeOfPart(upload, part);
    const body = call.stream ?? emptyBody();
    const media = call.header("content-type");
    const isRawBody = media?.split(";")[0]?.trim().toLowerCase() === "application/octet-stream";
    if (!isRawBody && !isMultipart(media))
      throw fault(
        "E.REQUEST.MEDIA",
        "send the part as multipart/form-data, in a part named file, or as application/octet-stream",
      );
    const storeBytes = (bytes: AsyncIterable<Uint8Array>) =>
      repository.blobStoreOf(upload.provider).write(blobKey, requireExactLength(bytes, wanted), wanted);
    await (isRawBody
      ? storeBytes(readRawBody(body))
      : readMultipartForm(media, body, { onFile: ({ bytes }) => storeBytes(bytes) }));
  };

  return {
    async createUpload(call) {
      const key = readIdempotencyKey(call);
      const wanted = readResourceUploadInit(readJsonBody(call));
      if (wanted instanceof Fault) throw wanted;
      const { tenant, user } = call.identity;
      await repository.sweepExpiredUploads(tenant);
      const provider = wanted.provider ?? repository.defaultProvider;
      checkUploadSize(wanted, repository.blobStoreOf(provider).bytesMax);
      const identical = await findIdenticalResource(call, wanted, provider);
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
        status: identical === null ? "pending" : "completed",
        resource: identical?.id ?? null,
        parts: [],
      };
      const audit = { action: "upload.create", targetType: "upload", target: upload.id };
      const idempotencyKey = key === null ? null : { key, digest: digest(canonicalJson({ of: "createUpload", wanted })) };
      const { repeated } = await store.write(actorOf(call), { puts: [uploadPut(upload, 0)], audit, ask: idempotencyKey });
      const { stored, head } = await store.find(tenant, "upload", upload.id);
      const uploadShown = repeated ? stored?.record : upload;
      if (uploadShown === undefined) throw resourceNotFound("upload", upload.id);
      const headers = { location: `/api/v1/resources/uploads/${upload.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...presentUpload(uploadShown), asOf: head }, headers };
    },

    async getUpload(call) {
      const { stored, head } = await find(call);
      return { body: { ...presentUpload(stored.record), asOf: head } };
    },

    async abortUpload(call) {
      const { stored } = await find(call);
      await repository.deleteUpload(actorOf(call), stored, "upload.abort");
      return { body: "", status: 204 };
    },

    async putUploadPart(call) {
      const part = readPartNumber(call.params["partNumber"]);
      const { record: upload } = (await find(call)).stored;
      if (part >= partCountOf(upload))
        throw fault("E.REQUEST.INVALID", `the upload has the parts 0 to ${partCountOf(upload) - 1}`, {
          path: "params.partNumber",
        });
      const isNew = upload.status === "pending" && !hasPart(upload, part);
      if (isNew) await storePart(call, upload, part);
      const after = isNew ? await recordPart(call, part).catch(deleteOrphanedPart(call, upload, part)) : upload;
      const { uploadedBytes, nextPart, totalParts } = presentUpload(after);
      const status = nextPart === totalParts ? "completed" : "pending";
      return {
        body: { uploadId: upload.id, partNumber: part, uploadedBytes, nextPart, status, receivedBytes: sizeOfPart(upload, part) },
      };
    },

    async completeUpload(call) {
      readIdempotencyKey(call);
      const { tenant } = call.identity;
      const { stored } = await find(call);
      const assembled = stored.record.status === "completed" ? null : await assemble(call, stored);
      const id = assembled?.id ?? stored.record.resource ?? "";
      const { stored: resource, head } = await store.find(tenant, "resource", id);
      if (resource === null) throw resourceNotFound("resource", id);
      return { body: { ...presentResource(resource.record), asOf: head } };
    },
  };

  /** Null where somebody else has completed it meanwhile: theirs counts. */
  async function assemble(call: RestCall, { record: upload, rev }: StoredRecord<UploadRecord>): Promise<ResourceRecord | null> {
    const { nextPart, totalParts, uploadedBytes } = presentUpload(upload);
    if (nextPart < totalParts)
      throw fault("E.REQUEST.INVALID", `part ${nextPart} is missing: ${uploadedBytes} of ${upload.sizeBytes} bytes are here`, {
        nextPart,
      });
    const { tenant } = call.identity;
    const { provider, visibility, filename, mimeType, owner, metadata, sha256, sizeBytes } = upload;
    const blobs = repository.blobStoreOf(provider);
    async function* joined(): AsyncGenerator<Uint8Array> {
      for (let part = 0; part < totalParts; part += 1) yield* blobs.read({ tenant, name: `${upload.id}.${part}` });
    }
    const named = { provider, visibility, filename, mimeType, owner, metadata, sha256, bytesMax: sizeBytes };
    try {
      const assembled = await repository.create(actorOf(call), named, joined(), ({ id }) => [
        uploadPut({ ...upload, status: "completed", resource: id, updatedAt: clock.now() }, rev),
      ]);
      await repository.deleteParts(tenant, upload);
      return assembled;
    } catch (why) {
      if (!isConflict(why) && !(why instanceof Fault && why.code === "E.NOT_FOUND")) throw why;
      const { stored } = await find(call);
      if (stored.record.status !== "completed") throw why;
      return (await store.find(tenant, "resource", stored.record.resource ?? "")).stored?.record ?? null;
    }
  }
}

async function* emptyBody(): AsyncGenerator<Buffer> {
  // A body that was not sent.
}

function readPartNumber(text: string | undefined): number {
  if (text !== undefined && /^\d{1,6}$/.test(text)) return Number(text);
  throw fault("E.REQUEST.INVALID", "the number of a part must be a whole number from 0", { path: "params.partNumber" });
}

function checkUploadSize({ sizeBytes, chunkSize, metadata }: ResourceUploadInit, bytesMax: number): void {
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
async function* requireExactLength(source: AsyncIterable<Uint8Array>, wanted: number): AsyncGenerator<Uint8Array> {
  let receivedBytes = 0;
  for await (const chunk of source) {
    receivedBytes += chunk.length;
    if (receivedBytes > wanted) break;
    yield chunk;
  }
  if (receivedBytes !== wanted)
    throw fault("E.REQUEST.INVALID", `chunk size mismatch: this part must have exactly ${wanted} bytes`, { wantedBytes: wanted });
}

const hasPart = ({ parts }: UploadRecord, part: number): boolean => parts.some(([first, last]) => part >= first && part <= last);

/** The stretches with one part more, those that touch made one. */
export function withPartAdded(parts: UploadRecord["parts"], part: number): UploadRecord["parts"] {
  const merged: [number, number][] = [];
  for (const [first, last] of [...parts, [part, part] as const].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

function presentUpload(upload: UploadRecord): ResourceUploadSession {
  const { id, owner: _owner, visibility: _visibility, parts, resource, createdAt, updatedAt, ...rest } = upload;
  const { mimeType, sha256, metadata, status, ...plain } = rest;
  const totalParts = partCountOf(upload);
  const isDone = status === "completed";
  // Of one that is over nothing is missing, though no part came, or they are kept no longer.
  const uploadShown: typeof parts = isDone ? [[0, totalParts - 1]] : parts;
  const completedParts = uploadShown.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
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
    createdAt: isoTime(createdAt),
    updatedAt: isoTime(updatedAt),
    ...(mimeType !== null && { mimeType }),
    ...(sha256 !== null && { sha256 }),
    ...(metadata !== null && { metadata }),
    ...(resource !== null && { resourceId: resource }),
  };
}
