// Changes of users by admins and by themselves: created, renamed, locked, roles and passwords.

import { canonicalJson } from "@astraflow/graph";
import { fault, type UserRole, userRoles } from "@astraflow/protocol";
import { idempotencyKeyFor, isConflict, notFound } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { type NewUser, newUserRecord, type UserAccounts } from "./user-accounts.ts";
import type { User, UserChange, UserChangeResult } from "./user-store.ts";

export class UserChanges {
  readonly accounts: UserAccounts;
  readonly #context: ServiceContext;

  constructor(context: ServiceContext, accounts: UserAccounts) {
    this.accounts = accounts;
    this.#context = context;
  }

  async createUser(caller: Caller, named: NewUser, password: string, key: string | null) {
    const { store, passwords } = this.accounts;
    const { tenant } = caller.identity;
    const { username } = named;
    const ask = await this.#passwordIdempotencyKey(caller, key, { of: "createUser", ...named }, password);
    const user = newUserRecord(named, await passwords.hash(password), this.#context.environment);
    const { repeated } = await store.create(actorOf(caller), user, ask).catch((why: unknown) => {
      throw isConflict(why) ? fault("E.CONFLICT", `there is a user ${username} already; choose another name`) : why;
    });
    const created = repeated ? await store.findByName(tenant, username) : user;
    if (created === null) throw notFound("user", username);
    return { user: created, repeated, head: (await store.find(tenant, created.id)).head };
  }

  /** An admin sets the password of a user. */
  async resetPassword(caller: Caller, id: string, password: string, key: string | null): Promise<UserChangeResult> {
    const request = { of: "setUserPassword", by: caller.identity.user, id };
    const ask = await this.#passwordIdempotencyKey(caller, key, request, password);
    const hash = await this.accounts.passwords.hash(password);
    return this.#updateUser(caller, id, { action: "user.password.reset", ask }, (user) => withPassword(user, hash));
  }

  addRole(caller: Caller, id: string, role: UserRole, key: string | null): Promise<UserChangeResult> {
    const ask = idempotencyKeyFor(this.#context.digest, key, { of: "addUserRole", by: caller.identity.user, id, role });
    const change = { action: "user.role.add", data: { role }, ask };
    return this.#updateUser(caller, id, change, (user) => withRole(user, role, true));
  }

  async removeRole(caller: Caller, id: string, role: UserRole): Promise<void> {
    if (id === caller.identity.user && role === "admin")
      throw fault("E.AUTH.FORBIDDEN", "you cannot remove your own admin role; ask another admin");
    const change = { action: "user.role.remove", data: { role } };
    await this.#updateUser(caller, id, change, (user) => withRole(user, role, false));
  }

  async setActive(caller: Caller, id: string, isActive: boolean): Promise<void> {
    if (id === caller.identity.user && !isActive)
      throw fault("E.AUTH.FORBIDDEN", "you cannot lock yourself out; ask another admin");
    const action = isActive ? "user.activate" : "user.deactivate";
    await this.#updateUser(caller, id, { action }, (user) => (user.isActive === isActive ? user : { ...user, isActive }));
  }

  /** Renames the caller. */
  async changeOwnName(caller: Caller, displayName: string): Promise<{ readonly user: User; readonly head: number }> {
    requireSignedInUser(caller, "has no display name");
    const { tenant, user: id } = caller.identity;
    const { user } = await this.#updateUser(caller, id, { action: "user.update" }, (was) =>
      was.displayName === displayName ? was : { ...was, displayName },
    );
    return { user, head: (await this.accounts.store.find(tenant, id)).head };
  }

  /** Changes the password of the caller, who must know the current one. */
  async changeOwnPassword(
    caller: Caller,
    { currentPassword, password, address }: Readonly<Record<"currentPassword" | "password" | "address", string>>,
  ): Promise<void> {
    requireSignedInUser(caller, "has no password");
    await this.accounts.confirmPassword(caller.identity, currentPassword, address);
    const hash = await this.accounts.passwords.hash(password);
    const change = { action: "user.password.change" };
    await this.#updateUser(caller, caller.identity.user, change, (user) => withPassword(user, hash));
  }

  async logout(caller: Caller): Promise<void> {
    requireSignedInUser(caller, "cannot log out; remove it from the configuration instead");
    await this.accounts.logout(caller.identity, caller.requestId);
  }

  async #updateUser(caller: Caller, id: string, change: UserChange, apply: (user: User) => User): Promise<UserChangeResult> {
    const changed = await this.accounts.store.update(actorOf(caller), id, change, apply);
    if (changed === null) throw notFound("user", id);
    this.accounts.invalidateUser(caller.identity.tenant, id);
    return changed;
  }

  /** As slow as the hash of the password, with a salt of its own: from a fast digest a reader of the store could guess the password. */
  async #passwordIdempotencyKey(caller: Caller, key: string | null, request: object, password: string) {
    if (key === null) return null;
    const { digest } = this.#context;
    const salt = digest(canonicalJson(["salt", caller.identity.tenant, key]));
    const mark = await this.accounts.passwords.fingerprint(password, salt);
    return idempotencyKeyFor(digest, key, { ...request, mark });
  }
}

function requireSignedInUser({ identity }: Caller, why: string): void {
  if (identity.person === undefined)
    throw fault("E.AUTH.FORBIDDEN", `token ${identity.user} comes from the configuration; it ${why}`);
}

/** Revokes all tokens of the user as well. */
const withPassword = (user: User, password: string): User => ({ ...user, password, gen: user.gen + 1, revoked: [] });

function withRole(user: User, role: UserRole, isGiven: boolean): User {
  if (user.roles.includes(role) === isGiven) return user;
  return { ...user, roles: userRoles.filter((one) => (one === role ? isGiven : user.roles.includes(one))) };
}
