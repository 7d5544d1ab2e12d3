// Uploads in parts: begun with a size, filled in any order, made into a resource at the end. Until then each part is a blob of its own.

import { fault, type ResourceUploadInit, type ResourceUploadSession, resourceLimits } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/document-list.ts";
import {
  type FoundRecord,
  idempotencyKeyFor,
  idForRequest,
  isConflict,
  isNotFound,
  notFound,
  retryOnConflict,
  type StoredRecord,
} from "../documents/documents.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { canSeeResource, isExpired, partCountOf, type ResourceRepository } from "./resource-repository.ts";
import { type ResourceRecord, type UploadRecord, uploadPut } from "./resource-store.ts";

/** Parts that arrive at the same time change one document, so conflicts are frequent and short. */
const updateAttemptsMax = 50;

export class ResourceUploads {
  readonly #repository: ResourceRepository;

  constructor(repository: ResourceRepository) {
    this.#repository = repository;
  }

  find({ identity }: Caller, id: string): Promise<FoundRecord<UploadRecord>> {
    const { clock } = this.#repository.context.environment;
    const exists = (upload: UploadRecord): boolean => upload.status !== "removing" && !isExpired(upload, clock.now());
    const isVisible = (upload: UploadRecord): boolean => exists(upload) && isOwnerOrAdmin(identity, upload.owner);
    return this.#repository.uploads.findVisible(identity.tenant, id, isVisible);
  }

  /** Begins an upload. It is complete at once if the caller may see a resource with the same digest. */
  async create(caller: Caller, wanted: ResourceUploadInit, key: string | null) {
    const { uploads, context } = this.#repository;
    const { tenant, user } = caller.identity;
    await this.#repository.sweepExpiredUploads(tenant);
    const provider = wanted.provider ?? this.#repository.defaultProvider;
    checkUploadSize(wanted, this.#repository.blobStoreOf(provider).bytesMax);
    const identical = await this.#findIdenticalResource(caller, wanted, provider);
    const now = context.environment.clock.now();
    const upload: UploadRecord = {
      id: idForRequest(context, "upload", user, key),
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
    const { repeated } = await uploads.write(actorOf(caller), {
      puts: [uploadPut(upload, 0)],
      audit: { action: "upload.create", targetType: "upload", target: upload.id },
      ask: idempotencyKeyFor(context.digest, key, { of: "createUpload", wanted }),
    });
    const { record, head } = await uploads.find(tenant, upload.id);
    const created = repeated ? record : upload;
    if (created === null) throw notFound("upload", upload.id);
    return { upload: created, repeated, head };
  }

  async abort(caller: Caller, id: string): Promise<void> {
    await this.#repository.deleteUpload(actorOf(caller), await this.find(caller, id), "upload.abort");
  }

  /** Stores one part, unless it is there already. `receive` reads the body and passes its bytes to the given function. */
  async putPart(
    caller: Caller,
    id: string,
    part: number,
    receive: (store: (bytes: AsyncIterable<Uint8Array>) => Promise<unknown>) => Promise<unknown>,
  ): Promise<{ upload: UploadRecord; receivedBytes: number }> {
    const { record: upload } = await this.find(caller, id);
    if (part >= partCountOf(upload))
      throw fault("E.NOT_FOUND", `upload ${upload.id} has no part ${part}: it has the parts 0 to ${partCountOf(upload) - 1}`, {
        path: "params.partNumber",
      });
    const receivedBytes = sizeOfPart(upload, part);
    if (!needsPart(upload, part)) return { upload, receivedBytes };
    const blobKey = { tenant: caller.identity.tenant, name: `${upload.id}.${part}` };
    const blobs = this.#repository.blobStoreOf(upload.provider);
    await receive((bytes) => blobs.write(blobKey, requireExactLength(bytes, receivedBytes), receivedBytes));
    const filled = await this.#recordPart(caller, id, part).catch(async (why: unknown) => {
      // The upload was aborted meanwhile, so nobody else deletes these bytes.
      if (isNotFound(why)) await blobs.delete(blobKey);
      throw why;
    });
    return { upload: filled, receivedBytes };
  }

  /** Makes the parts into a resource. */
  async complete(caller: Caller, id: string): Promise<{ resource: ResourceRecord; head: number }> {
    const upload = await this.find(caller, id);
    const assembled = upload.record.status === "completed" ? null : await this.#assemble(caller, upload);
    const resourceId = assembled?.id ?? upload.record.resource ?? "";
    const { record, head } = await this.#repository.records.find(caller.identity.tenant, resourceId);
    if (record === null) throw notFound("resource", resourceId);
    return { resource: record, head };
  }

  /** A resource that the caller may see with the same digest and size. */
  async #findIdenticalResource({ identity }: Caller, { sha256, sizeBytes }: ResourceUploadInit, provider: string) {
    if (sha256 === undefined) return null;
    const search = sha256.toLowerCase();
    const isSame = (one: ResourceRecord): boolean =>
      one.sha256 === search && one.provider === provider && one.sizeBytes === sizeBytes && canSeeResource(identity, one);
    const query = { tenant: identity.tenant, search, order: "desc", limit: 200 } as const;
    const { items } = await readVisiblePage((from) => this.#repository.records.list({ ...query, ...from }), isSame);
    return items[0]?.record ?? null;
  }

  #recordPart(caller: Caller, id: string, part: number): Promise<UploadRecord> {
    return retryOnConflict(updateAttemptsMax, async () => {
      const { record, rev } = await this.find(caller, id);
      if (!needsPart(record, part)) return record;
      const updatedAt = this.#repository.context.environment.clock.now();
      const filled = { ...record, parts: withPartAdded(record.parts, part), updatedAt };
      await this.#repository.uploads.write(actorOf(caller), { puts: [uploadPut(filled, rev)] });
      return filled;
    });
  }

  /** If another request completes the upload at the same time, its resource counts; null if that is gone. */
  async #assemble(caller: Caller, { record: upload, rev }: StoredRecord<UploadRecord>): Promise<ResourceRecord | null> {
    const { nextPart, totalParts, uploadedBytes } = presentUpload(upload);
    const { provider, visibility, filename, mimeType, owner, metadata, sha256, sizeBytes } = upload;
    if (nextPart < totalParts)
      throw fault("E.CONFLICT", `part ${nextPart} is missing: ${uploadedBytes} of ${sizeBytes} bytes are here`, { nextPart });
    const { tenant } = caller.identity;
    const blobs = this.#repository.blobStoreOf(provider);
    async function* joined(): AsyncGenerator<Uint8Array> {
      for (let part = 0; part < totalParts; part += 1) yield* blobs.read({ tenant, name: `${upload.id}.${part}` });
    }
    const named = { provider, visibility, filename, mimeType, owner, metadata, sha256, bytesMax: sizeBytes };
    try {
      const updatedAt = this.#repository.context.environment.clock.now();
      const assembled = await this.#repository.create(actorOf(caller), named, joined(), ({ id }) => [
        uploadPut({ ...upload, status: "completed", resource: id, updatedAt }, rev),
      ]);
      await this.#repository.deleteParts(tenant, upload);
      return assembled;
    } catch (why) {
      if (!isConflict(why) && !isNotFound(why)) throw why;
      const { record } = await this.find(caller, upload.id);
      if (record.status !== "completed") throw why;
      return (await this.#repository.records.find(tenant, record.resource ?? "")).record;
    }
  }
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

/** Fails if there are fewer or more bytes than wanted. */
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

const needsPart = ({ status, parts }: UploadRecord, part: number): boolean =>
  status === "pending" && !parts.some(([first, last]) => part >= first && part <= last);

/** The ranges with one more part; adjacent ranges are merged. */
export function withPartAdded(parts: UploadRecord["parts"], part: number): UploadRecord["parts"] {
  const merged: [number, number][] = [];
  for (const [first, last] of [...parts, [part, part] as const].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

export function presentUpload(upload: UploadRecord): ResourceUploadSession {
  const { id, owner: _owner, visibility: _visibility, parts, resource, createdAt, updatedAt, ...rest } = upload;
  const { mimeType, sha256, metadata, status, ...plain } = rest;
  const totalParts = partCountOf(upload);
  const isDone = status === "completed";
  // A completed upload misses nothing, though its parts may never have been sent or are deleted.
  const shownParts: typeof parts = isDone ? [[0, totalParts - 1]] : parts;
  const completedParts = shownParts.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
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
