// The routes about people: signing in, users and their roles, the audit, and the views of lists that they save.

import * as t from "../../schema/field-types.ts";
import * as viewBodies from "../bodies/saved-view-bodies.ts";
import * as bodies from "../bodies/user-bodies.ts";
import {
  changeFaults,
  idempotencyKeyHeaderOf,
  ifMatchHeaderOf,
  instantQuery,
  pagingQuery,
  positionPagingQuery,
  type QueryParameter,
  readFaults,
  type Route,
  route,
  writeFaults,
} from "./route.ts";

const auditQuery = {
  ...positionPagingQuery,
  action: { schema: t.name(), description: "Exactly this action." },
  actorId: { schema: t.id() },
  targetType: { schema: t.name() },
  targetId: { schema: t.id() },
  runId: { schema: t.id(), description: "What was done to this run and its tasks." },
  since: instantQuery("Nothing older than this."),
} as const satisfies Record<string, QueryParameter>;
const audit = {
  summary:
    "Who did what, newest first: every change of people, resources and workflows, every steering and package command, every start and dispatch. " +
    "A page may be short, or empty, although more follows: nextCursor is null only at the end.",
  query: auditQuery,
  response: bodies.AuditEventListSchema,
} as const;

export const userRoutes = {
  login: route("POST", "/api/v1/auth/login", "open", {
    summary: "A token for a user's name and password.",
    request: bodies.AuthLoginRequestSchema,
    response: bodies.AuthLoginResponseSchema,
    faults: [
      "E.REQUEST.INVALID",
      "E.REQUEST.MEDIA",
      "E.REQUEST.TOO_LARGE",
      "E.AUTH.CREDENTIALS",
      "E.AUTH.THROTTLED",
      "E.OVERLOADED",
      "E.STORE.BUSY",
      "E.SHUTTING_DOWN",
      "E.INTERNAL",
    ],
  }),
  logout: route("POST", "/api/v1/auth/logout", "token", {
    summary: "Revokes the caller's token.",
    headers: idempotencyKeyHeaderOf("Not kept: a token is revoked once, and asked again with it the answer is 401."),
    status: 204,
    faults: [...readFaults, "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
  }),
  listUsers: route("GET", "/api/v1/users", "admin", {
    summary: "Users of the tenant by name.",
    query: { ...pagingQuery, search: { schema: t.name(), description: "Words of the user's names." } },
    response: bodies.UserListSchema,
  }),
  createUser: route("POST", "/api/v1/users", "admin", {
    summary: "A new user, with roles or none.",
    request: bodies.UserCreateRequestSchema,
    response: bodies.UserDetailSchema,
    status: 201,
  }),
  getOwnUser: route("GET", "/api/v1/users/me", "token", {
    summary: "Who the caller is. A token from the configuration counts as a user of its name.",
    response: bodies.UserDetailSchema,
  }),
  changeOwnUser: route("PATCH", "/api/v1/users/me", "token", {
    summary: "Change the caller's display name.",
    request: bodies.UserChangeRequestSchema,
    response: bodies.UserDetailSchema,
  }),
  setOwnPassword: route("PUT", "/api/v1/users/me/password", "token", {
    summary: "Change the caller's own password; existing tokens stop working.",
    request: bodies.OwnPasswordRequestSchema,
    status: 204,
    faults: [...changeFaults, "E.AUTH.CREDENTIALS", "E.AUTH.THROTTLED"],
  }),
  getUser: route("GET", "/api/v1/users/{userId}", "admin", { summary: "One user.", response: bodies.UserDetailSchema }),
  setUserPassword: route("POST", "/api/v1/users/{userId}/password", "admin", {
    summary: "Give a user a new password; existing tokens stop working.",
    request: bodies.UserPasswordRequestSchema,
    status: 204,
  }),
  addUserRole: route("POST", "/api/v1/users/{userId}/roles", "admin", {
    summary: "Give a user a role; one it has already changes nothing.",
    request: bodies.UserRoleRequestSchema,
    status: 204,
  }),
  removeUserRole: route("DELETE", "/api/v1/users/{userId}/roles/{role}", "admin", {
    summary: "Take a role from a user; one it does not have changes nothing. Nobody takes admin from themselves.",
    status: 204,
  }),
  setUserStatus: route("PATCH", "/api/v1/users/{userId}/status", "admin", {
    summary: "Lock a user out, or let it in again. Nobody locks themselves out.",
    request: bodies.UserStatusRequestSchema,
    status: 204,
  }),
  listAuditEvents: route("GET", "/api/v1/audit-events", "admin", audit),
  listAudit: route("GET", "/api/v1/audit", "admin", { ...audit, summary: "The same as /api/v1/audit-events." }),
} as const satisfies Record<string, Route>;

/** For users, and for tokens with the permission `view`. No single permission says that; handlers check it. */
export const viewRoutes = {
  listViews: route("GET", "/api/v1/views", "token", {
    summary: "The caller's own views and those that are shared, by name. A page may be short or empty although more follow.",
    query: { ...pagingQuery, page: { schema: t.oneOf(viewBodies.viewPages), description: "Views of this list alone." } },
    response: viewBodies.ViewListSchema,
  }),
  createView: route("POST", "/api/v1/views", "token", {
    summary:
      "Save a view of a list; for every signed-in user, and for tokens with the permission view. Names are unique per owner and page.",
    request: viewBodies.ViewRequestSchema,
    response: viewBodies.ViewDetailSchema,
    status: 201,
    faults: [...changeFaults, "E.LIMIT.REACHED"],
  }),
  getView: route("GET", "/api/v1/views/{viewId}", "token", {
    summary: "One view, with its revision as ETag. A private view of another user is not found.",
    response: viewBodies.ViewDetailSchema,
  }),
  replaceView: route("PUT", "/api/v1/views/{viewId}", "token", {
    summary: "Replace a view as a whole; its owner stays. Only for its owner and admins.",
    headers: ifMatchHeaderOf("view"),
    request: viewBodies.ViewRequestSchema,
    response: viewBodies.ViewDetailSchema,
    faults: [...changeFaults, "E.ETAG.STALE"],
  }),
  deleteView: route("DELETE", "/api/v1/views/{viewId}", "token", {
    summary: "Remove a view. Only for its owner and admins.",
    headers: ifMatchHeaderOf("view"),
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT", "E.ETAG.STALE"],
  }),
} as const satisfies Record<string, Route>;
