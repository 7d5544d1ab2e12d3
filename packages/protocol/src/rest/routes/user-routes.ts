// The routes about people: signing in, users and their roles, the audit.

import { idString, instantString, nameString, oneOf } from "../../schema/field-types.ts";
import {
  AuditEventListSchema,
  AuthLoginRequestSchema,
  AuthLoginResponseSchema,
  OwnPasswordRequestSchema,
  UserChangeRequestSchema,
  UserCreateRequestSchema,
  UserDetailSchema,
  UserListSchema,
  UserPasswordRequestSchema,
  UserRoleRequestSchema,
  UserStatusRequestSchema,
  userRoles,
} from "../bodies/user-bodies.ts";
import { changeFaults, idempotencyKeyHeader, pagingQuery, type QueryParameter, type Route, readFaults, route } from "./route.ts";

const userIdParam = { userId: idString() };

const auditQuery = {
  ...pagingQuery,
  action: { schema: nameString(), description: "Exactly this action." },
  actorId: { schema: idString() },
  targetType: { schema: nameString() },
  targetId: { schema: idString() },
  runId: { schema: idString(), description: "What was done to this run and its tasks." },
  since: { schema: instantString(), description: "Nothing older than this." },
} as const satisfies Record<string, QueryParameter>;
const auditRoute = {
  method: "GET",
  summary:
    "Who did what, newest first: every change of people, resources and workflows, every steering and package command, every start and dispatch. " +
    "A page may be short, or empty, although more follows: nextCursor is null only at the end.",
  query: auditQuery,
  response: AuditEventListSchema,
  status: 200,
  faults: readFaults,
  grant: "admin",
} as const;

export const userRoutes = {
  login: route("POST", "/api/v1/auth/login", {
    summary: "A token for a user's name and password.",
    request: AuthLoginRequestSchema,
    response: AuthLoginResponseSchema,
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
    isOpen: true,
  }),
  logout: route("POST", "/api/v1/auth/logout", {
    summary: "Revokes the caller's token.",
    headers: idempotencyKeyHeader,
    status: 204,
    faults: [...readFaults, "E.CONFLICT", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
  }),
  listUsers: route("GET", "/api/v1/users", {
    summary: "Users of the tenant by name.",
    query: { ...pagingQuery, search: { schema: nameString(), description: "Words of the user's names." } },
    response: UserListSchema,
    faults: readFaults,
    grant: "admin",
  }),
  createUser: route("POST", "/api/v1/users", {
    summary: "A new user, with roles or none.",
    headers: idempotencyKeyHeader,
    request: UserCreateRequestSchema,
    response: UserDetailSchema,
    status: 201,
    faults: changeFaults,
    grant: "admin",
  }),
  getOwnUser: route("GET", "/api/v1/users/me", {
    summary: "Who the caller is. A token from the configuration counts as a user of its name.",
    response: UserDetailSchema,
    faults: readFaults,
  }),
  changeOwnUser: route("PATCH", "/api/v1/users/me", {
    summary: "Change the caller's display name.",
    request: UserChangeRequestSchema,
    response: UserDetailSchema,
    faults: changeFaults,
  }),
  setOwnPassword: route("PUT", "/api/v1/users/me/password", {
    summary: "Change the caller's own password; existing tokens stop working.",
    request: OwnPasswordRequestSchema,
    status: 204,
    faults: [...changeFaults, "E.AUTH.CREDENTIALS", "E.AUTH.THROTTLED"],
  }),
  getUser: route("GET", "/api/v1/users/{userId}", {
    summary: "One user.",
    params: userIdParam,
    response: UserDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "admin",
  }),
  setUserPassword: route("POST", "/api/v1/users/{userId}/password", {
    summary: "Give a user a new password; existing tokens stop working.",
    params: userIdParam,
    headers: idempotencyKeyHeader,
    request: UserPasswordRequestSchema,
    status: 204,
    faults: changeFaults,
    grant: "admin",
  }),
  addUserRole: route("POST", "/api/v1/users/{userId}/roles", {
    summary: "Give a user a role; one it has already changes nothing.",
    params: userIdParam,
    headers: idempotencyKeyHeader,
    request: UserRoleRequestSchema,
    status: 204,
    faults: changeFaults,
    grant: "admin",
  }),
  removeUserRole: route("DELETE", "/api/v1/users/{userId}/roles/{role}", {
    summary: "Take a role from a user; one it does not have changes nothing. Nobody takes admin from themselves.",
    params: { ...userIdParam, role: oneOf(userRoles) },
    status: 204,
    faults: changeFaults,
    grant: "admin",
  }),
  setUserStatus: route("PATCH", "/api/v1/users/{userId}/status", {
    summary: "Lock a user out, or let it in again. Nobody locks themselves out.",
    params: userIdParam,
    request: UserStatusRequestSchema,
    status: 204,
    faults: changeFaults,
    grant: "admin",
  }),
  listAuditEvents: { ...auditRoute, path: "/api/v1/audit-events" },
  listAudit: { ...auditRoute, path: "/api/v1/audit", summary: "The same as /api/v1/audit-events." },
} as const satisfies Record<string, Route>;
