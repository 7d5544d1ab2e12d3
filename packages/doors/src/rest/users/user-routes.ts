// The routes about users: logging in and out, users, their roles and passwords. The audit is in audit-routes.ts.

import { type Fault, fault, readUserRequest, type UserRole, type UserSummary, userRoles } from "@astraflow/protocol";
import {
  decodeDocumentCursor,
  encodeCursor,
  rolesForGrants,
  type User,
  type UserChanges,
  userNotFound,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readPageLimit,
  readRequest,
} from "../requests/rest-call.ts";

type UserRoutes =
  | "login"
  | "logout"
  | "listUsers"
  | "createUser"
  | "getUser"
  | "setUserPassword"
  | "addUserRole"
  | "removeUserRole"
  | "setUserStatus";
type OwnUserRoutes = "getOwnUser" | "changeOwnUser" | "setOwnPassword";

const noContent: RestReply = { body: "", status: 204 };
const defaultTenant = "default";

export const userHandlers = (users: UserChanges): Record<UserRoutes | OwnUserRoutes, RouteHandler> => ({
  ...otherUserHandlers(users),
  ...ownUserHandlers(users),
});

function otherUserHandlers(users: UserChanges): Record<UserRoutes, RouteHandler> {
  const { accounts } = users;
  return {
    async login(call) {
      const { username, password, tenant = defaultTenant } = readUserBody(call, "login");
      const attempt = { tenant, username, password, address: call.address ?? "", corr: call.requestId };
      const { token, expiresIn, user } = await accounts.login(attempt);
      return { body: { accessToken: token, tokenType: "Bearer", expiresIn, user: presentUser(user) } };
    },

    async logout(call) {
      readIdempotencyKey(call);
      await users.logout(call);
      return noContent;
    },

    async listUsers(call) {
      const { search, cursor } = call.query;
      const after = decodeDocumentCursor(cursor);
      const { items, next, head } = await accounts.store.list({
        tenant: call.identity.tenant,
        limit: readPageLimit(call.query),
        ...(search !== undefined && { search }),
        ...(after !== undefined && { after }),
      });
      return { body: { items: items.map(({ record }) => presentUser(record)), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createUser(call) {
      const key = readIdempotencyKey(call);
      const { username, password, displayName = username, roles = [] } = readUserBody(call, "create");
      const named = { username, displayName, roles: userRoles.filter((role) => roles.includes(role)) };
      const { user, repeated, head } = await users.createUser(call, named, password, key);
      const headers = { location: `/api/v1/users/${user.id}`, ...replayedHeader(repeated) };
      return { body: { ...presentUser(user), asOf: head }, headers };
    },

    async getUser(call) {
      const id = userIdOf(call);
      const { record: user, head } = await accounts.store.find(call.identity.tenant, id);
      if (user === null) throw userNotFound(id);
      return { body: { ...presentUser(user), asOf: head } };
    },

    async setUserPassword(call) {
      const key = readIdempotencyKey(call);
      const { password } = readUserBody(call, "password");
      const { repeated } = await users.resetPassword(call, userIdOf(call), password, key);
      return { ...noContent, headers: replayedHeader(repeated) };
    },

    async addUserRole(call) {
      const key = readIdempotencyKey(call);
      const { role } = readUserBody(call, "role");
      const { repeated } = await users.addRole(call, userIdOf(call), role, key);
      return { ...noContent, headers: replayedHeader(repeated) };
    },

    async removeUserRole(call) {
      await users.removeRole(call, userIdOf(call), readRole(call.params["role"]));
      return noContent;
    },

    async setUserStatus(call) {
      await users.setActive(call, userIdOf(call), readUserBody(call, "status").isActive);
      return noContent;
    },
  };
}

/** The routes about the caller. */
function ownUserHandlers(users: UserChanges): Record<OwnUserRoutes, RouteHandler> {
  return {
    async getOwnUser({ identity }) {
      const { tenant, user: id, grants, person } = identity;
      const { record: user, head } = await users.accounts.store.find(tenant, id);
      if (person !== undefined && user === null) throw userNotFound(id);
      const token = { userId: id, username: id, displayName: id, roles: rolesForGrants(grants), isActive: true };
      return { body: { ...(person === undefined || user === null ? token : presentUser(user)), asOf: head } };
    },

    async changeOwnUser(call) {
      const { displayName } = readUserBody(call, "change");
      const { user, head } = await users.changeOwnName(call, displayName);
      return { body: { ...presentUser(user), asOf: head } };
    },

    async setOwnPassword(call) {
      const passwords = readUserBody(call, "ownPassword");
      await users.changeOwnPassword(call, { ...passwords, address: call.address ?? "" });
      return noContent;
    },
  };
}

const presentUser = ({ id, username, displayName, roles, isActive }: User): UserSummary => ({
  userId: id,
  username,
  displayName,
  roles: [...roles],
  isActive,
});

type UserRequestType = Parameters<typeof readUserRequest>[0];
type UserRequestOf<K extends UserRequestType> = Exclude<ReturnType<typeof readUserRequest<K>>, Fault>;

const readUserBody = <K extends UserRequestType>(call: RestCall, of: K): UserRequestOf<K> =>
  readRequest(call, (body) => readUserRequest(of, body)) as UserRequestOf<K>;

const userIdOf = (call: RestCall): string => call.params["userId"] ?? "";

function readRole(text: string | undefined): UserRole {
  const role = userRoles.find((one) => one === text);
  if (role !== undefined) return role;
  throw fault("E.REQUEST.INVALID", `the role must be one of ${userRoles.join(", ")}`, { path: "params.role" });
}
