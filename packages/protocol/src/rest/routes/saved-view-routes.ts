// The routes of saved views. They are open to every signed-in user and to tokens with the permission `view`; no single permission
// expresses that, so the handlers check it.

import { idString, oneOf } from "../../schema/field-types.ts";
import { ViewDetailSchema, ViewListSchema, ViewRequestSchema, viewPages } from "../bodies/saved-view-bodies.ts";
import { idempotencyKeyHeader, ifMatchHeaderOf, pagingQuery, type Route, readFaults, route, writeFaults } from "./route.ts";

const viewIdParam = { viewId: idString() };
const ifMatchHeader = ifMatchHeaderOf("view");

export const viewRoutes = {
  listViews: route("GET", "/api/v1/views", {
    summary: "The caller's own views and those that are shared, by name. A page may be short or empty although more follow.",
    query: { ...pagingQuery, page: { schema: oneOf(viewPages), description: "Views of this list alone." } },
    response: ViewListSchema,
    faults: readFaults,
  }),
  createView: route("POST", "/api/v1/views", {
    summary:
      "Save a view of a list; for every signed-in user, and for tokens with the permission view. Names are unique per owner and page.",
    headers: idempotencyKeyHeader,
    request: ViewRequestSchema,
    response: ViewDetailSchema,
    status: 201,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT", "E.LIMIT.REACHED"],
  }),
  getView: route("GET", "/api/v1/views/{viewId}", {
    summary: "One view, with its revision as ETag. A private view of another user is not found.",
    params: viewIdParam,
    response: ViewDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
  }),
  replaceView: route("PUT", "/api/v1/views/{viewId}", {
    summary: "Replace a view as a whole; its owner stays. Only for its owner and admins.",
    params: viewIdParam,
    headers: ifMatchHeader,
    request: ViewRequestSchema,
    response: ViewDetailSchema,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT", "E.ETAG.STALE"],
  }),
  deleteView: route("DELETE", "/api/v1/views/{viewId}", {
    summary: "Remove a view. Only for its owner and admins.",
    params: viewIdParam,
    headers: ifMatchHeader,
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT", "E.ETAG.STALE"],
  }),
} as const satisfies Record<string, Route>;
