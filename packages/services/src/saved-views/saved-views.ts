// Saved views: who may see and change which, and how they are created and replaced.

import { canonicalJson } from "@astraflow/graph";
import { fault, type ViewRequest } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/document-list.ts";
import { type FoundRecord, idempotencyKeyFor, idForRequest, notFound } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import { type SavedViewRecord, SavedViewStore, type StoredView } from "./saved-view-store.ts";

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
    const { record, rev, head } = await this.#store.find(caller.identity.tenant, id);
    if (record === null || !(record.shared || isOwnerOrAdmin(caller.identity, record.ownerId))) throw notFound("view", id);
    return { record, rev, head };
  }

  /** Own and shared views. */
  list(
    caller: Caller,
    query: { readonly page?: string | undefined; readonly limit: number; readonly after?: string | undefined },
  ) {
    requireViewAccess(caller);
    const { tenant, user } = caller.identity;
    const { page, limit, after } = query;
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
