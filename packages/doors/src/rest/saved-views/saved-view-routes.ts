// The routes of saved views: own ones and shared ones.

import { fault, readViewRequest, type SavedView } from "@astraflow/protocol";
import {
  decodeDocumentCursor,
  type FoundView,
  isoTime,
  type SavedViews,
  type StoredView,
  type WantedView,
} from "@astraflow/services";
import {
  noContent,
  pageReply,
  type RestCall,
  type RestReply,
  type RouteHandlers,
  replayedHeader,
} from "../requests/rest-call.ts";

export const savedViewHandlers = (views: SavedViews) =>
  ({
    async listViews(call) {
      const { page, cursor } = call.query;
      const query = { page, limit: call.readPageLimit(), after: decodeDocumentCursor(cursor) };
      return pageReply(await views.list(call, query), presentView);
    },

    async createView(call) {
      const key = call.readIdempotencyKey();
      const { repeated, ...created } = await views.create(call, readWantedView(call), key);
      return viewReply(created, { location: `/api/v1/views/${created.record.id}`, ...replayedHeader(repeated) });
    },

    getView: async (call) => viewReply(await views.find(call, call.param("viewId"))),

    async replaceView(call) {
      const wanted = readWantedView(call);
      return viewReply(await views.replace(call, call.param("viewId"), wanted, readRevisionCheck(call)));
    },

    async deleteView(call) {
      await views.delete(call, call.param("viewId"), readRevisionCheck(call));
      return noContent;
    },
  }) satisfies RouteHandlers;

function readWantedView(call: RestCall): WantedView {
  const body = call.readBody(readViewRequest);
  return { ...body, shared: body.shared ?? false };
}

const readRevisionCheck = (call: RestCall) =>
  call.readRevisionCheck(viewEtag, ({ record, rev }: StoredView) =>
    fault("E.ETAG.STALE", `view ${record.id} is at revision ${rev} by now; read it again`, { revision: rev }),
  );

const viewEtag = ({ rev }: StoredView): string => `"r${rev}"`;

const viewReply = (found: FoundView, headers: Readonly<Record<string, string>> = {}): RestReply => ({
  body: { ...presentView(found), asOf: found.head },
  headers: { etag: viewEtag(found), ...headers },
});

function presentView({ record, rev }: StoredView): SavedView {
  const { id, createdAt, updatedAt, ...rest } = record;
  return { viewId: id, ...rest, revision: rev, createdAt: isoTime(createdAt), updatedAt: isoTime(updatedAt) };
}
