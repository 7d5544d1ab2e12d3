// How bytes and documents of resources stay together: whatever has bytes has a document first, so that nothing is left behind that nobody
// knows of. A document that says "removing" is a promise to remove the bytes under its name; the sweep keeps it where a crash came between.

import type { Ask, Reader } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import type { CallerIdentity } from "../../identity.ts";
import type { EngineClient } from "../../link.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { isConflict } from "../../people/people-store.ts";
import type { BlobPlace, Blobs, BlobsByProvider, Stored } from "../../resources/blobs.ts";
import {
  createResourceStore,
  type Doer,
  type Kept,
  putResource,
  putUpload,
  type ResourceRecord,
  type ResourceStore,
  type UploadRecord,
} from "../../resources/resource-store.ts";
import type { Call } from "../call.ts";

export interface ResourcesOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly blobs: BlobsByProvider;
  readonly digest: (text: string) => string;
}

export const keeperLimits = {
  /** Since its last part. */
  uploadMs: 86_400_000,
  sweepMs: 300_000,
  /** Uploads that one sweep removes; the next goes on. */
  sweptMax: 50,
} as const;

export interface ResourceKeeper {
  readonly store: ResourceStore;
  blobsOf(provider: "local" | "db"): Blobs;
  readonly providerDefault: "local" | "db";
  /** Writes the bytes, and the resource in one go with what else comes true then. Where that fails nothing is left. */
  keep(doer: Doer, resource: NewResource, source: AsyncIterable<Uint8Array>, also?: AlsoWrite): Promise<ResourceRecord>;
  remove(doer: Doer, kept: Kept<ResourceRecord>): Promise<void>;
  dropUpload(doer: Doer, kept: Kept<UploadRecord>, action: string | null): Promise<void>;
  dropParts(tenant: string, upload: UploadRecord): Promise<void>;
  /** Now and then: removes what was left alone for too long. */
  sweep(tenant: string): Promise<void>;
}

export type NewResource = Omit<ResourceRecord, "id" | "sizeBytes" | "sha256" | "createdAt"> & {
  /** Absent: a new one. */
  readonly id?: string;
  /** The caller's key, from which the id follows. */
  readonly ask?: Ask;
  readonly sha256: string | null;
  readonly bytesMax: number;
  /** What is known only once the bytes are here; may refuse them. */
  readonly late?: () => Partial<Pick<ResourceRecord, "provider" | "visibility" | "filename" | "mimeType">> & {
    readonly sha256: string | null;
  };
};

/** What is written beside the resource, once its id is known. */
export type AlsoWrite = (resource: ResourceRecord) => Parameters<ResourceStore["write"]>[1]["puts"];

export function createKeeper(options: ResourcesOptions): ResourceKeeper {
  const { environment, blobs } = options;
  const { clock, ids } = environment;
  const store = createResourceStore(options);
  const sweptAt = new Map<string, number>();

  const blobsOf = (provider: "local" | "db"): Blobs => {
    const found = blobs[provider];
    if (found !== undefined) return found;
    const there = Object.keys(blobs).join(", ");
    throw fault("E.REQUEST.INVALID", `this scheduler keeps no files with provider ${provider}; there is ${there}`, {
      path: "provider",
    });
  };
  const promise = (id: string, provider: "local" | "db", owner: string): UploadRecord => {
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
  const keepPromise = async (doer: Doer, { record, rev }: Kept<UploadRecord>): Promise<void> => {
    if ((await store.find(doer.tenant, "resource", record.id)).kept === null)
      for (const place of Object.values(blobs)) await place.delete({ tenant: doer.tenant, name: record.id });
    await store.write(doer, { drops: [{ collection: "upload", name: record.id, rev }] });
  };
  const dropParts: ResourceKeeper["dropParts"] = async (tenant, upload) => {
    const parts = partsOf(upload);
    for (let part = 0; part < parts; part += 1) await blobs[upload.provider]?.delete({ tenant, name: `${upload.id}.${part}` });
  };
  const dropUpload: ResourceKeeper["dropUpload"] = async (doer, { record, rev }, action) => {
    if (record.status === "removing") return keepPromise(doer, { record, rev });
    if (record.status === "pending" || record.parts.length > 0) await dropParts(doer.tenant, record);
    const audit = action === null ? {} : { audit: { action, targetType: "upload", target: record.id } };
    await store.write(doer, { drops: [{ collection: "upload", name: record.id, rev }], ...audit });
  };

  return {
    store,
    blobsOf,
    providerDefault: blobs.local === undefined ? "db" : "local",
    dropParts,
    dropUpload,

    async keep(doer, { id = ids.next(), ask = null, bytesMax, sha256, late, ...named }, source, also) {
      const place = { tenant: doer.tenant, name: id };
      const into = blobsOf(named.provider);
      const promised = promise(id, named.provider, named.owner);
      const { revs } = await store.write(doer, { puts: [putUpload(promised, 0)] });
      const rev = revs[0] ?? 1;
      let isWriting = false;
      try {
        if (ask !== null && (await store.find(doer.tenant, "resource", id)).kept !== null) throw quicker();
        const stored = await into.write(place, source, bytesMax);
        const said = late?.() ?? { sha256 };
        refuseOther(stored, said.sha256);
        if (said.provider !== undefined && said.provider !== named.provider) await move(place, into, blobsOf(said.provider));
        const resource: ResourceRecord = { id, ...named, ...said, ...stored, createdAt: clock.now() };
        isWriting = true;
        const { repeated } = await store.write(doer, {
          ask,
          puts: [putResource(resource, 0), ...(also?.(resource) ?? [])],
          drops: [{ collection: "upload", name: id, rev }],
          audit: { action: "resource.create", targetType: "resource", target: id, data: { sizeBytes: stored.sizeBytes } },
        });
        isWriting = false;
        // Made under this key before, and removed since.
        if (repeated) throw missing("resource", id);
        return resource;
      } catch (why) {
        // Whether it was written after all may not be known: then the bytes stay, and the sweep looks at the promise, if it is still there.
        if (isWriting && !isConflict(why) && !isMismatch(why)) throw why;
        await keepPromise(doer, { record: promised, rev }).catch((problem: unknown) =>
          environment.log({ level: "warn", event: "resource.left", tenant: doer.tenant, resource: id, problem: String(problem) }),
        );
        throw why;
      }
    },

    async remove(doer, { record, rev }) {
      const promised = promise(record.id, record.provider, record.owner);
      const { revs } = await store.write(doer, {
        puts: [putUpload(promised, 0)],
        drops: [{ collection: "resource", name: record.id, rev }],
        audit: { action: "resource.delete", targetType: "resource", target: record.id },
      });
      await keepPromise(doer, { record: promised, rev: revs[0] ?? 1 });
    },

    async sweep(tenant) {
      const now = clock.monotonic();
      if (now - (sweptAt.get(tenant) ?? Number.NEGATIVE_INFINITY) < keeperLimits.sweepMs) return;
      sweptAt.set(tenant, now);
      const doer = { tenant, by: "scheduler", corr: ids.next() };
      const { items } = await store.list("upload", { tenant, limit: keeperLimits.sweptMax });
      for (const kept of items.filter(({ record }) => isOver(record, clock.now())))
        await dropUpload(doer, kept, kept.record.status === "pending" ? "upload.expire" : null).catch((problem: unknown) =>
          environment.log({ level: "warn", event: "upload.left", tenant, upload: kept.record.id, problem: String(problem) }),
        );
    },
  };
}

export const isOver = ({ updatedAt }: UploadRecord, now: number): boolean => now - updatedAt > keeperLimits.uploadMs;
export const partsOf = ({ sizeBytes, chunkSize }: Pick<UploadRecord, "sizeBytes" | "chunkSize">): number =>
  Math.ceil(sizeBytes / chunkSize);

/** Where the bytes belong was said behind them. The promise to remove them holds for both places. */
async function move(place: BlobPlace, from: Blobs, to: Blobs): Promise<void> {
  await to.write(place, from.read(place), to.bytesMax);
  await from.delete(place);
}

const isMismatch = (why: unknown): boolean => why instanceof Fault && why.code === "E.IDEMPOTENCY.MISMATCH";
const quicker = (): Fault =>
  fault("E.CONFLICT", "another request under this Idempotency-Key has brought the file; repeat it to see what it made");

function refuseOther(stored: Stored, expected: string | null): void {
  if (expected !== null && expected.toLowerCase() !== stored.sha256)
    throw fault("E.RESOURCE.DIGEST", "the bytes that came have another SHA-256 than was said; send them again", {
      sha256: stored.sha256,
    });
}

export const isAdmin = (identity: CallerIdentity): boolean => identity.grants.includes("admin");
export const isOwn = (identity: CallerIdentity, owner: string): boolean => owner === identity.user || isAdmin(identity);
export const canSee = (identity: CallerIdentity, { owner, visibility }: ResourceRecord): boolean =>
  visibility === "public" || isOwn(identity, owner);

export const doerOf = ({ identity, requestId }: Call): Doer => ({ tenant: identity.tenant, by: identity.user, corr: requestId });

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
export const missing = (what: "resource" | "upload" | "grant", id: string): Fault =>
  fault("E.NOT_FOUND", `there is no ${what} ${id.slice(0, 100)}`);

/** A page of what the caller may see. Where a stretch holds nothing of it, the next ones are looked at, but not all there are. */
export async function seen<T>(
  list: (after: string | undefined) => Promise<{ items: readonly Kept<T>[]; next: string | null; head: number }>,
  isSeen: (record: T) => boolean,
  after: string | undefined,
): Promise<{ items: readonly T[]; next: string | null; head: number }> {
  for (let from = after, stretches = 1; ; stretches += 1) {
    const { items, next, head } = await list(from);
    const found = items.map(({ record }) => record).filter(isSeen);
    if (found.length > 0 || next === null || stretches >= stretchesMax) return { items: found, next, head };
    from = next;
  }
}
const stretchesMax = 10;
