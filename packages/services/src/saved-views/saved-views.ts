// Saved views: who may see and change which. Documents are a view under its id, its name as a document of its own (so that a user has no two
// views of one name on one page), and how many views a tenant has (so that the limit holds for concurrent requests).

import type { AuditEntry, DocPut, IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { type Fault, fault, type SavedView, type ViewRequest, viewLimits } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/document-list.ts";
import {
  type DocumentWrite,
  type FoundRecord,
  idempotencyKeyFor,
  idForRequest,
  isConflict,
  notFound,
  RecordStore,
  readDocument,
  recordPut,
  retryOnConflict,
  type StoredRecord,
} from "../documents/documents.ts";
import type { OptionalTexts } from "../documents/page-cursors.ts";
import { createSemaphore } from "../environment/concurrency.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { type Actor, actorOf, type Caller, isOwnerOrAdmin } from "../identity/identity.ts";

export type WantedView = ViewRequest & { readonly shared: boolean };
export type FoundView = FoundRecord<SavedViewRecord>;

/** Throws if the caller has not seen the view as it is. */
type ViewRevisionCheck = (stored: StoredView) => void;

export class SavedViews {
  readonly #context: ServiceContext;
  readonly #store: SavedViewStore;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#store = new SavedViewStore(context);
  }

  async find(caller: Caller, id: string): Promise<FoundView> {
    requireViewAccess(caller);
    const { identity } = caller;
    return this.#store.findVisible(identity.tenant, id, (view) => view.shared || isOwnerOrAdmin(identity, view.ownerId));
  }

  /** Own and shared views. */
  list(caller: Caller, { page, limit, after }: OptionalTexts<"page" | "after"> & { readonly limit: number }) {
    requireViewAccess(caller);
    const { tenant, user } = caller.identity;
    return readVisiblePage(
      (from) => this.#store.list({ tenant, limit, ...from }),
      (view) => (view.shared || view.ownerId === user) && (page === undefined || view.page === page),
      after,
    );
  }

  async create(caller: Caller, wanted: WantedView, key: string | null): Promise<FoundView & { readonly repeated: boolean }> {
    requireViewAccess(caller);
    const { tenant, user } = caller.identity;
    const id = idForRequest(this.#context, "view", user, key);
    const now = this.#context.environment.clock.now();
    const record: SavedViewRecord = { id, ...wanted, ownerId: user, createdAt: now, updatedAt: now };
    const ask = idempotencyKeyFor(this.#context.digest, key, { of: "createView", user, wanted });
    const { repeated } = await this.#store.create(actorOf(caller), record, ask);
    const { record: stored, head } = await this.#store.find(tenant, id);
    if (repeated && stored === null) throw notFound("view", id);
    // As the first request was answered, though the view may have changed since.
    const createdAt = (repeated ? stored?.createdAt : undefined) ?? now;
    return { record: { ...record, createdAt, updatedAt: createdAt }, rev: 1, head, repeated };
  }

  async replace(caller: Caller, id: string, wanted: WantedView, checkRevision: ViewRevisionCheck): Promise<FoundView> {
    const readHead = async (): Promise<number> => (await this.#store.find(caller.identity.tenant, id)).head;
    const stored = await this.#findEditable(caller, id, checkRevision);
    const { ownerId, createdAt, updatedAt } = stored.record;
    const unchanged = { id, ownerId, createdAt };
    // Saving the same again makes no new revision: it must not outdate the ETags of others.
    if (canonicalJson({ ...wanted, ...unchanged, updatedAt }) === canonicalJson({ ...stored.record }))
      return { ...stored, head: await readHead() };
    const record: SavedViewRecord = { ...wanted, ...unchanged, updatedAt: this.#context.environment.clock.now() };
    const { rev } = await this.#store.replace(actorOf(caller), stored, record);
    return { record, rev, head: await readHead() };
  }

  async delete(caller: Caller, id: string, checkRevision: ViewRevisionCheck): Promise<void> {
    await this.#store.remove(actorOf(caller), await this.#findEditable(caller, id, checkRevision));
  }

  /** The view, if the caller may change it. */
  async #findEditable(caller: Caller, id: string, checkRevision: ViewRevisionCheck): Promise<StoredView> {
    const found = await this.find(caller, id);
    if (!isOwnerOrAdmin(caller.identity, found.record.ownerId))
      throw fault("E.AUTH.FORBIDDEN", `view ${id} is not yours; its owner or an admin can change it`);
    checkRevision(found);
    return found;
  }
}

/** Every user that has logged in may use views, whatever their role; tokens need the grant `view`. */
function requireViewAccess({ identity: { person, grants } }: Caller): void {
  if (person === undefined && !grants.includes("view")) throw fault("E.AUTH.FORBIDDEN", "this token is not granted view");
}

export type SavedViewRecord = Omit<SavedView, "viewId" | "revision" | "createdAt" | "updatedAt"> & {
  readonly id: string;
  readonly createdAt: number;
  readonly updatedAt: number;
};
export type StoredView = StoredRecord<SavedViewRecord>;

/** Other schedulers may change the count between our read and our write; we try this often. */
const countAttemptsMax = 8;
const countDocumentName = "all";

export class SavedViewStore extends RecordStore<SavedViewRecord> {
  readonly #context: Pick<ServiceContext, "engineClient" | "reader" | "digest">;
  readonly #tenantLocks = new Map<string, ReturnType<typeof createSemaphore>>();

  constructor(context: Pick<ServiceContext, "engineClient" | "reader" | "digest">) {
    super(context, "view");
    this.#context = context;
  }

  create(actor: Actor, record: SavedViewRecord, ask: IdempotencyKey | null): Promise<{ readonly repeated: boolean }> {
    return this.#withViewCount(actor.tenant, async ({ views, rev }) => {
      // A repeated request needs no room: its view exists already.
      if (views >= viewLimits.perTenantMax && (ask === null || (await this.find(actor.tenant, record.id)).record === null))
        throw viewLimitReached();
      const puts = [viewPut(record, 0), this.#viewNamePut(record), viewCountPut(views + 1, rev)];
      return this.#writeView(actor, record, { puts, audit: viewAudit("view.create", record), ask });
    });
  }

  /** Rejects with E.CONFLICT if the view has another revision by now. */
  async replace(actor: Actor, { record, rev }: StoredView, next: SavedViewRecord): Promise<{ readonly rev: number }> {
    const keepsName = this.#nameKeyOf(record) === this.#nameKeyOf(next);
    const { revs } = await this.#writeView(actor, next, {
      puts: [viewPut(next, rev), ...(keepsName ? [] : [this.#viewNamePut(next)])],
      drops: keepsName ? [] : [this.#viewNameDrop(record)],
      audit: viewAudit("view.update", next),
    });
    return { rev: revs[0] ?? rev + 1 };
  }

  async remove(actor: Actor, { record, rev }: StoredView): Promise<void> {
    await this.#withViewCount(actor.tenant, (count) =>
      this.#writeView(actor, record, {
        puts: [viewCountPut(count.views - 1, count.rev)],
        drops: [{ collection: "view", name: record.id, rev }, this.#viewNameDrop(record)],
        audit: viewAudit("view.delete", record),
      }),
    );
  }

  #writeView(actor: Actor, record: SavedViewRecord, write: DocumentWrite) {
    return this.write(actor, write).catch((why: unknown) => {
      throw conflictingCollection(why) === "viewname" ? nameTaken(record) : why;
    });
  }

  /** One change per tenant at a time: a conflict would be audited as a refusal that no caller got. Other schedulers may still conflict. */
  async #withViewCount<T>(tenant: string, act: (count: { views: number; rev: number }) => Promise<T>): Promise<T> {
    const isCountConflict = (why: unknown): boolean => conflictingCollection(why) === "viewcount";
    const tenantLock = this.#tenantLocks.get(tenant) ?? createSemaphore(1);
    this.#tenantLocks.set(tenant, tenantLock);
    try {
      return await tenantLock(() =>
        retryOnConflict(countAttemptsMax, async () => act(await this.#readViewCount(tenant)), isCountConflict),
      );
    } catch (why) {
      throw isCountConflict(why) ? tooBusy(why) : why;
    }
  }

  async #readViewCount(tenant: string): Promise<{ views: number; rev: number }> {
    const { doc } = await readDocument(this.#context.reader, tenant, "viewcount", countDocumentName);
    return doc === null ? { views: 0, rev: 0 } : { ...(JSON.parse(doc.body) as { views: number }), rev: doc.rev };
  }

  #nameKeyOf({ ownerId, page, name }: SavedViewRecord): string {
    return this.#context.digest(JSON.stringify(["view", ownerId, page, normalizeName(name)]));
  }

  #viewNamePut(record: SavedViewRecord): DocPut {
    const body = JSON.stringify({ viewId: record.id });
    return { collection: "viewname", name: this.#nameKeyOf(record), rev: 0, body };
  }

  /** A name document is created and deleted, never changed, so its revision is 1. */
  #viewNameDrop(record: SavedViewRecord) {
    return { collection: "viewname", name: this.#nameKeyOf(record), rev: 1 };
  }
}

/** Names that look alike count as the same. */
const normalizeName = (name: string): string => name.normalize("NFC").trim().toLowerCase();

const viewCountPut = (views: number, rev: number): DocPut => ({
  collection: "viewcount",
  name: countDocumentName,
  rev,
  body: JSON.stringify({ views }),
});

const viewPut = (view: SavedViewRecord, rev: number): DocPut => recordPut("view", view, rev, { sort: normalizeName(view.name) });

const viewAudit = (action: string, { id, name, page, shared }: SavedViewRecord): AuditEntry => ({
  action,
  targetType: "view",
  target: id,
  data: { name, page, shared },
});

/** The collection of the document that was in conflict; null: it is no conflict. */
const conflictingCollection = (why: unknown): unknown => (isConflict(why) ? (why.details?.["collection"] ?? null) : null);

const nameTaken = ({ name, page }: SavedViewRecord): Fault =>
  fault("E.CONFLICT", `there is a view "${name.slice(0, 100)}" of ${page} already; choose another name or change that one`);
const tooBusy = (cause: unknown): Fault =>
  fault("E.STORE.BUSY", "too many concurrent changes of saved views; nothing was changed, try again", undefined, cause);
const viewLimitReached = (): Fault =>
  fault("E.LIMIT.REACHED", `the limit of ${viewLimits.perTenantMax} saved views is reached; delete one first`);
