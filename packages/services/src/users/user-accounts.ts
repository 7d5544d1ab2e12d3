// User accounts: who logs in, and whether a token is still valid. Users are cached for at most a second, so that a lock-out soon counts on every
// scheduler.

import { createHash } from "node:crypto";
import { type Fault, fault } from "@astraflow/protocol";
import { isConflict } from "../documents/documents.ts";
import { cacheLimits, ReadThroughCache } from "../environment/read-through-cache.ts";
import type { ServiceContext, ServiceEnvironment } from "../environment/service-environment.ts";
import { type Actor, type CallerIdentity, grantsForRoles } from "../identity/identity.ts";
import { rotateKeys, type SigningKey } from "../identity/signing-keys.ts";
import { type CountedLoginAttempt, type LoginAttemptOrigin, LoginThrottle } from "./login-throttle.ts";
import { type PasswordCost, PasswordHasher } from "./passwords.ts";
import { createSigningKeyId, isSigningKeyId } from "./signing-key-ids.ts";
import { type User, UserStore } from "./user-store.ts";
import { peekUserToken, signUserToken, type UserClaims, verifyUserToken } from "./user-tokens.ts";

type LoginAttempt = Readonly<Record<"tenant" | "username" | "password" | "address" | "corr", string>>;

export type UserAccountsOptions = Omit<ServiceContext, "digest"> & {
  readonly userTokenMs?: number;
  readonly passwordCost?: PasswordCost;
};

export const userLimits = {
  tokenLifetimeMs: 12 * 3_600_000,
  signingKeyAgeMs: 30 * 86_400_000,
  revokedTokensMax: 100,
} as const;

export class UserAccounts {
  readonly store: UserStore;
  readonly passwords: PasswordHasher;
  readonly #environment: ServiceEnvironment;
  readonly #tokenMs: number;
  readonly #loginThrottle: LoginThrottle;
  readonly #users: ReadThroughCache<User | null>;
  readonly #keys: ReadThroughCache<readonly SigningKey[]>;
  readonly #keyIdSecret: ReadThroughCache<Uint8Array | null>;

  constructor(options: UserAccountsOptions) {
    const { environment, userTokenMs = userLimits.tokenLifetimeMs, passwordCost } = options;
    const { clock } = environment;
    const store = new UserStore(options);
    this.store = store;
    this.passwords = new PasswordHasher(environment.ids, passwordCost);
    this.#environment = environment;
    this.#tokenMs = userTokenMs;
    this.#loginThrottle = new LoginThrottle(() => clock.monotonic());
    this.#users = new ReadThroughCache(async (key) => (await store.find(...splitUserKey(key))).record, clock);
    this.#keys = new ReadThroughCache(async (tenant) => (await store.readSigningKeys(tenant)).keys, clock);
    this.#keyIdSecret = new ReadThroughCache(() => store.readKeyIdSecret(), clock);
  }

  /** From what is cached; `preload` before it makes that true. */
  authenticate(token: string): CallerIdentity | null {
    const { clock } = this.#environment;
    const claims = this.#readClaims(token);
    if (claims === null) return null;
    const key = `${claims.tenant}/${claims.sub}`;
    const known = this.#users.get(key);
    // A stream that was opened long ago asks without preloading: it hears of a change the next time it asks.
    if (known !== undefined && clock.monotonic() - known.at > cacheLimits.freshMs)
      this.#users
        .load(key)
        .catch((problem: unknown) => this.#environment.log({ level: "warn", event: "people.unread", problem: String(problem) }));
    const user = known === undefined || clock.monotonic() - known.at > cacheLimits.staleMsMax ? null : known.value;
    if (user === null || !user.isActive || user.gen !== claims.gen) return null;
    if (user.revoked.some(({ jti }) => jti === claims.jti)) return null;
    const { username, displayName, roles } = user;
    const person = { username, displayName, jti: claims.jti, expiresAt: claims.exp * 1_000 };
    return { tenant: claims.tenant, user: user.id, grants: grantsForRoles(roles), person };
  }

  /**
   * Looks up what `authenticate` needs to know about this token, where it is not known or too old. A token that was not issued here costs no
   * read: the id of its key is checked before the key is read, and its signature before the user is.
   */
  async preload(token: string): Promise<void> {
    const peeked = peekUserToken(token);
    if (peeked === null) return;
    const secret = await this.#readKeyIdSecret();
    if (secret === null || !isSigningKeyId(peeked.tenant, peeked.kid, secret)) return;
    const isKnown = this.#keys.get(peeked.tenant)?.value.some(({ kid }) => kid === peeked.kid) === true;
    if (!isKnown) await this.#keys.refresh(peeked.tenant);
    const claims = this.#readClaims(token);
    if (claims !== null) await this.#users.refresh(`${claims.tenant}/${claims.sub}`);
  }

  async login({ tenant, username: typed, password, address, corr }: LoginAttempt) {
    const attempt = this.#countLoginAttempt({ tenant, username: typed, address });
    const { user, isRight } = await this.#evaluate(attempt, async () => {
      const found = tenant === "" || tenant.includes("/") ? null : await this.store.findByName(tenant, typed);
      return { user: found, isRight: await this.passwords.verify(password, found?.password ?? null) };
    });
    if (user === null || !isRight || !user.isActive) {
      this.#recordLoginFailure({ tenant, by: user?.id ?? "unknown", corr }, user, address);
      throw wrongCredentials();
    }
    attempt.reportSuccess();
    const { clock, ids } = this.#environment;
    const key = await this.#currentSigningKey(tenant);
    const iat = Math.floor(clock.now() / 1_000);
    const expiresIn = Math.floor(this.#tokenMs / 1_000);
    const { id: sub, username, displayName, roles, gen } = user;
    const claims = { sub, tenant, username, displayName, roles, jti: ids.next(), gen, iat, exp: iat + expiresIn };
    const audit = { action: "auth.login.success", targetType: "user", target: sub };
    await this.store.write({ tenant, by: sub, corr }, { audit });
    return { token: signUserToken(claims, key), expiresIn, user };
  }

  /** Whether this is the password of a person that has signed in; counts as an attempt like a login. */
  async confirmPassword({ tenant, user: id }: CallerIdentity, password: string, address: string): Promise<void> {
    const { record: user } = await this.store.find(tenant, id);
    if (user === null) throw wrongCredentials();
    const attempt = this.#countLoginAttempt({ tenant, username: user.username, address });
    if (!(await this.#evaluate(attempt, () => this.passwords.verify(password, user.password)))) throw wrongCredentials();
    attempt.reportSuccess();
  }

  async logout({ tenant, user: id, person }: CallerIdentity, corr: string): Promise<void> {
    if (person === undefined) return;
    const { jti, expiresAt } = person;
    const { clock } = this.#environment;
    await this.store.update({ tenant, by: id, corr }, id, { action: "auth.logout" }, (user) =>
      revokeToken(user, jti, expiresAt, clock.now()),
    );
    this.invalidateUser(tenant, id);
  }

  /** Something about this user was changed here: it counts at once. */
  invalidateUser(tenant: string, id: string): void {
    this.#users.invalidate(`${tenant}/${id}`);
  }

  /** Creates the first user of a tenant that has none. False: it has users already. */
  async createFirstUser(tenant: string, password: string): Promise<boolean> {
    const { items } = await this.store.list({ tenant, limit: 1 });
    if (items.length > 0) return false;
    const actor: Actor = { tenant, by: "scheduler", corr: this.#environment.ids.next() };
    const named = { username: "admin", displayName: "Administrator", roles: ["admin"] } as const;
    const first = newUserRecord(named, await this.passwords.hash(password), this.#environment);
    try {
      await this.store.create(actor, first, null);
      return true;
    } catch (why) {
      // Another scheduler of the same store started at the same moment.
      if (isConflict(why)) return false;
      throw why;
    }
  }

  #readClaims(token: string): UserClaims | null {
    const peeked = peekUserToken(token);
    const ring = peeked === null ? undefined : this.#keys.get(peeked.tenant)?.value;
    return ring === undefined ? null : verifyUserToken(token, ring, this.#environment.clock.now());
  }

  /** It never changes, so it is read once; null, for at most a second, while no user has signed in yet. */
  async #readKeyIdSecret(): Promise<Uint8Array | null> {
    const cached = this.#keyIdSecret.get("")?.value ?? null;
    if (cached !== null) return cached;
    await this.#keyIdSecret.refresh("");
    return this.#keyIdSecret.get("")?.value ?? null;
  }

  async #createKeyIdSecret(): Promise<Uint8Array> {
    const { ids } = this.#environment;
    for (;;) {
      const secret = await this.#readKeyIdSecret();
      if (secret !== null) return secret;
      // Whether it was stored or another scheduler was faster: the store knows which one counts.
      await this.store.storeKeyIdSecret({ by: "scheduler", corr: ids.next() }, createSecret(ids));
      this.#keyIdSecret.invalidate("");
    }
  }

  async #currentSigningKey(tenant: string): Promise<SigningKey> {
    const { clock, ids } = this.#environment;
    const keyIdSecret = await this.#createKeyIdSecret();
    for (;;) {
      const { keys, rev } = await this.store.readSigningKeys(tenant);
      const kept = keys.filter(({ kid }) => isSigningKeyId(tenant, kid, keyIdSecret));
      const ring = rotateKeys(kept, clock.now(), {
        ageMs: userLimits.signingKeyAgeMs,
        lifeMs: this.#tokenMs,
        make: () => ({ kid: createSigningKeyId(tenant, ids.next(), keyIdSecret), secret: createSecret(ids) }),
      });
      const signing = ring.at(-1);
      if (signing === undefined) throw new Error("a ring of keys is empty");
      if (ring === kept || (await this.store.storeSigningKeys({ tenant, by: "scheduler", corr: ids.next() }, ring, rev)))
        return signing;
    }
  }

  /** Throws where it comes too early after wrong ones. */
  #countLoginAttempt(origin: LoginAttemptOrigin): CountedLoginAttempt {
    const counted = this.#loginThrottle.countAttempt(origin);
    if (typeof counted === "number") throw tooManyAttempts(counted);
    return counted;
  }

  /** An overload or a store that is away says nothing about the password. */
  async #evaluate<T>(attempt: CountedLoginAttempt, evaluate: () => Promise<T>): Promise<T> {
    try {
      return await evaluate();
    } catch (why) {
      attempt.withdraw();
      throw why;
    }
  }

  /** A name that no user has is not recorded: it may be a password. Nobody waits for the entry: its time would tell which users exist. */
  #recordLoginFailure(actor: Actor, user: User | null, address: string): void {
    this.#environment.log({ level: "warn", event: "auth.login.failure", audit: true, ...actor, address });
    if (user === null) return;
    const audit = { action: "auth.login.failure", targetType: "user", target: user.id, data: { address } };
    this.store
      .write(actor, { audit })
      .catch((problem: unknown) =>
        this.#environment.log({ level: "error", event: "auth.login.unnoted", ...actor, problem: String(problem) }),
      );
  }
}

export type NewUser = Pick<User, "username" | "displayName" | "roles">;

export function newUserRecord(named: NewUser, password: string, { clock, ids }: Pick<ServiceEnvironment, "clock" | "ids">): User {
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
const wrongCredentials = (): Fault =>
  fault("E.AUTH.CREDENTIALS", "the name or the password is wrong, or the user was deactivated");

const tooManyAttempts = (waitMs: number): Fault =>
  fault("E.AUTH.THROTTLED", `too many wrong passwords; try again in ${Math.ceil(waitMs / 1_000)} s`, {
    retryAfterMs: Math.ceil(waitMs),
  });

/** Two names that nobody can guess are more than the 256 bits that come out. */
const createSecret = (ids: { next(): string }): Uint8Array => createHash("sha256").update(`${ids.next()} ${ids.next()}`).digest();

const splitUserKey = (key: string): [tenant: string, id: string] => {
  const slash = key.indexOf("/");
  return [key.slice(0, slash), key.slice(slash + 1)];
};
