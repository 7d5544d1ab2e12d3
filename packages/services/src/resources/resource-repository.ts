// How bytes and documents of resources stay together: whatever has bytes has a document first, so that nothing is left behind that nobody
// knows of. A document that says "removing" is a promise to remove the bytes under its name; the sweep keeps it where a crash came between.

import type { IdempotencyKey, StoreReader } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { isConflict } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { type Actor, isOwnerOrAdmin } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";
import type { BlobKey, BlobStore, BlobStores, StoredBlob } from "./blob-store.ts";
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
  /** Uploads that one sweep removes; the next goes on. */
  sweepMax: 50,
} as const;

export interface ResourceRepository {
  readonly store: ResourceStore;
  blobStoreOf(provider: "local" | "db"): BlobStore;
  readonly defaultProvider: "local" | "db";
  /** Writes the bytes, and the resource in one go with what else comes true then. Where that fails nothing is left. */
  create(
    actor: Actor,
    resource: NewResource,
    source: AsyncIterable<Uint8Array>,
    additionalPuts?: AdditionalPuts,
  ): Promise<ResourceRecord>;
  remove(actor: Actor, stored: StoredRecord<ResourceRecord>): Promise<void>;
  deleteUpload(actor: Actor, stored: StoredRecord<UploadRecord>, action: string | null): Promise<void>;
  deleteParts(tenant: string, upload: UploadRecord): Promise<void>;
  /** Now and then: removes what was left alone for too long. */
  sweepExpiredUploads(tenant: string): Promise<void>;
}

export type NewResource = Omit<ResourceRecord, "id" | "sizeBytes" | "sha256" | "createdAt"> & {
  /** Absent: a new one. */
  readonly id?: string;
  /** The caller's key, from which the id follows. */
  readonly ask?: IdempotencyKey;
  readonly sha256: string | null;
  readonly bytesMax: number;
  /** What is known only once the bytes are here; may refuse them. */
  readonly readLateFields?: () => Partial<Pick<ResourceRecord, "provider" | "visibility" | "filename" | "mimeType">> & {
    readonly sha256: string | null;
  };
};

/** What is written beside the resource, once its id is known. */
export type AdditionalPuts = (resource: ResourceRecord) => Parameters<ResourceStore["write"]>[1]["puts"];

export function createResourceRepository(options: ResourceRepositoryOptions): ResourceRepository {
  const { environment, blobs } = options;
  const { clock, ids } = environment;
  const store = createResourceStore(options);
  const sweptAt = new Map<string, number>();

  const blobStoreOf = (provider: "local" | "db"): BlobStore => {
    const found = blobs[provider];
    if (found !== undefined) return found;
    const there = Object.keys(blobs).join(", ");
    throw fault("E.REQUEST.INVALID", `this scheduler keeps no files with provider ${provider}; there is ${there}`, {
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
   * The bytes first, wherever they are: should this be cut off, the document still says what is to be done. Of two requests under one key
   * the slower may have promised when the quicker was done: those bytes are a resource's.
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
        // Made under this key before, and removed since.
        if (repeated) throw resourceNotFound("resource", id);
        return resource;
      } catch (why) {
        // Whether it was written after all may not be known: then the bytes stay, and the sweep looks at the promise, if it is still there.
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

/** Where the bytes belong was said behind them. The promise to remove them holds for both places. */
async function moveBlob(blobKey: BlobKey, from: BlobStore, to: BlobStore): Promise<void> {
  await to.write(blobKey, from.read(blobKey), to.bytesMax);
  await from.delete(blobKey);
}

const isIdempotencyMismatch = (why: unknown): boolean => why instanceof Fault && why.code === "E.IDEMPOTENCY.MISMATCH";
const concurrentRequestFault = (): Fault =>
  fault("E.CONFLICT", "another request under this Idempotency-Key has brought the file; repeat it to see what it made");

function checkDigest(stored: StoredBlob, expected: string | null): void {
  if (expected !== null && expected.toLowerCase() !== stored.sha256)
    throw fault("E.RESOURCE.DIGEST", "the bytes that came have another SHA-256 than was said; send them again", {
      sha256: stored.sha256,
    });
}

export const canSeeResource = (identity: CallerIdentity, { owner, visibility }: ResourceRecord): boolean =>
  visibility === "public" || isOwnerOrAdmin(identity, owner);

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
export const resourceNotFound = (what: "resource" | "upload" | "grant", id: string): Fault =>
  fault("E.NOT_FOUND", `there is no ${what} ${id.slice(0, 100)}`);

/** A page of what the caller may see. Where a stretch holds nothing of it, the next ones are looked at, but not all there are. */
export async function readVisiblePage<T>(
  list: (after: string | undefined) => Promise<{ items: readonly StoredRecord<T>[]; next: string | null; head: number }>,
  isVisible: (record: T) => boolean,
  after: string | undefined,
): Promise<{ items: readonly T[]; next: string | null; head: number }> {
  for (let from = after, pagesRead = 1; ; pagesRead += 1) {
    const { items, next, head } = await list(from);
    const found = items.map(({ record }) => record).filter(isVisible);
    if (found.length > 0 || next === null || pagesRead >= pagesReadMax) return { items: found, next, head };
    from = next;
  }
}
const pagesReadMax = 10;
