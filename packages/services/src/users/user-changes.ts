// Changes of users by admins and by themselves: created, renamed, locked, roles and passwords.

import type { IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { type Fault, fault, type UserRole, userRoles } from "@astraflow/protocol";
import { isConflict } from "../documents/documents.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { newUserRecord, type UserAccounts } from "./user-accounts.ts";
import type { User, UserChange, UserChangeResult } from "./user-store.ts";

export interface UserServices {
  readonly accounts: UserAccounts;
  readonly environment: ServiceEnvironment;
  readonly digest: (text: string) => string;
}

async function updateUser(
  { accounts }: UserServices,
  caller: Caller,
  id: string,
  change: UserChange,
  apply: (user: User) => User,
): Promise<UserChangeResult> {
  const changed = await accounts.store.update(actorOf(caller), id, change, apply);
  if (changed === null) throw userNotFound(id);
  accounts.invalidateUser(caller.identity.tenant, id);
  return changed;
}

/**
 * The digest of a request with a password. It must not be a fast digest: whoever reads the store could guess the password from it. So it is
 * as slow as the hash of the password, with a salt that no other key shares.
 */
async function passwordIdempotencyKey(
  { accounts, digest }: UserServices,
  caller: Caller,
  key: string | null,
  request: object,
  password: string,
): Promise<IdempotencyKey | null> {
  if (key === null) return null;
  const salt = digest(canonicalJson(["salt", caller.identity.tenant, key]));
  const mark = await accounts.passwords.fingerprint(password, salt);
  return { key, digest: digest(canonicalJson({ ...request, mark })) };
}

export interface NewUser {
  readonly username: string;
  readonly displayName: string;
  readonly roles: readonly UserRole[];
}

export async function createUser(
  users: UserServices,
  caller: Caller,
  named: NewUser,
  password: string,
  key: string | null,
): Promise<{ readonly user: User; readonly repeated: boolean; readonly head: number }> {
  const { store, passwords } = users.accounts;
  const { tenant } = caller.identity;
  const { username } = named;
  const idempotencyKey = await passwordIdempotencyKey(users, caller, key, { of: "createUser", ...named }, password);
  const user = newUserRecord(named, await passwords.hash(password), users.environment);
  const { repeated } = await store.create(actorOf(caller), user, idempotencyKey).catch((why: unknown) => {
    throw isConflict(why) ? fault("E.CONFLICT", `there is a user ${username} already; choose another name`) : why;
  });
  const created = repeated ? await store.findByName(tenant, username) : user;
  if (created === null) throw userNotFound(username);
  return { user: created, repeated, head: (await store.find(tenant, created.id)).head };
}

/** An admin sets the password of a user. */
export async function resetPassword(
  users: UserServices,
  caller: Caller,
  id: string,
  password: string,
  key: string | null,
): Promise<UserChangeResult> {
  const request = { of: "setUserPassword", by: caller.identity.user, id };
  const ask = await passwordIdempotencyKey(users, caller, key, request, password);
  const hash = await users.accounts.passwords.hash(password);
  return updateUser(users, caller, id, { action: "user.password.reset", ask }, (user) => withPassword(user, hash));
}

export function addRole(
  users: UserServices,
  caller: Caller,
  id: string,
  role: UserRole,
  key: string | null,
): Promise<UserChangeResult> {
  const request = canonicalJson({ of: "addUserRole", by: caller.identity.user, id, role });
  const ask = key === null ? null : { key, digest: users.digest(request) };
  const change = { action: "user.role.add", data: { role }, ask };
  return updateUser(users, caller, id, change, (user) => withRole(user, role, true));
}

export async function removeRole(users: UserServices, caller: Caller, id: string, role: UserRole): Promise<void> {
  if (id === caller.identity.user && role === "admin")
    throw fault("E.AUTH.FORBIDDEN", "you cannot remove your own admin role; ask another admin");
  const change = { action: "user.role.remove", data: { role } };
  await updateUser(users, caller, id, change, (user) => withRole(user, role, false));
}

export async function setActive(users: UserServices, caller: Caller, id: string, isActive: boolean): Promise<void> {
  if (id === caller.identity.user && !isActive)
    throw fault("E.AUTH.FORBIDDEN", "you cannot lock yourself out; ask another admin");
  const action = isActive ? "user.activate" : "user.deactivate";
  await updateUser(users, caller, id, { action }, (user) => (user.isActive === isActive ? user : { ...user, isActive }));
}

/** Renames the caller. */
export async function changeOwnName(
  users: UserServices,
  caller: Caller,
  displayName: string,
): Promise<{ readonly user: User; readonly head: number }> {
  requireSignedInUser(caller, "has no display name");
  const { tenant, user: id } = caller.identity;
  const { user } = await updateUser(users, caller, id, { action: "user.update" }, (was) =>
    was.displayName === displayName ? was : { ...was, displayName },
  );
  return { user, head: (await users.accounts.store.find(tenant, id)).head };
}

/** Changes the password of the caller, who must know the current one. */
export async function changeOwnPassword(
  users: UserServices,
  caller: Caller,
  {
    currentPassword,
    password,
    address,
  }: { readonly currentPassword: string; readonly password: string; readonly address: string },
): Promise<void> {
  requireSignedInUser(caller, "has no password");
  await users.accounts.confirmPassword(caller.identity, currentPassword, address);
  const hash = await users.accounts.passwords.hash(password);
  const { user: id } = caller.identity;
  await updateUser(users, caller, id, { action: "user.password.change" }, (user) => withPassword(user, hash));
}

export async function logoutUser(users: UserServices, caller: Caller): Promise<void> {
  requireSignedInUser(caller, "cannot log out; remove it from the configuration instead");
  await users.accounts.logout(caller.identity, caller.requestId);
}

function requireSignedInUser({ identity }: Caller, why: string): void {
  if (identity.person === undefined)
    throw fault("E.AUTH.FORBIDDEN", `token ${identity.user} comes from the configuration; it ${why}`);
}

/** The same message for every id that is not the caller's: it must not show whether it is someone else's. */
export const userNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no user ${id.slice(0, 100)}`);

/** Revokes all tokens of the user as well. */
const withPassword = (user: User, password: string): User => ({ ...user, password, gen: user.gen + 1, revoked: [] });

function withRole(user: User, role: UserRole, isGiven: boolean): User {
  if (user.roles.includes(role) === isGiven) return user;
  return { ...user, roles: userRoles.filter((one) => (one === role ? isGiven : user.roles.includes(one))) };
}
