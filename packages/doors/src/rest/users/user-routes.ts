// The routes about people: signing in and out, users and their roles. The audit is in audit.ts; who may come in is decided in ../people.ts.

import type { IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readUserRequest, type UserRole, type UserSummary, userRoles } from "@astraflow/protocol";
import {
  actorOf,
  type CallerIdentity,
  decodeDocumentCursor,
  encodeCursor,
  isConflict,
  newUserRecord,
  rolesForGrants,
  type User,
  type UserAccounts,
  type UserChange,
  type UserChangeResult,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readJsonBody,
  readPageLimit,
} from "../requests/rest-call.ts";
import { type AuditRoutesOptions, auditHandlers } from "./audit-routes.ts";

export interface UserRoutesOptions extends AuditRoutesOptions {
  readonly people: UserAccounts;
  readonly environment: DoorEnvironment;
  readonly digest: (text: string) => string;
}

type UserRoutes =
  | "login"
  | "logout"
  | "listUsers"
  | "createUser"
  | "getOwnUser"
  | "changeOwnUser"
  | "setOwnPassword"
  | "getUser"
  | "setUserPassword"
  | "addUserRole"
  | "removeUserRole"
  | "setUserStatus";

const noContent: RestReply = { body: "", status: 204 };
const noContentReply = ({ repeated }: UserChangeResult): RestReply =>
  repeated ? { ...noContent, headers: { "idempotent-replayed": "true" } } : noContent;
const defaultTenant = "default";

export function userHandlers(options: UserRoutesOptions): Record<UserRoutes | "listAuditEvents" | "listAudit", RouteHandler> {
  const { people } = options;
  const { store, passwords } = people;

  /** What `change` makes of one user, written with who did it. */
  const updateUser: UpdateUser = async (call, id, words, change) => {
    const changed = await store.update(actorOf(call), id, words, change);
    if (changed === null) throw userNotFound(id);
    people.invalidateUser(call.identity.tenant, id);
    return changed;
  };
  /**
   * By which a request with a password is known again. A quick digest of one must not be kept: whoever has the store could guess it from that.
   * So it is as slow as the password's own hash, under a salt that no other key shares.
   */
  const passwordIdempotencyKey = async (
    call: RestCall,
    key: string | null,
    words: object,
    password: string,
  ): Promise<IdempotencyKey | null> => {
    if (key === null) return null;
    const passwordFingerprint = await passwords.fingerprint(
      password,
      options.digest(canonicalJson(["salt", call.identity.tenant, key])),
    );
    return { key, digest: options.digest(canonicalJson({ ...words, mark: passwordFingerprint })) };
  };
  const readLogHead = async (tenant: string, id: string): Promise<number> => (await store.find(tenant, id)).head;

  return {
    ...auditHandlers(options),
    ...ownUserHandlers(options, updateUser),

    async login(call) {
      const { username, password, tenant = defaultTenant } = readUserBody(call, "login");
      const attempt = { tenant, username, password, address: call.address ?? "", corr: call.requestId };
      const { token, expiresIn, user } = await people.login(attempt);
      return { body: { accessToken: token, tokenType: "Bearer", expiresIn, user: presentUser(user) } };
    },

    async logout(call) {
      readIdempotencyKey(call);
      requireSignedInUser(call.identity, "cannot sign out; take it out of the configuration instead");
      await people.logout(call.identity, call.requestId);
      return noContent;
    },

    async listUsers(call) {
      const { search, cursor } = call.query;
      const after = decodeDocumentCursor(cursor);
      const { users, next, head } = await store.list({
        tenant: call.identity.tenant,
        limit: readPageLimit(call.query),
        ...(search !== undefined && { search }),
        ...(after !== undefined && { after }),
      });
      return { body: { items: users.map(presentUser), nextCursor: encodeCursor(next), asOf: head } };
    },

    async createUser(call) {
      const key = readIdempotencyKey(call);
      const { username, password, displayName = username, roles = [] } = readUserBody(call, "create");
      const { tenant } = call.identity;
      const named = { username, displayName, roles: userRoles.filter((role) => roles.includes(role)) };
      const idempotencyKey = await passwordIdempotencyKey(call, key, { of: "createUser", ...named }, password);
      const user = newUserRecord(named, await passwords.hash(password), options.environment);
      const { repeated } = await store.create(actorOf(call), user, idempotencyKey).catch((why: unknown) => {
        throw isConflict(why) ? fault("E.CONFLICT", `there is a user ${username} already; choose another name`) : why;
      });
      const createdUser = repeated ? await store.findByName(tenant, username) : user;
      if (createdUser === null) throw userNotFound(username);
      const headers = { location: `/api/v1/users/${createdUser.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...presentUser(createdUser), asOf: await readLogHead(tenant, createdUser.id) }, headers };
    },

    async getUser(call) {
      const id = userIdOf(call);
      const { user, head } = await store.find(call.identity.tenant, id);
      if (user === null) throw userNotFound(id);
      return { body: { ...presentUser(user), asOf: head } };
    },

    async setUserPassword(call) {
      const key = readIdempotencyKey(call);
      const { password } = readUserBody(call, "password");
      const id = userIdOf(call);
      const idempotencyKey = await passwordIdempotencyKey(
        call,
        key,
        { of: "setUserPassword", by: call.identity.user, id },
        password,
      );
      const passwordHash = await passwords.hash(password);
      return noContentReply(
        await updateUser(call, id, { action: "user.password.reset", ask: idempotencyKey }, (user) =>
          withPassword(user, passwordHash),
        ),
      );
    },

    async addUserRole(call) {
      const key = readIdempotencyKey(call);
      const { role } = readUserBody(call, "role");
      const id = userIdOf(call);
      const asked = canonicalJson({ of: "addUserRole", by: call.identity.user, id, role });
      const idempotencyKey = key === null ? null : { key, digest: options.digest(asked) };
      const words = { action: "user.role.add", data: { role }, ask: idempotencyKey };
      return noContentReply(await updateUser(call, id, words, (user) => withRole(user, role, true)));
    },

    async removeUserRole(call) {
      const role = readRole(call.params["role"]);
      const id = userIdOf(call);
      if (id === call.identity.user && role === "admin")
        throw fault("E.AUTH.FORBIDDEN", "you cannot take the role admin from yourself; ask another admin");
      await updateUser(call, id, { action: "user.role.remove", data: { role } }, (user) => withRole(user, role, false));
      return noContent;
    },

    async setUserStatus(call) {
      const { isActive } = readUserBody(call, "status");
      const id = userIdOf(call);
      if (id === call.identity.user && !isActive)
        throw fault("E.AUTH.FORBIDDEN", "you cannot lock yourself out; ask another admin");
      const action = isActive ? "user.activate" : "user.deactivate";
      await updateUser(call, id, { action }, (user) => (user.isActive === isActive ? user : { ...user, isActive }));
      return noContent;
    },
  };
}

type UpdateUser = (call: RestCall, id: string, words: UserChange, change: (user: User) => User) => Promise<UserChangeResult>;

/** The routes about oneself. */
function ownUserHandlers(
  { people }: UserRoutesOptions,
  updateUser: UpdateUser,
): Record<"getOwnUser" | "changeOwnUser" | "setOwnPassword", RouteHandler> {
  const { store, passwords } = people;
  return {
    async getOwnUser({ identity }) {
      const { tenant, user: id, grants, person } = identity;
      const { user, head } = await store.find(tenant, id);
      if (person !== undefined && user === null) throw userNotFound(id);
      const token = { userId: id, username: id, displayName: id, roles: rolesForGrants(grants), isActive: true };
      return { body: { ...(person === undefined || user === null ? token : presentUser(user)), asOf: head } };
    },

    async changeOwnUser(call) {
      const { displayName } = readUserBody(call, "change");
      requireSignedInUser(call.identity, "has no name of its own to change");
      const { tenant, user: id } = call.identity;
      const { user } = await updateUser(call, id, { action: "user.update" }, (was) =>
        was.displayName === displayName ? was : { ...was, displayName },
      );
      return { body: { ...presentUser(user), asOf: (await store.find(tenant, id)).head } };
    },

    async setOwnPassword(call) {
      const { currentPassword, password } = readUserBody(call, "ownPassword");
      requireSignedInUser(call.identity, "has no password to change");
      await people.confirmPassword(call.identity, currentPassword, call.address ?? "");
      const passwordHash = await passwords.hash(password);
      await updateUser(call, call.identity.user, { action: "user.password.change" }, (user) => withPassword(user, passwordHash));
      return noContent;
    },
  };
}

/** Whoever knew the old password, or stole a token, is out. */
const withPassword = (user: User, password: string): User => ({ ...user, password, gen: user.gen + 1, revoked: [] });

function withRole(user: User, role: UserRole, isGiven: boolean): User {
  if (user.roles.includes(role) === isGiven) return user;
  return { ...user, roles: userRoles.filter((one) => (one === role ? isGiven : user.roles.includes(one))) };
}

const presentUser = ({ id, username, displayName, roles, isActive }: User): UserSummary => ({
  userId: id,
  username,
  displayName,
  roles: [...roles],
  isActive,
});

type UserRequestType = Parameters<typeof readUserRequest>[0];

function readUserBody<K extends UserRequestType>(call: RestCall, of: K): Exclude<ReturnType<typeof readUserRequest<K>>, Fault> {
  const body = readUserRequest(of, readJsonBody(call));
  if (body instanceof Fault) throw body;
  return body as Exclude<ReturnType<typeof readUserRequest<K>>, Fault>;
}

const userIdOf = (call: RestCall): string => call.params["userId"] ?? "";

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
const userNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no user ${id.slice(0, 100)}`);

function requireSignedInUser(identity: CallerIdentity, why: string): void {
  if (identity.person === undefined)
    throw fault("E.AUTH.FORBIDDEN", `the token ${identity.user} is one of the configuration and ${why}`);
}

function readRole(text: string | undefined): UserRole {
  const role = userRoles.find((one) => one === text);
  if (role !== undefined) return role;
  throw fault("E.REQUEST.INVALID", `the role must be one of ${userRoles.join(", ")}`, { path: "params.role" });
}
