// Keeps bytes and documents of resources together: a document is written before its bytes, so that no bytes are left that no document
// names. A document with status "removing" says that the bytes under its id must be deleted; the sweep does it after a crash.

import type { IdempotencyKey, StoreReader } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, resourceLimits } from "@astraflow/protocol";
import { isConflict } from "../documents/documents.ts";
import { readVisiblePage } from "../documents/visible-page.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { type Actor, actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";
import { type BlobKey, type BlobStore, type BlobStores, measureBytes, type StoredBlob } from "./blob-store.ts";
import {
  createResourceStore,
  type ResourceRecord,
  type ResourceStore,
  resourcePut,
  type StoredRecord,
  type UploadRecord,
  uploadPut,
} from "./resource-store.ts";

export interface ResourceRepositoryOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  readonly blobs: BlobStores;
  readonly digest: (text: string) => string;
}

export const uploadLimits = {
  /** Since its last part. */
  expireAfterMs: 86_400_000,
  sweepIntervalMs: 300_000,
  /** Uploads that one sweep removes; the next sweep continues. */
  sweepMax: 50,
} as const;

export interface ResourceRepository {
  readonly store: ResourceStore;
  readonly environment: ServiceEnvironment;
  readonly digest: (text: string) => string;
  blobStoreOf(provider: "local" | "db"): BlobStore;
  readonly defaultProvider: "local" | "db";
  /** Writes the bytes, then the resource together with `additionalPuts`. If that fails nothing is left. */
  create(
    actor: Actor,
    resource: NewResource,
    source: AsyncIterable<Uint8Array>,
    additionalPuts?: AdditionalPuts,
  ): Promise<ResourceRecord>;
  remove(actor: Actor, stored: StoredRecord<ResourceRecord>): Promise<void>;
  deleteUpload(actor: Actor, stored: StoredRecord<UploadRecord>, action: string | null): Promise<void>;
  deleteParts(tenant: string, upload: UploadRecord): Promise<void>;
  /** Removes uploads that were idle for too long, at most once per interval. */
  sweepExpiredUploads(tenant: string): Promise<void>;
}

export type NewResource = Omit<ResourceRecord, "id" | "sizeBytes" | "sha256" | "createdAt"> & {
  /** Absent: a new one. */
  readonly id?: string;
  /** The caller's key, from which the id follows. */
  readonly ask?: IdempotencyKey;
  readonly sha256: string | null;
  readonly bytesMax: number;
  /** Fields that are known only after the bytes; may throw to refuse them. */
  readonly readLateFields?: () => Partial<Pick<ResourceRecord, "provider" | "visibility" | "filename" | "mimeType">> & {
    readonly sha256: string | null;
  };
};

/** Further documents to write with the resource, once its id is known. */
export type AdditionalPuts = (resource: ResourceRecord) => Parameters<ResourceStore["write"]>[1]["puts"];

export function createResourceRepository(options: ResourceRepositoryOptions): ResourceRepository {
  const { environment, blobs } = options;
  const { clock, ids } = environment;
  const store = createResourceStore(options);
  const sweptAt = new Map<string, number>();

  const blobStoreOf = (provider: "local" | "db"): BlobStore => {
    const found = blobs[provider];
    if (found !== undefined) return found;
    const available = Object.keys(blobs).join(", ");
    throw fault("E.REQUEST.INVALID", `this scheduler has no provider ${provider} for files; it has ${available}`, {
      path: "provider",
    });
  };
  const deletionMarker = (id: string, provider: "local" | "db", owner: string): UploadRecord => {
    const now = clock.now();
    const nothing = { filename: "", sizeBytes: 0, chunkSize: 1, mimeType: null, sha256: null, metadata: null, resource: null };
    return {
      id,
      owner,
      provider,
      visibility: "private",
      ...nothing,
      createdAt: now,
      updatedAt: now,
      status: "removing",
      parts: [],
    };
  };
  /**
   * Deletes the bytes first, from every store: after a crash the document still says what to do. Of two requests with one key the slower
   * may have written its marker after the faster one was done: then the bytes belong to a resource and stay.
   */
  const completeDeletion = async (actor: Actor, { record, rev }: StoredRecord<UploadRecord>): Promise<void> => {
    if ((await store.find(actor.tenant, "resource", record.id)).stored === null)
      for (const place of Object.values(blobs)) await place.delete({ tenant: actor.tenant, name: record.id });
    await store.write(actor, { drops: [{ collection: "upload", name: record.id, rev }] });
  };
  const deleteParts: ResourceRepository["deleteParts"] = async (tenant, upload) => {
    const parts = partCountOf(upload);
    for (let part = 0; part < parts; part += 1) await blobs[upload.provider]?.delete({ tenant, name: `${upload.id}.${part}` });
  };
  const deleteUpload: ResourceRepository["deleteUpload"] = async (actor, { record, rev }, action) => {
    if (record.status === "removing") return completeDeletion(actor, { record, rev });
    if (record.status === "pending" || record.parts.length > 0) await deleteParts(actor.tenant, record);
    const audit = action === null ? {} : { audit: { action, targetType: "upload", target: record.id } };
    await store.write(actor, { drops: [{ collection: "upload", name: record.id, rev }], ...audit });
  };

  return {
    store,
    environment,
    digest: options.digest,
    blobStoreOf,
    defaultProvider: blobs.local === undefined ? "db" : "local",
    deleteParts,
    deleteUpload,

    async create(
      actor,
      { id = ids.next(), ask: idempotencyKey = null, bytesMax, sha256, readLateFields, ...named },
      source,
      additionalPuts,
    ) {
      const blobKey = { tenant: actor.tenant, name: id };
      const into = blobStoreOf(named.provider);
      const marker = deletionMarker(id, named.provider, named.owner);
      const { revs } = await store.write(actor, { puts: [uploadPut(marker, 0)] });
      const rev = revs[0] ?? 1;
      let isWriting = false;
      try {
        if (idempotencyKey !== null && (await store.find(actor.tenant, "resource", id)).stored !== null)
          throw concurrentRequestFault();
        const stored = await into.write(blobKey, source, bytesMax);
        const lateFields = readLateFields?.() ?? { sha256 };
        checkDigest(stored, lateFields.sha256);
        if (lateFields.provider !== undefined && lateFields.provider !== named.provider)
          await moveBlob(blobKey, into, blobStoreOf(lateFields.provider));
        const resource: ResourceRecord = { id, ...named, ...lateFields, ...stored, createdAt: clock.now() };
        isWriting = true;
        const { repeated } = await store.write(actor, {
          ask: idempotencyKey,
          puts: [resourcePut(resource, 0), ...(additionalPuts?.(resource) ?? [])],
          drops: [{ collection: "upload", name: id, rev }],
          audit: { action: "resource.create", targetType: "resource", target: id, data: { sizeBytes: stored.sizeBytes } },
        });
        isWriting = false;
        // It was created with this key before and has been deleted since.
        if (repeated) throw resourceNotFound("resource", id);
        return resource;
      } catch (why) {
        // If it is unknown whether the write succeeded, the bytes stay; the sweep checks the marker if it is still there.
        if (isWriting && !isConflict(why) && !isIdempotencyMismatch(why)) throw why;
        await completeDeletion(actor, { record: marker, rev }).catch((problem: unknown) =>
          environment.log({
            level: "warn",
            event: "resource.left",
            tenant: actor.tenant,
            resource: id,
            problem: String(problem),
          }),
        );
        throw why;
      }
    },

    async remove(actor, { record, rev }) {
      const marker = deletionMarker(record.id, record.provider, record.owner);
      const { revs } = await store.write(actor, {
        puts: [uploadPut(marker, 0)],
        drops: [{ collection: "resource", name: record.id, rev }],
        audit: { action: "resource.delete", targetType: "resource", target: record.id },
      });
      await completeDeletion(actor, { record: marker, rev: revs[0] ?? 1 });
    },

    async sweepExpiredUploads(tenant) {
      const now = clock.monotonic();
      if (now - (sweptAt.get(tenant) ?? Number.NEGATIVE_INFINITY) < uploadLimits.sweepIntervalMs) return;
      sweptAt.set(tenant, now);
      const actor = { tenant, by: "scheduler", corr: ids.next() };
      const { items } = await store.list("upload", { tenant, limit: uploadLimits.sweepMax });
      for (const stored of items.filter(({ record }) => isExpired(record, clock.now())))
        await deleteUpload(actor, stored, stored.record.status === "pending" ? "upload.expire" : null).catch((problem: unknown) =>
          environment.log({ level: "warn", event: "upload.left", tenant, upload: stored.record.id, problem: String(problem) }),
        );
    },
  };
}

export const isExpired = ({ updatedAt }: UploadRecord, now: number): boolean => now - updatedAt > uploadLimits.expireAfterMs;
export const partCountOf = ({ sizeBytes, chunkSize }: Pick<UploadRecord, "sizeBytes" | "chunkSize">): number =>
  Math.ceil(sizeBytes / chunkSize);

/** For forms that name the provider after the file. The deletion marker covers both stores. */
async function moveBlob(blobKey: BlobKey, from: BlobStore, to: BlobStore): Promise<void> {
  await to.write(blobKey, from.read(blobKey), to.bytesMax);
  await from.delete(blobKey);
}

const isIdempotencyMismatch = (why: unknown): boolean => why instanceof Fault && why.code === "E.IDEMPOTENCY.MISMATCH";
const concurrentRequestFault = (): Fault =>
  fault("E.CONFLICT", "another request with this Idempotency-Key created the file first; repeat the request to get it");

function checkDigest(stored: StoredBlob, expected: string | null): void {
  if (expected !== null && expected.toLowerCase() !== stored.sha256)
    throw fault("E.RESOURCE.DIGEST", "SHA-256 mismatch between the received bytes and the request; send them again", {
      sha256: stored.sha256,
    });
}

export const canSeeResource = (identity: CallerIdentity, { owner, visibility }: ResourceRecord): boolean =>
  visibility === "public" || isOwnerOrAdmin(identity, owner);

/** The same message for every id that is not the caller's: it must not show whether it is someone else's. */
export const resourceNotFound = (what: "resource" | "upload" | "grant", id: string): Fault =>
  fault("E.NOT_FOUND", `there is no ${what} ${id.slice(0, 100)}`);

export async function findResource(
  { store }: ResourceRepository,
  { identity }: Caller,
  id: string,
): Promise<{ stored: StoredRecord<ResourceRecord>; head: number }> {
  const { stored, head } = await store.find(identity.tenant, "resource", id);
  if (stored === null || !canSeeResource(identity, stored.record)) throw resourceNotFound("resource", id);
  return { stored, head };
}

export interface ResourceQuery {
  readonly limit: number;
  readonly after: string | undefined;
  readonly search: string | undefined;
  /** A user id, or `me`; others than oneself only for admins. */
  readonly ownerId: string | undefined;
}

/** Newest first. */
export function listResources(
  { store }: ResourceRepository,
  { identity }: Caller,
  { limit, after: start, search, ownerId }: ResourceQuery,
) {
  const owner = ownerId === "me" ? identity.user : ownerId;
  if (owner !== undefined && !isOwnerOrAdmin(identity, owner))
    throw fault("E.AUTH.FORBIDDEN", "only admins can list the resources of others; use ownerId=me");
  const query = { tenant: identity.tenant, order: "desc", limit, ...(search !== undefined && { search }) } as const;
  return readVisiblePage(
    (after) => store.list("resource", { ...query, ...(after !== undefined && { after }) }),
    (record) => canSeeResource(identity, record) && (owner === undefined || record.owner === owner),
    start,
  );
}

export async function deleteResource(repository: ResourceRepository, caller: Caller, id: string): Promise<void> {
  const { stored } = await findResource(repository, caller, id);
  if (!isOwnerOrAdmin(caller.identity, stored.record.owner))
    throw fault("E.AUTH.FORBIDDEN", `resource ${id} is not yours; its owner or an admin can delete it`);
  await repository.remove(actorOf(caller), stored);
}

/** Creates a resource of the caller's. A repeated request with the key must bring the same bytes. */
export async function prepareCreation(repository: ResourceRepository, caller: Caller, key: string | null) {
  const { tenant, user } = caller.identity;
  await repository.sweepExpiredUploads(tenant);
  // With a key the id is derived from it, so that a repeated request finds the resource.
  const id = key === null ? null : repository.digest(canonicalJson({ of: "resource", user, key }));
  const existing = id === null ? null : (await repository.store.find(tenant, "resource", id)).stored;
  return {
    repeated: existing !== null,
    create(resource: Omit<NewResource, "id" | "ask" | "owner" | "bytesMax">, bytes: AsyncIterable<Uint8Array>) {
      const bytesMax = Math.min(resourceLimits.chunkBytesMax, repository.blobStoreOf(resource.provider).bytesMax);
      if (existing !== null) return checkSameBytes(existing.record, bytes, bytesMax);
      // The key stands for this resource; whether the bytes are the same is checked against the resource.
      const keyed = key === null || id === null ? {} : { id, ask: { key, digest: id } };
      return repository.create(actorOf(caller), { ...resource, owner: user, bytesMax, ...keyed }, bytes);
    },
  };
}

async function checkSameBytes(
  record: ResourceRecord,
  bytes: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<ResourceRecord> {
  let sha256 = "";
  const measured = measureBytes(bytes, bytesMax, (stored) => {
    sha256 = stored.sha256;
  });
  for await (const _chunk of measured) {
    // Only measured: the bytes are stored already.
  }
  if (sha256 === record.sha256) return record;
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another file; use a new key");
}
