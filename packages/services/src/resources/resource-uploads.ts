// Uploads in parts: begun with a size, filled in any order, made into a resource at the end. Until then each part is a blob of its own.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, type ResourceUploadInit, type ResourceUploadSession, resourceLimits } from "@astraflow/protocol";
import { isConflict, retryOnConflict } from "../documents/documents.ts";
import { readVisiblePage } from "../documents/visible-page.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import { isoTime } from "../presentation/run-view.ts";
import { canSeeResource, isExpired, partCountOf, type ResourceRepository, resourceNotFound } from "./resource-repository.ts";
import { type ResourceRecord, type StoredRecord, type UploadRecord, uploadPut } from "./resource-store.ts";

/** Parts that arrive at the same time change one document, so conflicts are frequent and short. */
const updateAttemptsMax = 50;

export async function findUpload(
  { store, environment }: ResourceRepository,
  { identity }: Caller,
  id: string,
): Promise<{ stored: StoredRecord<UploadRecord>; head: number }> {
  const { stored, head } = await store.find(identity.tenant, "upload", id);
  const exists = stored !== null && stored.record.status !== "removing" && !isExpired(stored.record, environment.clock.now());
  if (!exists || !isOwnerOrAdmin(identity, stored.record.owner)) throw resourceNotFound("upload", id);
  return { stored, head };
}

/** Begins an upload. It is complete at once if the caller may see a resource with the same digest. */
export async function createUpload(
  repository: ResourceRepository,
  caller: Caller,
  wanted: ResourceUploadInit,
  key: string | null,
): Promise<{ upload: UploadRecord; repeated: boolean; head: number }> {
  const { store, digest, environment } = repository;
  const { tenant, user } = caller.identity;
  await repository.sweepExpiredUploads(tenant);
  const provider = wanted.provider ?? repository.defaultProvider;
  checkUploadSize(wanted, repository.blobStoreOf(provider).bytesMax);
  const identical = await findIdenticalResource(repository, caller, wanted, provider);
  const now = environment.clock.now();
  const upload: UploadRecord = {
    // With a key the id is derived from it, so that a repeated request finds the upload.
    id: key === null ? environment.ids.next() : digest(canonicalJson({ of: "upload", user, key })),
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
  const { repeated } = await store.write(actorOf(caller), {
    puts: [uploadPut(upload, 0)],
    audit: { action: "upload.create", targetType: "upload", target: upload.id },
    ask: key === null ? null : { key, digest: digest(canonicalJson({ of: "createUpload", wanted })) },
  });
  const { stored, head } = await store.find(tenant, "upload", upload.id);
  const created = repeated ? stored?.record : upload;
  if (created === undefined) throw resourceNotFound("upload", upload.id);
  return { upload: created, repeated, head };
}

/** A resource that the caller may see with the same digest and size. */
async function findIdenticalResource(
  { store }: ResourceRepository,
  { identity }: Caller,
  wanted: ResourceUploadInit,
  provider: string,
): Promise<ResourceRecord | null> {
  if (wanted.sha256 === undefined) return null;
  const search = wanted.sha256.toLowerCase();
  const isSame = (one: ResourceRecord): boolean =>
    one.sha256 === search && one.provider === provider && one.sizeBytes === wanted.sizeBytes && canSeeResource(identity, one);
  const query = { tenant: identity.tenant, search, order: "desc", limit: 200 } as const;
  const list = (after: string | undefined) => store.list("resource", { ...query, ...(after !== undefined && { after }) });
  return (await readVisiblePage(list, isSame, undefined)).items[0] ?? null;
}

export async function abortUpload(repository: ResourceRepository, caller: Caller, id: string): Promise<void> {
  const { stored } = await findUpload(repository, caller, id);
  await repository.deleteUpload(actorOf(caller), stored, "upload.abort");
}

/** Stores one part, unless it is there already. `receive` reads the body and passes its bytes to the given function. */
export async function putUploadPart(
  repository: ResourceRepository,
  caller: Caller,
  id: string,
  part: number,
  receive: (store: (bytes: AsyncIterable<Uint8Array>) => Promise<unknown>) => Promise<unknown>,
): Promise<{ upload: UploadRecord; receivedBytes: number }> {
  const { record: upload } = (await findUpload(repository, caller, id)).stored;
  if (part >= partCountOf(upload))
    throw fault("E.REQUEST.INVALID", `the upload has the parts 0 to ${partCountOf(upload) - 1}`, { path: "params.partNumber" });
  const receivedBytes = sizeOfPart(upload, part);
  if (upload.status !== "pending" || hasPart(upload, part)) return { upload, receivedBytes };
  const blobKey = { tenant: caller.identity.tenant, name: `${upload.id}.${part}` };
  const blobs = repository.blobStoreOf(upload.provider);
  await receive((bytes) => blobs.write(blobKey, requireExactLength(bytes, receivedBytes), receivedBytes));
  const filled = await recordPart(repository, caller, id, part).catch(async (why: unknown) => {
    // The upload was aborted meanwhile, so nobody else deletes these bytes.
    if (why instanceof Fault && why.code === "E.NOT_FOUND") await blobs.delete(blobKey);
    throw why;
  });
  return { upload: filled, receivedBytes };
}

const recordPart = (repository: ResourceRepository, caller: Caller, id: string, part: number): Promise<UploadRecord> =>
  retryOnConflict(updateAttemptsMax, async () => {
    const { stored } = await findUpload(repository, caller, id);
    if (stored.record.status !== "pending" || hasPart(stored.record, part)) return stored.record;
    const updatedAt = repository.environment.clock.now();
    const filled = { ...stored.record, parts: withPartAdded(stored.record.parts, part), updatedAt };
    await repository.store.write(actorOf(caller), { puts: [uploadPut(filled, stored.rev)] });
    return filled;
  });

/** Makes the parts into a resource. */
export async function completeUpload(
  repository: ResourceRepository,
  caller: Caller,
  id: string,
): Promise<{ resource: ResourceRecord; head: number }> {
  const { stored: upload } = await findUpload(repository, caller, id);
  const assembled = upload.record.status === "completed" ? null : await assemble(repository, caller, upload);
  const resourceId = assembled?.id ?? upload.record.resource ?? "";
  const { stored, head } = await repository.store.find(caller.identity.tenant, "resource", resourceId);
  if (stored === null) throw resourceNotFound("resource", resourceId);
  return { resource: stored.record, head };
}

/** If another request completes the upload at the same time, its resource counts; null if that is gone. */
async function assemble(
  repository: ResourceRepository,
  caller: Caller,
  { record: upload, rev }: StoredRecord<UploadRecord>,
): Promise<ResourceRecord | null> {
  const { nextPart, totalParts, uploadedBytes } = presentUpload(upload);
  if (nextPart < totalParts)
    throw fault("E.REQUEST.INVALID", `part ${nextPart} is missing: ${uploadedBytes} of ${upload.sizeBytes} bytes are here`, {
      nextPart,
    });
  const { tenant } = caller.identity;
  const { provider, visibility, filename, mimeType, owner, metadata, sha256, sizeBytes } = upload;
  const blobs = repository.blobStoreOf(provider);
  async function* joined(): AsyncGenerator<Uint8Array> {
    for (let part = 0; part < totalParts; part += 1) yield* blobs.read({ tenant, name: `${upload.id}.${part}` });
  }
  const named = { provider, visibility, filename, mimeType, owner, metadata, sha256, bytesMax: sizeBytes };
  try {
    const updatedAt = repository.environment.clock.now();
    const assembled = await repository.create(actorOf(caller), named, joined(), ({ id }) => [
      uploadPut({ ...upload, status: "completed", resource: id, updatedAt }, rev),
    ]);
    await repository.deleteParts(tenant, upload);
    return assembled;
  } catch (why) {
    if (!isConflict(why) && !(why instanceof Fault && why.code === "E.NOT_FOUND")) throw why;
    const { stored } = await findUpload(repository, caller, upload.id);
    if (stored.record.status !== "completed") throw why;
    return (await repository.store.find(tenant, "resource", stored.record.resource ?? "")).stored?.record ?? null;
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

const hasPart = ({ parts }: UploadRecord, part: number): boolean => parts.some(([first, last]) => part >= first && part <= last);

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
