// Saved views: who may see and change which, and how they are created and replaced.

import { canonicalJson } from "@astraflow/graph";
import { type Fault, fault, type ViewRequest } from "@astraflow/protocol";
import { readVisiblePage } from "../documents/visible-page.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import type { SavedViewRecord, SavedViewStore, StoredView } from "./saved-view-store.ts";

export interface SavedViews {
  readonly store: SavedViewStore;
  readonly environment: ServiceEnvironment;
  readonly digest: (text: string) => string;
}

export interface FoundView {
  readonly stored: StoredView;
  readonly head: number;
}

/** Every user that has logged in may use views, whatever their role; tokens need the grant `view`. */
function requireViewAccess({ identity: { person, grants } }: Caller): void {
  if (person === undefined && !grants.includes("view")) throw fault("E.AUTH.FORBIDDEN", "this token is not granted view");
}

export async function findView({ store }: SavedViews, caller: Caller, id: string): Promise<FoundView> {
  requireViewAccess(caller);
  const { stored, head } = await store.find(caller.identity.tenant, id);
  if (stored === null || !(stored.record.shared || isOwnerOrAdmin(caller.identity, stored.record.ownerId)))
    throw viewNotFound(id);
  return { stored, head };
}

/** The view, if the caller may change it; `checkRevision` throws if the caller has not seen it as it is. */
async function findEditableView(
  views: SavedViews,
  caller: Caller,
  id: string,
  checkRevision: (stored: StoredView) => void,
): Promise<StoredView> {
  const { stored } = await findView(views, caller, id);
  if (!isOwnerOrAdmin(caller.identity, stored.record.ownerId))
    throw fault("E.AUTH.FORBIDDEN", `view ${id} is not yours; its owner or an admin can change it`);
  checkRevision(stored);
  return stored;
}

/** Own and shared views. */
export function listViews(
  { store }: SavedViews,
  caller: Caller,
  {
    page,
    limit,
    after: start,
  }: { readonly page: string | undefined; readonly limit: number; readonly after: string | undefined },
) {
  requireViewAccess(caller);
  const { tenant, user } = caller.identity;
  return readVisiblePage(
    async (after) => {
      const { items, ...rest } = await store.list({ tenant, limit, ...(after !== undefined && { after }) });
      return { items: items.map((record) => ({ record })), ...rest };
    },
    ({ record }) => (record.shared || record.ownerId === user) && (page === undefined || record.page === page),
    start,
  );
}

export async function createView(
  { store, environment, digest }: SavedViews,
  caller: Caller,
  wanted: WantedView,
  key: string | null,
): Promise<FoundView & { readonly repeated: boolean }> {
  requireViewAccess(caller);
  const { tenant, user } = caller.identity;
  // With a key the id is derived from it, so that a repeated request finds the view.
  const id = key === null ? environment.ids.next() : digest(canonicalJson({ of: "view", user, key }));
  const now = environment.clock.now();
  const record: SavedViewRecord = { id, ...wanted, ownerId: user, createdAt: now, updatedAt: now };
  const idempotencyKey = key === null ? null : { key, digest: digest(canonicalJson({ of: "createView", user, wanted })) };
  const { repeated } = await store.create(actorOf(caller), record, idempotencyKey);
  const { stored, head } = await store.find(tenant, id);
  if (repeated && stored === null) throw viewNotFound(id);
  // As the first request was answered, though the view may have changed since.
  const createdAt = (repeated ? stored?.record.createdAt : undefined) ?? now;
  return { stored: { record: { ...record, createdAt, updatedAt: createdAt }, rev: 1 }, head, repeated };
}

export async function replaceView(
  views: SavedViews,
  caller: Caller,
  id: string,
  wanted: WantedView,
  checkRevision: (stored: StoredView) => void,
): Promise<FoundView> {
  const { store, environment } = views;
  const readHead = async (): Promise<number> => (await store.find(caller.identity.tenant, id)).head;
  const stored = await findEditableView(views, caller, id, checkRevision);
  const { ownerId, createdAt, updatedAt } = stored.record;
  const unchanged = { id, ownerId, createdAt };
  // Saving the same again makes no new revision: it must not outdate the ETags of others.
  if (canonicalJson({ ...wanted, ...unchanged, updatedAt }) === canonicalJson({ ...stored.record }))
    return { stored, head: await readHead() };
  const record: SavedViewRecord = { ...wanted, ...unchanged, updatedAt: environment.clock.now() };
  const { rev } = await store.replace(actorOf(caller), stored, record);
  return { stored: { record, rev }, head: await readHead() };
}

export async function deleteView(
  views: SavedViews,
  caller: Caller,
  id: string,
  checkRevision: (stored: StoredView) => void,
): Promise<void> {
  await views.store.remove(actorOf(caller), await findEditableView(views, caller, id, checkRevision));
}

export type WantedView = ViewRequest & { readonly shared: boolean };

/** The same message for every id that the caller may not see: it must not show whether it is someone else's. */
const viewNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no view ${id.slice(0, 100)}`);
