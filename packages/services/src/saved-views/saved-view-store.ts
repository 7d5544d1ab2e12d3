// The documents of saved views: a view under its id, its name as a document of its own (so that nobody has two of one name on one page), and
// how many a tenant has (so that the limit holds however many ask at once). Who may see and change which is decided by the routes.

import type { AuditEntry, DocPut, StoreReader } from "@astraflow/engine";
import { Fault, fault, type SavedView, viewLimits } from "@astraflow/protocol";
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
type ViewIdempotencyKey = { readonly key: string; readonly digest: string };

export interface SavedViewStore {
  find(tenant: string, id: string): Promise<{ readonly stored: StoredView | null; readonly head: number }>;
  list(query: {
    readonly tenant: string;
    readonly after?: string;
    readonly limit: number;
  }): Promise<{ readonly items: readonly StoredView[]; readonly next: string | null; readonly head: number }>;
  create(actor: Actor, record: SavedViewRecord, ask: ViewIdempotencyKey | null): Promise<{ readonly repeated: boolean }>;
  /** Conflicts where the view is in another revision by now. */
  replace(actor: Actor, kept: StoredView, next: SavedViewRecord): Promise<{ readonly rev: number }>;
  remove(actor: Actor, kept: StoredView): Promise<void>;
}

/** Others may keep and remove views between our count and our write, but not for ever. */
const countAttemptsMax = 8;
const countDocumentName = "all";

export interface SavedViewStoreOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly digest: (text: string) => string;
}

export function createSavedViewStore({ engineClient, reader, digest }: SavedViewStoreOptions): SavedViewStore {
  const readDocument = async (tenant: string, collection: string, name: string) => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection, names: [name] });
    return { doc: items[0] ?? null, head };
  };
  const readViewCount = async (tenant: string): Promise<{ views: number; rev: number }> => {
    const { doc } = await readDocument(tenant, "viewcount", countDocumentName);
    return doc === null ? { views: 0, rev: 0 } : { ...(JSON.parse(doc.body) as { views: number }), rev: doc.rev };
  };
  const nameDocumentKey = ({ ownerId, page, name }: SavedViewRecord): string =>
    digest(JSON.stringify(["view", ownerId, page, normalizeName(name)]));
  const find: SavedViewStore["find"] = async (tenant, id) => {
    const { doc, head } = await readDocument(tenant, "view", id);
    return { stored: doc === null ? null : parseView(doc), head };
  };
  const write = async (actor: Actor, record: SavedViewRecord, words: ViewWrite) => {
    try {
      const answer = await engineClient.request({ type: "docs.write", ...actor, ...words });
      if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
      return answer;
    } catch (why) {
      throw conflictingCollection(why) === "viewname" ? nameTaken(record) : why;
    }
  };
  const tenantLocks = new Map<string, ReturnType<typeof createSemaphore>>();
  const tenantLockOf = (tenant: string): ReturnType<typeof createSemaphore> => {
    const tenantLock = tenantLocks.get(tenant) ?? createSemaphore(1);
    tenantLocks.set(tenant, tenantLock);
    return tenantLock;
  };
  /**
   * One after the other here: they would all be refused but one, and the audit would tell of refusals that nobody has heard. Once more where
   * another scheduler has kept or removed a view meanwhile.
   */
  const withViewCount = <T>(tenant: string, act: (count: { views: number; rev: number }) => Promise<T>): Promise<T> =>
    tenantLockOf(tenant)(async () => {
      for (let attempts = 1; ; attempts += 1)
        try {
          return await act(await readViewCount(tenant));
        } catch (why) {
          if (conflictingCollection(why) !== "viewcount") throw why;
          if (attempts >= countAttemptsMax) throw tooBusy(why);
        }
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
  /** A name has one revision: it is given, and taken away. */
  const viewNameDrop = (record: SavedViewRecord) => ({ collection: "viewname", name: nameDocumentKey(record), rev: 1 });

  return {
    find,
    async list(query) {
      const { items, next, head } = await reader.page({ page: "docs", collection: "view", ...query });
      return { items: items.map(parseView), next, head };
    },
    create: (actor, record, ask) =>
      withViewCount(actor.tenant, async ({ views, rev }) => {
        // A repeat takes no room: what it asks for is there.
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

interface ViewWrite {
  readonly puts: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  readonly audit: AuditEntry;
  readonly ask?: ViewIdempotencyKey | null;
}

/** Two names that look alike are one. */
const normalizeName = (name: string): string => name.normalize("NFC").trim().toLowerCase();

/** A document's id is `<tenant>/<collection>/<name>`. */
const parseView = (doc: { id: string; tenant: string; collection: string; body: string; rev: number }): StoredView => ({
  record: {
    id: doc.id.slice(doc.tenant.length + doc.collection.length + 2),
    ...(JSON.parse(doc.body) as Omit<SavedViewRecord, "id">),
  },
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

/** The collection whose document was not as it was thought to be; null: it is no such refusal. */
const conflictingCollection = (why: unknown): unknown =>
  why instanceof Fault && why.code === "E.CONFLICT" ? (why.details?.["collection"] ?? null) : null;

const nameTaken = ({ name, page }: SavedViewRecord): Fault =>
  fault("E.CONFLICT", `there is a view "${name.slice(0, 100)}" of ${page} already; choose another name or change that one`);
const tooBusy = (cause: unknown): Fault =>
  fault("E.STORE.BUSY", "too many views are kept or removed at this moment; nothing was changed, try again", undefined, cause);
const viewLimitReached = (): Fault =>
  fault("E.LIMIT.REACHED", `the tenant keeps ${viewLimits.perTenantMax} views, which is all it may; remove one first`);
