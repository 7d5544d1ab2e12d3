// The routes of saved views: own ones and those that are shared. How they are kept is view-store.ts; what a page makes of a query is the page's.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readViewRequest, type SavedView, type ViewRequest } from "@astraflow/protocol";
import type { CallerIdentity } from "../../identity.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { type Call, type Handler, type Reply, readBody, readIdempotencyKey, readIfMatch, readLimit } from "../call.ts";
import { readDocsCursor, spellCursor } from "../people/user-cursor.ts";
import { doerOf, isOwn, seen } from "../resources/resource-keeper.ts";
import { instant } from "../view.ts";
import { createViewStore, type KeptView, type ViewRecord, type ViewStoreOptions } from "./view-store.ts";

export interface ViewsOptions extends ViewStoreOptions {
  readonly environment: DoorEnvironment;
}

type ViewRoutes = "listViews" | "createView" | "getView" | "replaceView" | "deleteView";

export function viewsHandlers(options: ViewsOptions): Record<ViewRoutes, Handler> {
  const handlers = keptViews(options);
  const admitted = Object.entries(handlers).map(([name, handle]): [string, Handler] => [
    name,
    (call) => {
      refuseStranger(call.identity);
      return handle(call);
    },
  ]);
  return Object.fromEntries(admitted) as typeof handlers;
}

/** Whoever has signed in has a list to look at, by whatever role; of tokens only those that see runs and workers. */
function refuseStranger({ person, grants }: CallerIdentity): void {
  if (person === undefined && !grants.includes("view")) throw fault("E.AUTH.FORBIDDEN", "this token is not granted view");
}

function keptViews(options: ViewsOptions): Record<ViewRoutes, Handler> {
  const { digest } = options;
  const { clock, ids } = options.environment;
  const store = createViewStore(options);

  const find = async (call: Call): Promise<{ kept: KeptView; head: number }> => {
    const id = call.params["viewId"] ?? "";
    const { kept, head } = await store.find(call.identity.tenant, id);
    if (kept === null || !(kept.record.shared || isOwn(call.identity, kept.record.ownerId))) throw missing(id);
    return { kept, head };
  };
  /** The view, where the caller may change it and has seen it as it is. */
  const findOwn = async (call: Call): Promise<KeptView> => {
    const tags = readIfMatch(call);
    const { kept } = await find(call);
    if (!isOwn(call.identity, kept.record.ownerId))
      throw fault("E.AUTH.FORBIDDEN", `view ${kept.record.id} is not yours; its owner or an admin can change it`);
    if (tags !== null && !tags.includes(etagOf(kept))) throw movedOn(kept);
    return kept;
  };
  const headOf = async (tenant: string, id: string): Promise<number> => (await store.find(tenant, id)).head;

  return {
    async listViews(call) {
      const { tenant, user } = call.identity;
      const { page, cursor } = call.query;
      const limit = readLimit(call.query);
      const { items, next, head } = await seen(
        async (after) => {
          const { items: kept, ...rest } = await store.list({ tenant, limit, ...(after !== undefined && { after }) });
          return { items: kept.map((one) => ({ record: one, rev: one.rev })), ...rest };
        },
        ({ record }) => (record.shared || record.ownerId === user) && (page === undefined || record.page === page),
        readDocsCursor(cursor),
      );
      return { body: { items: items.map(viewOf), nextCursor: spellCursor(next), asOf: head } };
    },

    async createView(call) {
      const key = readIdempotencyKey(call);
      const wanted = readWanted(call);
      const { tenant, user } = call.identity;
      // Under a key the id follows from it, so that the answer to a repeat can name it.
      const id = key === null ? ids.next() : digest(canonicalJson({ of: "view", user, key }));
      const now = clock.now();
      const record: ViewRecord = { id, ...wanted, ownerId: user, createdAt: now, updatedAt: now };
      const ask = key === null ? null : { key, digest: digest(canonicalJson({ of: "createView", user, wanted })) };
      const { repeated } = await store.create(doerOf(call), record, ask);
      const { kept, head } = await store.find(tenant, id);
      if (repeated && kept === null) throw missing(id);
      // What the first was answered, though the view may have changed since.
      const createdAt = (repeated ? kept?.record.createdAt : undefined) ?? now;
      const first: KeptView = { record: { ...record, createdAt, updatedAt: createdAt }, rev: 1 };
      const headers = { location: `/api/v1/views/${id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return reply(first, head, headers);
    },

    async getView(call) {
      const { kept, head } = await find(call);
      return reply(kept, head);
    },

    async replaceView(call) {
      const wanted = readWanted(call);
      const kept = await findOwn(call);
      const { id, ownerId, createdAt, updatedAt } = kept.record;
      const own = { id, ownerId, createdAt };
      const { tenant } = call.identity;
      // The same again is no new revision: whoever saves on leaving must not outdate the ETags of others.
      if (canonicalJson({ ...wanted, ...own, updatedAt }) === canonicalJson({ ...kept.record }))
        return reply(kept, await headOf(tenant, id));
      const record: ViewRecord = { ...wanted, ...own, updatedAt: clock.now() };
      const { rev } = await store.replace(doerOf(call), kept, record);
      return reply({ record, rev }, await headOf(tenant, id));
    },

    async deleteView(call) {
      await store.remove(doerOf(call), await findOwn(call));
      return { body: "", status: 204 };
    },
  };
}

type Wanted = ViewRequest & { readonly shared: boolean };

function readWanted(call: Call): Wanted {
  const body = readViewRequest(readBody(call));
  if (body instanceof Fault) throw body;
  return { ...body, shared: body.shared ?? false };
}

const etagOf = ({ rev }: KeptView): string => `"r${rev}"`;

function reply(kept: KeptView, asOf: number, headers: Readonly<Record<string, string>> = {}): Reply {
  return { body: { ...viewOf(kept), asOf }, headers: { etag: etagOf(kept), ...headers } };
}

function viewOf({ record, rev }: KeptView): SavedView {
  const { id, createdAt, updatedAt, ...rest } = record;
  return { viewId: id, ...rest, revision: rev, createdAt: instant(createdAt), updatedAt: instant(updatedAt) };
}

const movedOn = ({ record, rev }: KeptView): Fault =>
  fault("E.ETAG.STALE", `view ${record.id} is at revision ${rev} by now; read it again`, { revision: rev });

/** One sentence for every id that is not the caller's to see: it must not show whether it is someone else's. */
const missing = (id: string): Fault => fault("E.NOT_FOUND", `there is no view ${id.slice(0, 100)}`);
