// The routes of saved views: own ones and those that are shared. How they are kept is saved-view-store.ts; what a page makes of a query is the page's.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readViewRequest, type SavedView, type ViewRequest } from "@astraflow/protocol";
import {
  actorOf,
  type CallerIdentity,
  decodeDocumentCursor,
  encodeCursor,
  isOwnerOrAdmin,
  isoTime,
  readVisiblePage,
  type SavedViewRecord,
  type SavedViewStore,
  type StoredView,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readIfMatch,
  readJsonBody,
  readPageLimit,
} from "../requests/rest-call.ts";

export interface SavedViewRoutesOptions {
  readonly environment: DoorEnvironment;
  readonly digest: (text: string) => string;
}

type SavedViewRoutes = "listViews" | "createView" | "getView" | "replaceView" | "deleteView";

export function savedViewHandlers(store: SavedViewStore, options: SavedViewRoutesOptions): Record<SavedViewRoutes, RouteHandler> {
  const handlers = createViewHandlers(store, options);
  const admitted = Object.entries(handlers).map(([name, handle]): [string, RouteHandler] => [
    name,
    (call) => {
      requireViewAccess(call.identity);
      return handle(call);
    },
  ]);
  return Object.fromEntries(admitted) as typeof handlers;
}

/** Whoever has signed in has a list to look at, by whatever role; of tokens only those that see runs and workers. */
function requireViewAccess({ person, grants }: CallerIdentity): void {
  if (person === undefined && !grants.includes("view")) throw fault("E.AUTH.FORBIDDEN", "this token is not granted view");
}

function createViewHandlers(store: SavedViewStore, options: SavedViewRoutesOptions): Record<SavedViewRoutes, RouteHandler> {
  const { digest } = options;
  const { clock, ids } = options.environment;

  const find = async (call: RestCall): Promise<{ stored: StoredView; head: number }> => {
    const id = call.params["viewId"] ?? "";
    const { stored, head } = await store.find(call.identity.tenant, id);
    if (stored === null || !(stored.record.shared || isOwnerOrAdmin(call.identity, stored.record.ownerId)))
      throw viewNotFound(id);
    return { stored, head };
  };
  /** The view, where the caller may change it and has seen it as it is. */
  const findEditable = async (call: RestCall): Promise<StoredView> => {
    const tags = readIfMatch(call);
    const { stored } = await find(call);
    if (!isOwnerOrAdmin(call.identity, stored.record.ownerId))
      throw fault("E.AUTH.FORBIDDEN", `view ${stored.record.id} is not yours; its owner or an admin can change it`);
    if (tags !== null && !tags.includes(viewEtag(stored))) throw revisionStale(stored);
    return stored;
  };
  const readLogHead = async (tenant: string, id: string): Promise<number> => (await store.find(tenant, id)).head;

  return {
    async listViews(call) {
      const { tenant, user } = call.identity;
      const { page, cursor } = call.query;
      const limit = readPageLimit(call.query);
      const { items, next, head } = await readVisiblePage(
        async (after) => {
          const { items: stored, ...rest } = await store.list({ tenant, limit, ...(after !== undefined && { after }) });
          return { items: stored.map((one) => ({ record: one, rev: one.rev })), ...rest };
        },
        ({ record }) => (record.shared || record.ownerId === user) && (page === undefined || record.page === page),
        decodeDocumentCursor(cursor),
      );
      return { body: { items: items.map(presentView), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createView(call) {
      const key = readIdempotencyKey(call);
      const wanted = readViewRequestBody(call);
      const { tenant, user } = call.identity;
      // Under a key the id follows from it, so that the answer to a repeat can name it.
      const id = key === null ? ids.next() : digest(canonicalJson({ of: "view", user, key }));
      const now = clock.now();
      const record: SavedViewRecord = { id, ...wanted, ownerId: user, createdAt: now, updatedAt: now };
      const idempotencyKey = key === null ? null : { key, digest: digest(canonicalJson({ of: "createView", user, wanted })) };
      const { repeated } = await store.create(actorOf(call), record, idempotencyKey);
      const { stored, head } = await store.find(tenant, id);
      if (repeated && stored === null) throw viewNotFound(id);
      // What the first was answered, though the view may have changed since.
      const createdAt = (repeated ? stored?.record.createdAt : undefined) ?? now;
      const first: StoredView = { record: { ...record, createdAt, updatedAt: createdAt }, rev: 1 };
      const headers = { location: `/api/v1/views/${id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return viewReply(first, head, headers);
    },

    async getView(call) {
      const { stored, head } = await find(call);
      return viewReply(stored, head);
    },

    async replaceView(call) {
      const wanted = readViewRequestBody(call);
      const stored = await findEditable(call);
      const { id, ownerId, createdAt, updatedAt } = stored.record;
      const unchanged = { id, ownerId, createdAt };
      const { tenant } = call.identity;
      // The same again is no new revision: whoever saves on leaving must not outdate the ETags of others.
      if (canonicalJson({ ...wanted, ...unchanged, updatedAt }) === canonicalJson({ ...stored.record }))
        return viewReply(stored, await readLogHead(tenant, id));
      const record: SavedViewRecord = { ...wanted, ...unchanged, updatedAt: clock.now() };
      const { rev } = await store.replace(actorOf(call), stored, record);
      return viewReply({ record, rev }, await readLogHead(tenant, id));
    },

    async deleteView(call) {
      await store.remove(actorOf(call), await findEditable(call));
      return { body: "", status: 204 };
    },
  };
}

type WantedView = ViewRequest & { readonly shared: boolean };

function readViewRequestBody(call: RestCall): WantedView {
  const body = readViewRequest(readJsonBody(call));
  if (body instanceof Fault) throw body;
  return { ...body, shared: body.shared ?? false };
}

const viewEtag = ({ rev }: StoredView): string => `"r${rev}"`;

function viewReply(stored: StoredView, asOf: number, headers: Readonly<Record<string, string>> = {}): RestReply {
  return { body: { ...presentView(stored), asOf }, headers: { etag: viewEtag(stored), ...headers } };
}

function presentView({ record, rev }: StoredView): SavedView {
  const { id, createdAt, updatedAt, ...rest } = record;
  return { viewId: id, ...rest, revision: rev, createdAt: isoTime(createdAt), updatedAt: isoTime(updatedAt) };
}

const revisionStale = ({ record, rev }: StoredView): Fault =>
  fault("E.ETAG.STALE", `view ${record.id} is at revision ${rev} by now; read it again`, { revision: rev });

/** One sentence for every id that is not the caller's to see: it must not show whether it is someone else's. */
const viewNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no view ${id.slice(0, 100)}`);
