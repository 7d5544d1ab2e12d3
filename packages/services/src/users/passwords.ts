// Passwords: hashed for the store, and compared with a hash, slowly on purpose, so only a few at a time.

import { type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";
import { fault } from "@astraflow/protocol";
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
