// The routes of saved views: own ones and shared ones.

import { type Fault, fault, readViewRequest, type SavedView } from "@astraflow/protocol";
import {
  decodeDocumentCursor,
  encodeCursor,
  type FoundView,
  isoTime,
  type SavedViews,
  type StoredView,
  type WantedView,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readIfMatch,
  readPageLimit,
  readRequest,
} from "../requests/rest-call.ts";

type SavedViewRoutes = "listViews" | "createView" | "getView" | "replaceView" | "deleteView";

export const savedViewHandlers = (views: SavedViews): Record<SavedViewRoutes, RouteHandler> => ({
  async listViews(call) {
    const { page, cursor } = call.query;
    const query = { page, limit: readPageLimit(call.query), after: decodeDocumentCursor(cursor) };
    const { items, next, head } = await views.list(call, query);
    return { body: { items: items.map(presentView), nextCursor: encodeCursor(next), asOf: head } };
  },

  async createView(call) {
    const key = readIdempotencyKey(call);
    const { repeated, ...created } = await views.create(call, readWantedView(call), key);
    return viewReply(created, { location: `/api/v1/views/${created.record.id}`, ...replayedHeader(repeated) });
  },

  getView: async (call) => viewReply(await views.find(call, viewIdOf(call))),

  async replaceView(call) {
    const wanted = readWantedView(call);
    return viewReply(await views.replace(call, viewIdOf(call), wanted, readRevisionCheck(call)));
  },

  async deleteView(call) {
    await views.delete(call, viewIdOf(call), readRevisionCheck(call));
    return { body: "", status: 204 };
  },
});

const viewIdOf = ({ params }: RestCall): string => params["viewId"] ?? "";

function readWantedView(call: RestCall): WantedView {
  const body = readRequest(call, readViewRequest);
  return { ...body, shared: body.shared ?? false };
}

/** Refuses if `If-Match` names other revisions than the one the view is at. */
function readRevisionCheck(call: RestCall): (stored: StoredView) => void {
  const tags = readIfMatch(call);
  return (stored) => {
    if (tags !== null && !tags.includes(viewEtag(stored))) throw revisionStale(stored);
  };
}

const viewEtag = ({ rev }: StoredView): string => `"r${rev}"`;

const viewReply = (found: FoundView, headers: Readonly<Record<string, string>> = {}): RestReply => ({
  body: { ...presentView(found), asOf: found.head },
  headers: { etag: viewEtag(found), ...headers },
});

function presentView({ record, rev }: StoredView): SavedView {
  const { id, createdAt, updatedAt, ...rest } = record;
  return { viewId: id, ...rest, revision: rev, createdAt: isoTime(createdAt), updatedAt: isoTime(updatedAt) };
}

const revisionStale = ({ record, rev }: StoredView): Fault =>
  fault("E.ETAG.STALE", `view ${record.id} is at revision ${rev} by now; read it again`, { revision: rev });
