// People: who signs in, and whether a token they were given still opens anything. Users are documents; what is remembered of them here is
// at most a second old where somebody asks, so that a lock-out counts on every scheduler at once. Passwords and tokens as such: passwords.ts, user-tokens.ts.

import { createHash } from "node:crypto";
import type { StoreReader } from "@astraflow/engine";
import { type Fault, fault, type UserRole } from "@astraflow/protocol";
import { isConflict } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import { cacheLimits, createReadThroughCache } from "../environment/read-through-cache.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { Actor } from "../identity/caller.ts";
import { type CallerIdentity, grantsForRoles } from "../identity/identity.ts";
import { rotateKeys, type SigningKey } from "../identity/signing-keys.ts";
import { createLoginAttemptLimiter, type LoginAttemptKey, loginAttemptLimits } from "./login-attempt-limiter.ts";
import { createPasswordHasher, type PasswordCost, type PasswordHasher } from "./passwords.ts";
import { createUserStore, type User, type UserStore } from "./user-store.ts";
import { peekUserToken, signUserToken, verifyUserToken } from "./user-tokens.ts";

export interface UserAccounts {
  readonly store: UserStore;
  readonly passwords: PasswordHasher;
  /** From what is remembered; `warm` before it makes that true. */
  authenticate(token: string): CallerIdentity | null;
  /** Looks up what `authenticate` needs to know about this token, where it is not known or too old. */
  preload(token: string): Promise<void>;
  login(attempt: LoginAttempt): Promise<{ readonly token: string; readonly expiresIn: number; readonly user: User }>;
  /** Whether this is the password of a person that has signed in; counts against the brake like a login. */
  confirmPassword(identity: CallerIdentity, password: string, address: string): Promise<User>;
  logout(identity: CallerIdentity, corr: string): Promise<void>;
  /** Something about this user was changed here: it counts at once. */
  invalidateUser(tenant: string, id: string): void;
  /** The first user of a tenant that has none. False: it has users already. */
  found(tenant: string, password: string): Promise<boolean>;
}

export interface LoginAttempt {
  readonly tenant: string;
  readonly username: string;
  readonly password: string;
  readonly address: string;
  readonly corr: string;
}

export interface UserAccountsOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  readonly userTokenMs?: number;
  readonly passwordCost?: PasswordCost;
}

export const userLimits = {
  tokenLifetimeMs: 12 * 3_600_000,
  signingKeyAgeMs: 30 * 86_400_000,
  revokedTokensMax: 100,
} as const;

export function createUserAccounts(options: UserAccountsOptions): UserAccounts {
  const { environment, userTokenMs = userLimits.tokenLifetimeMs } = options;
  const { clock, ids } = environment;
  const store = createUserStore(options);
  const passwords = createPasswordHasher({ ids, ...(options.passwordCost !== undefined && { cost: options.passwordCost }) });
  const attemptLimiter = createLoginAttemptLimiter(() => clock.monotonic());
  const users = createReadThroughCache((key) => store.find(...splitUserKey(key)).then(({ user }) => user), clock);
  const keys = createReadThroughCache((tenant) => store.readSigningKeys(tenant).then(({ keys: kept }) => kept), clock);

  const readClaims = (token: string) => {
    const peeked = peekUserToken(token);
    const ring = peeked === null ? undefined : keys.get(peeked.tenant)?.value;
    return ring === undefined ? null : verifyUserToken(token, ring, clock.now());
  };
  const currentSigningKey = async (tenant: string): Promise<SigningKey> => {
    for (;;) {
      const { keys: kept, rev } = await store.readSigningKeys(tenant);
      const ring = rotateKeys(kept, clock.now(), {
        ageMs: userLimits.signingKeyAgeMs,
        lifeMs: userTokenMs,
        make: () => createSigningKey(ids),
      });
      const signing = ring.at(-1);
      if (signing === undefined) throw new Error("a ring of keys is empty");
      if (ring === kept || (await store.storeSigningKeys({ tenant, by: "scheduler", corr: ids.next() }, ring, rev)))
        return signing;
    }
  };
  /** Throws where there were too many wrong ones; the keys to release when this one was right. */
  const countLoginAttempt = (tenant: string, username: string, address: string): readonly LoginAttemptKey[] => {
    const countedKeys = [
      { name: `user ${tenant}/${username.toLowerCase().slice(0, 100)}`, triesMax: loginAttemptLimits.userAttemptsMax },
      { name: `address ${address}`, triesMax: loginAttemptLimits.addressAttemptsMax },
    ];
    const waitMs = attemptLimiter.countAttempt(countedKeys);
    if (waitMs > 0) throw tooManyAttempts(waitMs);
    return countedKeys;
  };

  return {
    store,
    passwords,
    authenticate(token) {
      const claims = readClaims(token);
      if (claims === null) return null;
      const key = `${claims.tenant}/${claims.sub}`;
      const known = users.get(key);
      // A stream that was opened long ago asks without warming: it hears of a change the next time it asks.
      if (known !== undefined && clock.monotonic() - known.at > cacheLimits.freshMs)
        users
          .load(key)
          .catch((problem: unknown) => environment.log({ level: "warn", event: "people.unread", problem: String(problem) }));
      const user = known === undefined || clock.monotonic() - known.at > cacheLimits.staleMsMax ? null : known.value;
      if (user === null || !user.isActive || user.gen !== claims.gen) return null;
      if (user.revoked.some(({ jti }) => jti === claims.jti)) return null;
      const { username, displayName, roles } = user;
      const person = { username, displayName, jti: claims.jti, expiresAt: claims.exp * 1_000 };
      return { tenant: claims.tenant, user: user.id, grants: grantsForRoles(roles), person };
    },
    async preload(token) {
      const peeked = peekUserToken(token);
      if (peeked === null) return;
      const isKnown = keys.get(peeked.tenant)?.value.some(({ kid }) => kid === peeked.kid) === true;
      if (!isKnown) await keys.refresh(peeked.tenant);
      const claims = readClaims(token);
      if (claims !== null) await users.refresh(`${claims.tenant}/${claims.sub}`);
    },
    async login({ tenant, username, password, address, corr }) {
      const countedKeys = countLoginAttempt(tenant, username, address);
      const user = tenant === "" || tenant.includes("/") ? null : await store.findByName(tenant, username);
      const isRight = await passwords.verify(password, user?.password ?? null);
      if (user === null || !isRight || !user.isActive) {
        recordLoginFailure({ store, environment }, { tenant, by: user?.id ?? "unknown", corr }, user, address);
        throw wrongCredentials();
      }
      attemptLimiter.uncountAttempt(countedKeys);
      const key = await currentSigningKey(tenant);
      const iat = Math.floor(clock.now() / 1_000);
      const expiresIn = Math.floor(userTokenMs / 1_000);
      const { id: sub, displayName, roles, gen } = user;
      const claims = {
        sub,
        tenant,
        username: user.username,
        displayName,
        roles,
        jti: ids.next(),
        gen,
        iat,
        exp: iat + expiresIn,
      };
      await store.recordAudit({ tenant, by: sub, corr }, { action: "auth.login.success", targetType: "user", target: sub });
      return { token: signUserToken(claims, key), expiresIn, user };
    },
    async confirmPassword({ tenant, user: id }, password, address) {
      const { user } = await store.find(tenant, id);
      if (user === null) throw wrongCredentials();
      const countedKeys = countLoginAttempt(tenant, user.username, address);
      if (!(await passwords.verify(password, user.password))) throw wrongCredentials();
      attemptLimiter.uncountAttempt(countedKeys);
      return user;
    },
    async logout({ tenant, user: id, person }, corr) {
      if (person === undefined) return;
      const { jti, expiresAt } = person;
      await store.update({ tenant, by: id, corr }, id, { action: "auth.logout" }, (user) =>
        revokeToken(user, jti, expiresAt, clock.now()),
      );
      users.invalidate(`${tenant}/${id}`);
    },
    invalidateUser: (tenant, id) => users.invalidate(`${tenant}/${id}`),
    async found(tenant, password) {
      const { users: some } = await store.list({ tenant, limit: 1 });
      if (some.length > 0) return false;
      const actor: Actor = { tenant, by: "scheduler", corr: ids.next() };
      const first = newUserRecord(
        { username: "admin", displayName: "Administrator", roles: ["admin"] },
        await passwords.hash(password),
        environment,
      );
      try {
        await store.create(actor, first, null);
        return true;
      } catch (why) {
        // Another scheduler of the same store started at the same moment.
        if (isConflict(why)) return false;
        throw why;
      }
    },
  };
}

export function newUserRecord(
  named: { readonly username: string; readonly displayName: string; readonly roles: readonly UserRole[] },
  password: string,
  { clock, ids }: Pick<ServiceEnvironment, "clock" | "ids">,
): User {
  return { id: ids.next(), ...named, isActive: true, password, gen: 1, revoked: [], createdAt: clock.now() };
}

/** A user that has signed out too often in the life of a token loses all of them instead: the list stays short. */
function revokeToken(user: User, jti: string, exp: number, now: number): User {
  const live = user.revoked.filter((one) => one.exp > now);
  if (live.some((one) => one.jti === jti)) return user;
  if (live.length >= userLimits.revokedTokensMax) return { ...user, gen: user.gen + 1, revoked: [] };
  return { ...user, revoked: [...live, { jti, exp }] };
}

/** One sentence for everything: whoever guesses learns nothing from it. */
const wrongCredentials = (): Fault => fault("E.AUTH.CREDENTIALS", "the name or the password is wrong, or the user is locked out");

const tooManyAttempts = (waitMs: number): Fault =>
  fault("E.AUTH.THROTTLED", `too many wrong passwords; try again in ${Math.ceil(waitMs / 1_000)} s`, {
    retryAfterMs: Math.ceil(waitMs),
  });

/**
 * What was typed as a name is not kept where no user has it: it may be a password in the wrong field. Nobody waits for the entry, or the
 * time an answer takes would tell which users there are.
 */
function recordLoginFailure(
  { store, environment }: { readonly store: UserStore; readonly environment: ServiceEnvironment },
  actor: Actor,
  user: User | null,
  address: string,
): void {
  environment.log({ level: "warn", event: "auth.login.failure", audit: true, ...actor, address });
  if (user === null) return;
  store
    .recordAudit(actor, { action: "auth.login.failure", targetType: "user", target: user.id, data: { address } })
    .catch((problem: unknown) =>
      environment.log({ level: "error", event: "auth.login.unnoted", ...actor, problem: String(problem) }),
    );
}

const createSigningKey = (ids: { next(): string }): Omit<SigningKey, "madeAt"> => ({
  kid: ids.next(),
  // Two names that nobody can guess are more than the 256 bits that come out.
  secret: createHash("sha256").update(`${ids.next()} ${ids.next()}`).digest(),
});

const splitUserKey = (key: string): [tenant: string, id: string] => {
  const slash = key.indexOf("/");
  return [key.slice(0, slash), key.slice(slash + 1)];
};
