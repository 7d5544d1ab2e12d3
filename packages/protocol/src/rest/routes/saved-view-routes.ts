// The routes of saved views: for users, and for tokens with the permission `view`. No single permission says that; handlers check it.

import * as t from "../../schema/field-types.ts";
import * as bodies from "../bodies/saved-view-bodies.ts";
import { changeFaults, ifMatchHeaderOf, pagingQuery, type Route, route, writeFaults } from "./route.ts";

const ifMatchHeader = ifMatchHeaderOf("view");

export const viewRoutes = {
  listViews: route("GET", "/api/v1/views", "token", {
    summary: "The caller's own views and those that are shared, by name. A page may be short or empty although more follow.",
    query: { ...pagingQuery, page: { schema: t.oneOf(bodies.viewPages), description: "Views of this list alone." } },
    response: bodies.ViewListSchema,
  }),
  createView: route("POST", "/api/v1/views", "token", {
    summary:
      "Save a view of a list; for every signed-in user, and for tokens with the permission view. Names are unique per owner and page.",
    request: bodies.ViewRequestSchema,
    response: bodies.ViewDetailSchema,
    status: 201,
    faults: [...changeFaults, "E.LIMIT.REACHED"],
  }),
  getView: route("GET", "/api/v1/views/{viewId}", "token", {
    summary: "One view, with its revision as ETag. A private view of another user is not found.",
    response: bodies.ViewDetailSchema,
  }),
  replaceView: route("PUT", "/api/v1/views/{viewId}", "token", {
    summary: "Replace a view as a whole; its owner stays. Only for its owner and admins.",
    headers: ifMatchHeader,
    request: bodies.ViewRequestSchema,
    response: bodies.ViewDetailSchema,
    faults: [...changeFaults, "E.ETAG.STALE"],
  }),
  deleteView: route("DELETE", "/api/v1/views/{viewId}", "token", {
    summary: "Remove a view. Only for its owner and admins.",
    headers: ifMatchHeader,
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT", "E.ETAG.STALE"],
  }),
} as const satisfies Record<string, Route>;
