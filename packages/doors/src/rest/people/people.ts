// The routes about people: signing in and out, users and their roles. The audit is in audit.ts; who may come in is decided in ../people.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readUserRequest, type UserRole, type UserSummary, userRoles } from "@astraflow/protocol";
import { type CallerIdentity, rolesForGrants } from "../../identity.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { newUser, type People } from "../../people/people.ts";
import { type Changed, type ChangeWords, type Doer, isConflict, type User, type UserAsk } from "../../people/people-store.ts";
import { type Call, type Handler, type Reply, readBody, readIdempotencyKey, readLimit } from "../call.ts";
import { type AuditOptions, auditHandlers } from "./audit.ts";
import { readDocsCursor, spellCursor } from "./user-cursor.ts";

export interface PeopleRoutesOptions extends AuditOptions {
  readonly people: People;
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

const done: Reply = { body: "", status: 204 };
const replied = ({ repeated }: Changed): Reply => (repeated ? { ...done, headers: { "idempotent-replayed": "true" } } : done);
const tenantDefault = "default";

export function peopleHandlers(options: PeopleRoutesOptions): Record<UserRoutes | "listAuditEvents" | "listAudit", Handler> {
  const { people } = options;
  const { store, passwords } = people;

  /** What `change` makes of one user, written with who did it. */
  const alter: Alter = async (call, id, words, change) => {
    const changed = await store.change(doerOf(call), id, words, change);
    if (changed === null) throw missingUser(id);
    people.forget(call.identity.tenant, id);
    return changed;
  };
  /**
   * By which a request with a password is known again. A quick digest of one must not be kept: whoever has the store could guess it from that.
   * So it is as slow as the password's own hash, under a salt that no other key shares.
   */
  const askWith = async (call: Call, key: string | null, words: object, password: string): Promise<UserAsk> => {
    if (key === null) return null;
    const mark = await passwords.mark(password, options.digest(canonicalJson(["salt", call.identity.tenant, key])));
    return { key, digest: options.digest(canonicalJson({ ...words, mark })) };
  };
  const headOf = async (tenant: string, id: string): Promise<number> => (await store.find(tenant, id)).head;

  return {
    ...auditHandlers(options),
    ...ownHandlers(options, alter),

    async login(call) {
      const { username, password, tenant = tenantDefault } = read(call, "login");
      const attempt = { tenant, username, password, address: call.address ?? "", corr: call.requestId };
      const { token, expiresIn, user } = await people.login(attempt);
      return { body: { accessToken: token, tokenType: "Bearer", expiresIn, user: viewUser(user) } };
    },

    async logout(call) {
      readIdempotencyKey(call);
      personOf(call.identity, "cannot sign out; take it out of the configuration instead");
      await people.logout(call.identity, call.requestId);
      return done;
    },

    async listUsers(call) {
      const { search, cursor } = call.query;
      const after = readDocsCursor(cursor);
      const { users, next, head } = await store.list({
        tenant: call.identity.tenant,
        limit: readLimit(call.query),
        ...(search !== undefined && { search }),
        ...(after !== undefined && { after }),
      });
      return { body: { items: users.map(viewUser), nextCursor: spellCursor(next), asOf: head } };
    },

    async createUser(call) {
      const key = readIdempotencyKey(call);
      const { username, password, displayName = username, roles = [] } = read(call, "create");
      const { tenant } = call.identity;
      const named = { username, displayName, roles: userRoles.filter((role) => roles.includes(role)) };
      const ask = await askWith(call, key, { of: "createUser", ...named }, password);
      const user = newUser(named, await passwords.hash(password), options.environment);
      const { repeated } = await store.create(doerOf(call), user, ask).catch((why: unknown) => {
        throw isConflict(why) ? fault("E.CONFLICT", `there is a user ${username} already; choose another name`) : why;
      });
      const there = repeated ? await store.findByName(tenant, username) : user;
      if (there === null) throw missingUser(username);
      const headers = { location: `/api/v1/users/${there.id}`, ...(repeated && { "idempotent-replayed": "true" }) };
      return { body: { ...viewUser(there), asOf: await headOf(tenant, there.id) }, headers };
    },

    async getUser(call) {
      const id = userIn(call);
      const { user, head } = await store.find(call.identity.tenant, id);
      if (user === null) throw missingUser(id);
      return { body: { ...viewUser(user), asOf: head } };
    },

    async setUserPassword(call) {
      const key = readIdempotencyKey(call);
      const { password } = read(call, "password");
      const id = userIn(call);
      const ask = await askWith(call, key, { of: "setUserPassword", by: call.identity.user, id }, password);
      const kept = await passwords.hash(password);
      return replied(await alter(call, id, { action: "user.password.reset", ask }, (user) => withPassword(user, kept)));
    },

    async addUserRole(call) {
      const key = readIdempotencyKey(call);
      const { role } = read(call, "role");
      const id = userIn(call);
      const asked = canonicalJson({ of: "addUserRole", by: call.identity.user, id, role });
      const ask = key === null ? null : { key, digest: options.digest(asked) };
      const words = { action: "user.role.add", data: { role }, ask };
      return replied(await alter(call, id, words, (user) => withRole(user, role, true)));
    },

    async removeUserRole(call) {
      const role = readRole(call.params["role"]);
      const id = userIn(call);
      if (id === call.identity.user && role === "admin")
        throw fault("E.AUTH.FORBIDDEN", "you cannot take the role admin from yourself; ask another admin");
      await alter(call, id, { action: "user.role.remove", data: { role } }, (user) => withRole(user, role, false));
      return done;
    },

    async setUserStatus(call) {
      const { isActive } = read(call, "status");
      const id = userIn(call);
      if (id === call.identity.user && !isActive)
        throw fault("E.AUTH.FORBIDDEN", "you cannot lock yourself out; ask another admin");
      const action = isActive ? "user.activate" : "user.deactivate";
      await alter(call, id, { action }, (user) => (user.isActive === isActive ? user : { ...user, isActive }));
      return done;
    },
  };
}

type Alter = (call: Call, id: string, words: ChangeWords, change: (user: User) => User) => Promise<Changed>;

/** The routes about oneself. */
function ownHandlers(
  { people }: PeopleRoutesOptions,
  alter: Alter,
): Record<"getOwnUser" | "changeOwnUser" | "setOwnPassword", Handler> {
  const { store, passwords } = people;
  return {
    async getOwnUser({ identity }) {
      const { tenant, user: id, grants, person } = identity;
      const { user, head } = await store.find(tenant, id);
      if (person !== undefined && user === null) throw missingUser(id);
      const token = { userId: id, username: id, displayName: id, roles: rolesForGrants(grants), isActive: true };
      return { body: { ...(person === undefined || user === null ? token : viewUser(user)), asOf: head } };
    },

    async changeOwnUser(call) {
      const { displayName } = read(call, "change");
      personOf(call.identity, "has no name of its own to change");
      const { tenant, user: id } = call.identity;
      const { user } = await alter(call, id, { action: "user.update" }, (was) =>
        was.displayName === displayName ? was : { ...was, displayName },
      );
      return { body: { ...viewUser(user), asOf: (await store.find(tenant, id)).head } };
    },

    async setOwnPassword(call) {
      const { currentPassword, password } = read(call, "ownPassword");
      personOf(call.identity, "has no password to change");
      await people.confirm(call.identity, currentPassword, call.address ?? "");
      const kept = await passwords.hash(password);
      await alter(call, call.identity.user, { action: "user.password.change" }, (user) => withPassword(user, kept));
      return done;
    },
  };
}

/** Whoever knew the old password, or stole a token, is out. */
const withPassword = (user: User, password: string): User => ({ ...user, password, gen: user.gen + 1, revoked: [] });

function withRole(user: User, role: UserRole, isGiven: boolean): User {
  if (user.roles.includes(role) === isGiven) return user;
  return { ...user, roles: userRoles.filter((one) => (one === role ? isGiven : user.roles.includes(one))) };
}

const viewUser = ({ id, username, displayName, roles, isActive }: User): UserSummary => ({
  userId: id,
  username,
  displayName,
  roles: [...roles],
  isActive,
});

type PeopleBody = Parameters<typeof readUserRequest>[0];

function read<K extends PeopleBody>(call: Call, of: K): Exclude<ReturnType<typeof readUserRequest<K>>, Fault> {
  const body = readUserRequest(of, readBody(call));
  if (body instanceof Fault) throw body;
  return body as Exclude<ReturnType<typeof readUserRequest<K>>, Fault>;
}

const userIn = (call: Call): string => call.params["userId"] ?? "";
const doerOf = ({ identity, requestId }: Call): Doer => ({ tenant: identity.tenant, by: identity.user, corr: requestId });

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
const missingUser = (id: string): Fault => fault("E.NOT_FOUND", `there is no user ${id.slice(0, 100)}`);

function personOf(identity: CallerIdentity, why: string): void {
  if (identity.person === undefined)
    throw fault("E.AUTH.FORBIDDEN", `the token ${identity.user} is one of the configuration and ${why}`);
}

function readRole(text: string | undefined): UserRole {
  const role = userRoles.find((one) => one === text);
  if (role !== undefined) return role;
  throw fault("E.REQUEST.INVALID", `the role must be one of ${userRoles.join(", ")}`, { path: "params.role" });
}
