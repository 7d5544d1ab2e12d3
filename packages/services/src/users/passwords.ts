// Passwords: hashed for the store, and compared with a hash, slowly on purpose, so only a few at a time; and how often one may be tried.

import { type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";
import { fault, LruMap } from "@astraflow/protocol";
import { createSemaphore } from "../environment/concurrency.ts";

export interface PasswordCost {
  /** Memory is 128 * n * r bytes. */
  readonly n: number;
  readonly r: number;
  readonly p: number;
}

const defaultCost: PasswordCost = { n: 32_768, r: 8, p: 1 };
const digestBytes = 32;
/** The computing shares its threads with the disk: two of four leave room for it. */
const concurrentMax = 2;
const queuedMax = 64;

export class PasswordHasher {
  readonly #ids: { next(): string };
  readonly #cost: PasswordCost;
  readonly #runLimited = createSemaphore(concurrentMax, {
    queuedMax,
    overloadFault: () => fault("E.OVERLOADED", "too many logins at the moment; try again"),
  });

  constructor(ids: { next(): string }, cost: PasswordCost = defaultCost) {
    this.#ids = ids;
    this.#cost = cost;
  }

  /** A text that holds salt and cost beside the digest, so that a later cost does not lock anybody out. */
  async hash(password: string): Promise<string> {
    const salt = this.#ids.next();
    return encodeHash(this.#cost, salt, await this.#compute(password, salt));
  }

  /** The same text for the same password and salt, as expensive to guess as a hash; it identifies a repeated request. */
  async fingerprint(password: string, salt: string): Promise<string> {
    return (await this.#compute(password, salt)).toString("base64url");
  }

  /** Takes as long for a user that does not exist (no stored hash) as for a wrong password. */
  async verify(password: string, storedHash: string | null): Promise<boolean> {
    const dummyHash = encodeHash(this.#cost, "nobody", Buffer.alloc(digestBytes));
    const { cost, salt, digest } = decodeHash(storedHash ?? dummyHash);
    return timingSafeEqual(await this.#compute(password, salt, cost), digest) && storedHash !== null;
  }

  #compute(password: string, salt: string, cost: PasswordCost = this.#cost): Promise<Buffer> {
    return this.#runLimited(() => computeScrypt(password, salt, cost));
  }
}

const encodeHash = ({ n, r, p }: PasswordCost, salt: string, digest: Buffer): string =>
  ["scrypt", n, r, p, salt, digest.toString("base64url")].join("$");

function decodeHash(storedHash: string): { cost: PasswordCost; salt: string; digest: Buffer } {
  const [of, n, r, p, salt = "", text = ""] = storedHash.split("$");
  const digest = Buffer.from(text, "base64url");
  if (of !== "scrypt" || digest.length !== digestBytes) throw new Error("unknown password hash format in the store");
  return { cost: { n: Number(n), r: Number(r), p: Number(p) }, salt, digest };
}

/** Normalised, so that one password typed on two keyboards is one. */
function computeScrypt(password: string, salt: string, { n, r, p }: PasswordCost): Promise<Buffer> {
  const options: ScryptOptions = { N: n, r, p, maxmem: 256 * n * r };
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFC"), salt, digestBytes, options, (problem, digest) =>
      problem === null ? resolve(digest) : reject(problem),
    );
  });
}

export interface LoginAttemptKey {
  readonly name: string;
  readonly triesMax: number;
}

export const loginAttemptLimits = {
  windowMs: 300_000,
  userAttemptsMax: 10,
  /** People behind one proxy share an address. */
  addressAttemptsMax: 50,
  /** Users and addresses counted at once; beyond that the oldest are dropped. */
  keysMax: 20_000,
} as const;

/** Counts per user and per address, in the memory of one scheduler, and before the check: guesses may be concurrent. */
export class LoginAttemptLimiter {
  readonly #windows = new LruMap<string, { since: number; count: number }>({
    entriesMax: loginAttemptLimits.keysMax,
    touchOnGet: false,
  });
  readonly #ticks: () => number;

  constructor(ticks: () => number) {
    this.#ticks = ticks;
  }

  /** Counts an attempt. Returns the milliseconds to wait; 0: go on. */
  countAttempt(keys: readonly LoginAttemptKey[]): number {
    const now = this.#ticks();
    const entries = keys.map(({ name, triesMax }) => ({ entry: this.#windowOf(name, now), triesMax }));
    const full = entries.filter(({ entry, triesMax }) => entry.count >= triesMax);
    if (full.length > 0) return Math.max(...full.map(({ entry }) => entry.since + loginAttemptLimits.windowMs - now), 1);
    for (const { entry } of entries) entry.count += 1;
    return 0;
  }

  /** The password was right, so the attempt does not count. */
  uncountAttempt(keys: readonly LoginAttemptKey[]): void {
    for (const { name } of keys) {
      const entry = this.#windows.get(name);
      if (entry !== undefined && entry.count > 0) entry.count -= 1;
    }
  }

  #windowOf(name: string, now: number) {
    const found = this.#windows.get(name);
    if (found !== undefined && now - found.since < loginAttemptLimits.windowMs) return found;
    const fresh = { since: now, count: 0 };
    this.#windows.set(name, fresh);
    return fresh;
  }
}
