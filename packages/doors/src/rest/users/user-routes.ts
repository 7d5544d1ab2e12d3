// The routes about users: logging in and out, users, their roles and passwords, and the audit of what they did.

import type { StoreReader } from "@astraflow/engine";
import { bodyReaderOf, omitUndefined, type UserRole, type UserSummary, userRoles } from "@astraflow/protocol";
import {
  decodeDocumentCursor,
  listAuditEvents,
  notFound,
  rolesForGrants,
  type User,
  type UserChanges,
} from "@astraflow/services";
import {
  invalidRequest,
  noContent,
  pageReply,
  type RouteHandler,
  type RouteHandlers,
  replayedHeader,
} from "../requests/rest-call.ts";

const defaultTenant = "default";

export function userHandlers(users: UserChanges) {
  const { accounts } = users;
  return {
    async login(call) {
      const { username, password, tenant = defaultTenant } = call.readBody(bodyReaderOf("login"));
      const attempt = { tenant, username, password, address: call.address, corr: call.requestId };
      const { token, expiresIn, user } = await accounts.login(attempt);
      return { body: { accessToken: token, tokenType: "Bearer", expiresIn, user: presentUser(user) } };
    },

    async logout(call) {
      call.readIdempotencyKey();
      await users.logout(call);
      return noContent;
    },

    async listUsers(call) {
      const { search, cursor } = call.query;
      const after = decodeDocumentCursor(cursor);
      const page = await accounts.store.list({
        tenant: call.tenant,
        limit: call.readPageLimit(),
        ...omitUndefined({ search, after }),
      });
      return pageReply(page, ({ record }) => presentUser(record));
    },

    async createUser(call) {
      const key = call.readIdempotencyKey();
      const { username, password, displayName = username, roles = [] } = call.readBody(bodyReaderOf("createUser"));
      const named = { username, displayName, roles: userRoles.filter((role) => roles.includes(role)) };
      const { user, repeated, head } = await users.createUser(call, named, password, key);
      const headers = { location: `/api/v1/users/${user.id}`, ...replayedHeader(repeated) };
      return { body: { ...presentUser(user), asOf: head }, headers };
    },

    async getUser(call) {
      const id = call.param("userId");
      const { record: user, head } = await accounts.store.find(call.tenant, id);
      if (user === null) throw notFound("user", id);
      return { body: { ...presentUser(user), asOf: head } };
    },

    async setUserPassword(call) {
      const key = call.readIdempotencyKey();
      const { password } = call.readBody(bodyReaderOf("setUserPassword"));
      const { repeated } = await users.resetPassword(call, call.param("userId"), password, key);
      return { ...noContent, headers: replayedHeader(repeated) };
    },

    async addUserRole(call) {
      const key = call.readIdempotencyKey();
      const { role } = call.readBody(bodyReaderOf("addUserRole"));
      const { repeated } = await users.addRole(call, call.param("userId"), role, key);
      return { ...noContent, headers: replayedHeader(repeated) };
    },

    async removeUserRole(call) {
      await users.removeRole(call, call.param("userId"), readRole(call.param("role")));
      return noContent;
    },

    async setUserStatus(call) {
      await users.setActive(call, call.param("userId"), call.readBody(bodyReaderOf("setUserStatus")).isActive);
      return noContent;
    },

    // ---- the caller

    async getOwnUser({ identity }) {
      const { tenant, user: id, grants, person } = identity;
      const { record: user, head } = await accounts.store.find(tenant, id);
      if (person !== undefined && user === null) throw notFound("user", id);
      const token = { userId: id, username: id, displayName: id, roles: rolesForGrants(grants), isActive: true };
      return { body: { ...(person === undefined || user === null ? token : presentUser(user)), asOf: head } };
    },

    async changeOwnUser(call) {
      const { displayName } = call.readBody(bodyReaderOf("changeOwnUser"));
      const { user, head } = await users.changeOwnName(call, displayName);
      return { body: { ...presentUser(user), asOf: head } };
    },

    async setOwnPassword(call) {
      const passwords = call.readBody(bodyReaderOf("setOwnPassword"));
      await users.changeOwnPassword(call, { ...passwords, address: call.address });
      return noContent;
    },
  } satisfies RouteHandlers;
}

export function auditHandlers({ reader }: { readonly reader: StoreReader }) {
  const list: RouteHandler = async (call) => {
    const { since: _since, limit: _limit, ...filter } = call.query;
    const query = { ...filter, limit: call.readPageLimit(), since: call.time("since") };
    return { body: await listAuditEvents(reader, call.tenant, query) };
  };
  return { listAuditEvents: list, listAudit: list } satisfies RouteHandlers;
}

const presentUser = ({ id, username, displayName, roles, isActive }: User): UserSummary => ({
  userId: id,
  username,
  displayName,
  roles: [...roles],
  isActive,
});

function readRole(text: string): UserRole {
  const role = userRoles.find((one) => one === text);
  if (role !== undefined) return role;
  throw invalidRequest("params.role", `the role must be one of ${userRoles.join(", ")}`);
}
