// The documents of saved views: a view under its id, its name as a document of its own (so that a user has no two views of one name on one
// page), and how many views a tenant has (so that the limit holds for concurrent requests).

import type { AuditEntry, DocPut, DocRow, IdempotencyKey, StoreReader } from "@astraflow/engine";
import { Fault, fault, type SavedView, viewLimits } from "@astraflow/protocol";
import { type DocumentWrite, documentNameOf, readDocument, retryOnConflict, writeDocuments } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import { createSemaphore } from "../environment/semaphore.ts";
import type { Actor } from "../identity/caller.ts";

export type SavedViewRecord = Omit<SavedView, "viewId" | "revision" | "createdAt" | "updatedAt"> & {
  readonly id: string;
  readonly createdAt: number;
  readonly updatedAt: number;
};
export interface StoredView {
  readonly record: SavedViewRecord;
  readonly rev: number;
}

export interface SavedViewStore {
  find(tenant: string, id: string): Promise<{ readonly stored: StoredView | null; readonly head: number }>;
  list(query: {
    readonly tenant: string;
    readonly after?: string;
    readonly limit: number;
  }): Promise<{ readonly items: readonly StoredView[]; readonly next: string | null; readonly head: number }>;
  create(actor: Actor, record: SavedViewRecord, ask: IdempotencyKey | null): Promise<{ readonly repeated: boolean }>;
  /** Rejects with E.CONFLICT if the view has another revision by now. */
  replace(actor: Actor, kept: StoredView, next: SavedViewRecord): Promise<{ readonly rev: number }>;
  remove(actor: Actor, kept: StoredView): Promise<void>;
}

/** Other schedulers may change the count between our read and our write; we try this often. */
const countAttemptsMax = 8;
const countDocumentName = "all";

export interface SavedViewStoreOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly digest: (text: string) => string;
}

export function createSavedViewStore({ engineClient, reader, digest }: SavedViewStoreOptions): SavedViewStore {
  const readViewCount = async (tenant: string): Promise<{ views: number; rev: number }> => {
    const { doc } = await readDocument(reader, tenant, "viewcount", countDocumentName);
    return doc === null ? { views: 0, rev: 0 } : { ...(JSON.parse(doc.body) as { views: number }), rev: doc.rev };
  };
  const nameDocumentKey = ({ ownerId, page, name }: SavedViewRecord): string =>
    digest(JSON.stringify(["view", ownerId, page, normalizeName(name)]));
  const find: SavedViewStore["find"] = async (tenant, id) => {
    const { doc, head } = await readDocument(reader, tenant, "view", id);
    return { stored: doc === null ? null : parseView(doc), head };
  };
  const write = (actor: Actor, record: SavedViewRecord, words: DocumentWrite) =>
    writeDocuments(engineClient, actor, words).catch((why: unknown) => {
      throw conflictingCollection(why) === "viewname" ? nameTaken(record) : why;
    });
  const tenantLocks = new Map<string, ReturnType<typeof createSemaphore>>();
  const tenantLockOf = (tenant: string): ReturnType<typeof createSemaphore> => {
    const tenantLock = tenantLocks.get(tenant) ?? createSemaphore(1);
    tenantLocks.set(tenant, tenantLock);
    return tenantLock;
  };
  /**
   * Runs one change per tenant at a time: concurrent ones would conflict, and the audit would record refusals that no caller got. Tries again
   * if another scheduler has changed the count meanwhile.
   */
  const withViewCount = <T>(tenant: string, act: (count: { views: number; rev: number }) => Promise<T>): Promise<T> =>
    tenantLockOf(tenant)(() =>
      retryOnConflict(
        countAttemptsMax,
        async () => act(await readViewCount(tenant)),
        (why) => conflictingCollection(why) === "viewcount",
      ),
    ).catch((why: unknown) => {
      throw conflictingCollection(why) === "viewcount" ? tooBusy(why) : why;
    });
  const viewCountPut = (views: number, rev: number): DocPut => ({
    collection: "viewcount",
    name: countDocumentName,
    rev,
    body: JSON.stringify({ views }),
  });
  const viewNamePut = (record: SavedViewRecord): DocPut => ({
    collection: "viewname",
    name: nameDocumentKey(record),
    rev: 0,
    body: JSON.stringify({ viewId: record.id }),
  });
  /** A name document is created and deleted, never changed, so its revision is 1. */
  const viewNameDrop = (record: SavedViewRecord) => ({ collection: "viewname", name: nameDocumentKey(record), rev: 1 });

  return {
    find,
    async list(query) {
      const { items, next, head } = await reader.page({ page: "docs", collection: "view", ...query });
      return { items: items.map(parseView), next, head };
    },
    create: (actor, record, ask) =>
      withViewCount(actor.tenant, async ({ views, rev }) => {
        // A repeated request needs no room: its view exists already.
        if (views >= viewLimits.perTenantMax && (ask === null || (await find(actor.tenant, record.id)).stored === null))
          throw viewLimitReached();
        return write(actor, record, {
          puts: [viewPut(record, 0), viewNamePut(record), viewCountPut(views + 1, rev)],
          audit: viewAudit("view.create", record),
          ask,
        });
      }),
    async replace(actor, { record, rev }, next) {
      const keepsName = nameDocumentKey(record) === nameDocumentKey(next);
      const { revs } = await write(actor, next, {
        puts: [viewPut(next, rev), ...(keepsName ? [] : [viewNamePut(next)])],
        drops: keepsName ? [] : [viewNameDrop(record)],
        audit: viewAudit("view.update", next),
      });
      return { rev: revs[0] ?? rev + 1 };
    },
    remove: (actor, { record, rev }) =>
      withViewCount(actor.tenant, async (count) => {
        await write(actor, record, {
          puts: [viewCountPut(count.views - 1, count.rev)],
          drops: [{ collection: "view", name: record.id, rev }, viewNameDrop(record)],
          audit: viewAudit("view.delete", record),
        });
      }),
  };
}

/** Names that look alike count as the same. */
const normalizeName = (name: string): string => name.normalize("NFC").trim().toLowerCase();

const parseView = (doc: DocRow): StoredView => ({
  record: { id: documentNameOf(doc), ...(JSON.parse(doc.body) as Omit<SavedViewRecord, "id">) },
  rev: doc.rev,
});

const viewPut = ({ id, ...body }: SavedViewRecord, rev: number): DocPut => ({
  collection: "view",
  name: id,
  rev,
  body: JSON.stringify(body),
  sort: normalizeName(body.name),
});

const viewAudit = (action: string, { id, name, page, shared }: SavedViewRecord): AuditEntry => ({
  action,
  targetType: "view",
  target: id,
  data: { name, page, shared },
});

/** The collection of the document that was in conflict; null: it is no conflict. */
const conflictingCollection = (why: unknown): unknown =>
  why instanceof Fault && why.code === "E.CONFLICT" ? (why.details?.["collection"] ?? null) : null;

const nameTaken = ({ name, page }: SavedViewRecord): Fault =>
  fault("E.CONFLICT", `there is a view "${name.slice(0, 100)}" of ${page} already; choose another name or change that one`);
const tooBusy = (cause: unknown): Fault =>
  fault("E.STORE.BUSY", "too many concurrent changes of saved views; nothing was changed, try again", undefined, cause);
const viewLimitReached = (): Fault =>
  fault("E.LIMIT.REACHED", `the limit of ${viewLimits.perTenantMax} saved views is reached; delete one first`);
