// Keeps bytes and documents of resources together: a document is written before its bytes, so that no bytes are left that no document
// names. A document with status "removing" says that the bytes under its id must be deleted; the sweep does it after a crash.

import type { DocPut, IdempotencyKey } from "@astraflow/engine";
import { Fault, fault, resourceLimits } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/document-list.ts";
import { type FoundRecord, idForRequest, isConflict, notFound, RecordStore, type StoredRecord } from "../documents/documents.ts";
import type { OptionalTexts } from "../documents/page-cursors.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { type Actor, actorOf, type Caller, type CallerIdentity, isOwnerOrAdmin } from "../identity/identity.ts";
import { type BlobKey, type BlobStore, type BlobStores, measureBytes, type StoredBlob } from "./blob-store.ts";
import { type ResourceGrantRecord, type ResourceRecord, resourcePut, type UploadRecord, uploadPut } from "./resource-store.ts";

export const uploadLimits = {
  /** Since its last part. */
  expireAfterMs: 86_400_000,
  sweepIntervalMs: 300_000,
  /** Uploads that one sweep removes; the next sweep continues. */
  sweepMax: 50,
} as const;

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

/** Bytes that are about to be written under a name of their own. */
export interface BlobReservation {
  readonly provider: ResourceRecord["provider"];
  readonly blobKey: BlobKey;
  /** Goes into the write after which the bytes belong to something. */
  readonly keep: { readonly collection: string; readonly name: string; readonly rev: number };
  /** Deletes the bytes. Only where that write was not made, or was certainly refused. */
  release(): Promise<void>;
}

/** `ownerId` is a user id, or `me`; others than oneself only for admins. */
export type ResourceQuery = OptionalTexts<"after" | "search" | "ownerId"> & { readonly limit: number };

export class ResourceRepository {
  readonly context: ServiceContext;
  readonly records: RecordStore<ResourceRecord>;
  readonly uploads: RecordStore<UploadRecord>;
  readonly grants: RecordStore<ResourceGrantRecord>;
  readonly defaultProvider: "local" | "db";
  readonly #blobs: BlobStores;
  readonly #sweptAt = new Map<string, number>();

  constructor(context: ServiceContext, blobs: BlobStores) {
    this.context = context;
    this.records = new RecordStore(context, "resource");
    this.uploads = new RecordStore(context, "upload");
    this.grants = new RecordStore(context, "grant");
    this.defaultProvider = blobs.local === undefined ? "db" : "local";
    this.#blobs = blobs;
  }

  blobStoreOf(provider: "local" | "db"): BlobStore {
    const found = this.#blobs[provider];
    if (found !== undefined) return found;
    const available = Object.keys(this.#blobs).join(", ");
    throw fault("E.REQUEST.INVALID", `this scheduler has no provider ${provider} for files; it has ${available}`, {
      path: "provider",
    });
  }

  find({ identity }: Caller, id: string): Promise<FoundRecord<ResourceRecord>> {
    return this.records.findVisible(identity.tenant, id, (resource) => canSeeResource(identity, resource));
  }

  /** A resource that the caller owns, or any for an admin; `verb` is what they want to do with it. */
  async findOwn(caller: Caller, id: string, verb: string): Promise<StoredRecord<ResourceRecord>> {
    const found = await this.find(caller, id);
    if (isOwnerOrAdmin(caller.identity, found.record.owner)) return found;
    throw fault("E.AUTH.FORBIDDEN", `resource ${id} is not yours; its owner or an admin can ${verb} it`);
  }

  /** Newest first. */
  list({ identity }: Caller, { limit, after, search, ownerId }: ResourceQuery) {
    const owner = ownerId === "me" ? identity.user : ownerId;
    if (owner !== undefined && !isOwnerOrAdmin(identity, owner))
      throw fault("E.AUTH.FORBIDDEN", "only admins can list the resources of others; use ownerId=me");
    const query = { tenant: identity.tenant, order: "desc", limit, ...(search !== undefined && { search }) } as const;
    return readVisiblePage(
      (from) => this.records.list({ ...query, ...from }),
      (record) => canSeeResource(identity, record) && (owner === undefined || record.owner === owner),
      after,
    );
  }

  /** Creates a resource of the caller's. A repeated request with the key must bring the same bytes. */
  async prepareCreation(caller: Caller, key: string | null) {
    const { tenant, user } = caller.identity;
    await this.sweepExpiredUploads(tenant);
    const id = key === null ? null : idForRequest(this.context, "resource", user, key);
    const existing = id === null ? null : (await this.records.find(tenant, id)).record;
    return {
      repeated: existing !== null,
      create: (resource: Omit<NewResource, "id" | "ask" | "owner" | "bytesMax">, bytes: AsyncIterable<Uint8Array>) => {
        const bytesMax = Math.min(resourceLimits.chunkBytesMax, this.blobStoreOf(resource.provider).bytesMax);
        if (existing !== null) return checkSameBytes(existing, bytes, bytesMax);
        // The key stands for this resource; whether the bytes are the same is checked against the resource.
        const keyed = key === null || id === null ? {} : { id, ask: { key, digest: id } };
        return this.create(actorOf(caller), { ...resource, owner: user, bytesMax, ...keyed }, bytes);
      },
    };
  }

  /** Writes the bytes, then the resource together with `additionalPuts`. If that fails nothing is left. */
  async create(
    actor: Actor,
    wanted: NewResource,
    source: AsyncIterable<Uint8Array>,
    additionalPuts: (resource: ResourceRecord) => readonly DocPut[] = () => [],
  ): Promise<ResourceRecord> {
    const { clock, ids } = this.context.environment;
    const { id = ids.next(), ask = null, bytesMax, sha256, readLateFields, ...named } = wanted;
    const blobKey = { tenant: actor.tenant, name: id };
    const into = this.blobStoreOf(named.provider);
    const marker = deletionMarker({ id, ...named }, clock.now());
    const { revs } = await this.uploads.write(actor, { puts: [uploadPut(marker, 0)] });
    const rev = revs[0] ?? 1;
    let isWriting = false;
    try {
      if (ask !== null && (await this.records.find(actor.tenant, id)).record !== null) throw concurrentRequestFault();
      const stored = await into.write(blobKey, source, bytesMax);
      const lateFields = readLateFields?.() ?? { sha256 };
      checkDigest(stored, lateFields.sha256);
      if (lateFields.provider !== undefined && lateFields.provider !== named.provider)
        await moveBlob(blobKey, into, this.blobStoreOf(lateFields.provider));
      const resource: ResourceRecord = { id, ...named, ...lateFields, ...stored, createdAt: clock.now() };
      isWriting = true;
      const { repeated } = await this.records.write(actor, {
        ask,
        puts: [resourcePut(resource, 0), ...additionalPuts(resource)],
        drops: [{ collection: "upload", name: id, rev }],
        audit: { action: "resource.create", targetType: "resource", target: id, data: { sizeBytes: stored.sizeBytes } },
      });
      isWriting = false;
      // It was created with this key before and has been deleted since.
      if (repeated) throw notFound("resource", id);
      return resource;
    } catch (why) {
      // If it is unknown whether the write succeeded, the bytes stay; the sweep checks the marker if it is still there.
      if (isWriting && !isConflict(why) && !isIdempotencyMismatch(why)) throw why;
      await this.#completeDeletion(actor, { record: marker, rev }).catch((problem: unknown) =>
        this.#logLeftover("resource.left", actor.tenant, { resource: id }, problem),
      );
      throw why;
    }
  }

  /** A name for new bytes that belong to no resource. A crash leaves a marker, by which the sweep finds and deletes them. */
  async reserveBlob(actor: Actor): Promise<BlobReservation> {
    const { clock, ids } = this.context.environment;
    const provider = this.defaultProvider;
    const marker = deletionMarker({ id: ids.next(), owner: actor.by, provider }, clock.now());
    const { revs } = await this.uploads.write(actor, { puts: [uploadPut(marker, 0)] });
    const stored = { record: marker, rev: revs[0] ?? 1 };
    return {
      provider,
      blobKey: { tenant: actor.tenant, name: marker.id },
      keep: { collection: "upload", name: marker.id, rev: stored.rev },
      release: () =>
        this.#completeDeletion(actor, stored).catch((problem: unknown) =>
          this.#logLeftover("blob.left", actor.tenant, { blob: marker.id }, problem),
        ),
    };
  }

  /** For bytes that belong to no resource: `put` goes into the write that forgets them, then `complete` deletes them. */
  planBlobDeletion(actor: Actor, id: string, provider: ResourceRecord["provider"]) {
    const record = deletionMarker({ id, owner: actor.by, provider }, this.context.environment.clock.now());
    return {
      put: uploadPut(record, 0),
      complete: (rev: number): Promise<void> =>
        this.#completeDeletion(actor, { record, rev }).catch((problem: unknown) =>
          this.#logLeftover("blob.left", actor.tenant, { blob: id }, problem),
        ),
    };
  }

  async delete(caller: Caller, id: string): Promise<void> {
    const { record, rev } = await this.findOwn(caller, id, "delete");
    const actor = actorOf(caller);
    const marker = deletionMarker(record, this.context.environment.clock.now());
    const { revs } = await this.records.write(actor, {
      puts: [uploadPut(marker, 0)],
      drops: [{ collection: "resource", name: record.id, rev }],
      audit: { action: "resource.delete", targetType: "resource", target: record.id },
    });
    await this.#completeDeletion(actor, { record: marker, rev: revs[0] ?? 1 });
  }

  async deleteUpload(actor: Actor, { record, rev }: StoredRecord<UploadRecord>, action: string | null): Promise<void> {
    if (record.status === "removing") return this.#completeDeletion(actor, { record, rev });
    if (record.status === "pending" || record.parts.length > 0) await this.deleteParts(actor.tenant, record);
    const audit = action === null ? {} : { audit: { action, targetType: "upload", target: record.id } };
    await this.uploads.write(actor, { drops: [{ collection: "upload", name: record.id, rev }], ...audit });
  }

  async deleteParts(tenant: string, upload: UploadRecord): Promise<void> {
    const parts = partCountOf(upload);
    for (let part = 0; part < parts; part += 1)
      await this.#blobs[upload.provider]?.delete({ tenant, name: `${upload.id}.${part}` });
  }

  /** Removes uploads that were idle for too long, at most once per interval. */
  async sweepExpiredUploads(tenant: string): Promise<void> {
    const { clock, ids } = this.context.environment;
    const now = clock.monotonic();
    if (now - (this.#sweptAt.get(tenant) ?? Number.NEGATIVE_INFINITY) < uploadLimits.sweepIntervalMs) return;
    this.#sweptAt.set(tenant, now);
    const actor = { tenant, by: "scheduler", corr: ids.next() };
    const { items } = await this.uploads.list({ tenant, limit: uploadLimits.sweepMax });
    for (const stored of items.filter(({ record }) => isExpired(record, clock.now()))) {
      const action = stored.record.status === "pending" ? "upload.expire" : null;
      await this.deleteUpload(actor, stored, action).catch((problem: unknown) =>
        this.#logLeftover("upload.left", tenant, { upload: stored.record.id }, problem),
      );
    }
  }

  /** Deletes the bytes first: after a crash the marker is still there. Bytes of which a concurrent request made a resource stay. */
  async #completeDeletion(actor: Actor, { record, rev }: StoredRecord<UploadRecord>): Promise<void> {
    if ((await this.records.find(actor.tenant, record.id)).record === null)
      for (const place of Object.values(this.#blobs)) await place.delete({ tenant: actor.tenant, name: record.id });
    await this.uploads.write(actor, { drops: [{ collection: "upload", name: record.id, rev }] });
  }

  #logLeftover(event: string, tenant: string, of: object, problem: unknown): void {
    this.context.environment.log({ level: "warn", event, tenant, ...of, problem: String(problem) });
  }
}

const deletionMarker = (
  { id, owner, provider }: Pick<ResourceRecord, "id" | "owner" | "provider">,
  now: number,
): UploadRecord => ({
  id,
  owner,
  provider,
  visibility: "private",
  filename: "",
  sizeBytes: 0,
  chunkSize: 1,
  mimeType: null,
  sha256: null,
  metadata: null,
  resource: null,
  createdAt: now,
  updatedAt: now,
  status: "removing",
  parts: [],
});

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

async function checkSameBytes(record: ResourceRecord, bytes: AsyncIterable<Uint8Array>, bytesMax: number) {
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
