// The access tokens of the configuration, which may change while the process runs, and what roles may do.

import { createHash, timingSafeEqual } from "node:crypto";
import type { CallerIdentity } from "@astraflow/services";

/** `tenant` is what the peer claims; null where it claims none. A claim that differs from the token's tenant is refused. */
export type AuthenticateToken = (token: string, tenant: string | null) => CallerIdentity | null;

export interface TokenEntry extends CallerIdentity {
  readonly token: string;
}

interface RegisteredToken {
  readonly digest: Buffer;
  readonly identity: CallerIdentity;
  readonly credential: string;
}

/** Throws where an entry is invalid; `replace` then changes nothing. */
export class TokenRegistry {
  #registered: readonly RegisteredToken[] = [];
  #credentialCount = 0;

  constructor(first: readonly TokenEntry[]) {
    this.replace(first);
  }

  readonly authenticate: AuthenticateToken = (token, tenant) => this.find(token, tenant)?.identity ?? null;

  /**
   * Like `authenticate`, with a name for this very token that reveals nothing of the secret. Compares digests of equal length with every
   * entry: the time it takes reveals neither length nor prefix nor position of a token.
   */
  find(token: string, tenant: string | null): Pick<RegisteredToken, "identity" | "credential"> | null {
    const digest = hashToken(token);
    let found: RegisteredToken | null = null;
    for (const entry of this.#registered) {
      const isEqual = timingSafeEqual(entry.digest, digest);
      if (isEqual && (tenant === null || entry.identity.tenant === tenant)) found = entry;
    }
    return found;
  }

  /** Whether the token with this name is still registered. */
  hasCredential(credential: string): boolean {
    return this.#registered.some((entry) => entry.credential === credential);
  }

  /** Replaces all entries. Those that stay keep their names; a user may have several, as while a secret is rotated. */
  replace(entries: readonly TokenEntry[]): void {
    this.#registered = entries.map((entry) => this.#register(entry));
  }

  #register({ token, ...identity }: TokenEntry): RegisteredToken {
    // `<tenant>/<instance>` names a worker: with a slash in the tenant two workers could have one name.
    if (identity.tenant === "" || identity.tenant.includes("/"))
      throw new Error("a tenant's name must not be empty or contain a slash");
    if (token === "") throw new Error("a token must not be empty");
    const digest = hashToken(token);
    const existing = this.#registered.find((entry) => entry.digest.equals(digest) && isSameIdentity(entry.identity, identity));
    if (existing !== undefined) return existing;
    this.#credentialCount += 1;
    return { digest, identity, credential: `token:${this.#credentialCount}` };
  }
}

/** For tokens that never change. */
export function createTokenAuthenticator(entries: readonly TokenEntry[]): AuthenticateToken {
  return new TokenRegistry(entries).authenticate;
}

const hashToken = (token: string): Buffer => createHash("sha256").update(token, "utf8").digest();

/** A token with another owner or other grants is another credential. */
function isSameIdentity(one: CallerIdentity, other: CallerIdentity): boolean {
  return one.tenant === other.tenant && one.user === other.user && one.grants.join() === other.grants.join();
}
