// Who is speaking: the book of tokens, which may change while the process runs. Where the secrets come from, and when they are read
// again, is the app's business; what a worker may do with a token is asked in worker-credentials.ts.

import { createHash, timingSafeEqual } from "node:crypto";
import type { CallerIdentity } from "@astraflow/services";

/** `tenant` is what the peer claims; null where the wire has no such claim. A claim that is not the token's tenant is refused. */
export type AuthenticateToken = (token: string, tenant: string | null) => CallerIdentity | null;

export interface TokenEntry extends CallerIdentity {
  readonly token: string;
}

export interface TokenRegistry {
  readonly authenticate: AuthenticateToken;
  /** As `authenticate`, with a name for the very token that was shown. It says nothing of the secret. */
  find(token: string, tenant: string | null): { readonly identity: CallerIdentity; readonly credential: string } | null;
  /** Is the token that once had this name still in the book? */
  hasCredential(credential: string): boolean;
  /** From now on exactly these. Entries that stay keep their names; one user may have several, as when a secret is replaced. */
  replace(entries: readonly TokenEntry[]): void;
}

interface RegisteredToken {
  readonly digest: Buffer;
  readonly identity: CallerIdentity;
  readonly credential: string;
}

/** Throws where an entry cannot be one; then the book stays as it was. */
export function createTokenRegistry(first: readonly TokenEntry[]): TokenRegistry {
  let registered: readonly RegisteredToken[] = [];
  let credentialCount = 0;
  const register = ({ token, ...identity }: TokenEntry): RegisteredToken => {
    // `<tenant>/<instance>` names a worker: a slash in the tenant would let two of them meet.
    if (identity.tenant === "" || identity.tenant.includes("/"))
      throw new Error("a tenant's name must not be empty or contain a slash");
    if (token === "") throw new Error("a token must not be empty");
    const digest = hashToken(token);
    const existing = registered.find((entry) => entry.digest.equals(digest) && isSameIdentity(entry.identity, identity));
    if (existing !== undefined) return existing;
    credentialCount += 1;
    return { digest, identity, credential: `token:${credentialCount}` };
  };
  /** Every line is compared, as equally long digests: neither length nor prefix nor position of a token shows in the time it takes. */
  const find = (token: string, tenant: string | null): RegisteredToken | null => {
    const digest = hashToken(token);
    let found: RegisteredToken | null = null;
    for (const entry of registered) {
      const isEqual = timingSafeEqual(entry.digest, digest);
      if (isEqual && (tenant === null || entry.identity.tenant === tenant)) found = entry;
    }
    return found;
  };
  const registry: TokenRegistry = {
    find,
    authenticate: (token, tenant) => find(token, tenant)?.identity ?? null,
    hasCredential: (credential) => registered.some((entry) => entry.credential === credential),
    replace(entries) {
      registered = entries.map(register);
    },
  };
  registry.replace(first);
  return registry;
}

/** A book that never changes. */
export function createTokenAuthenticator(entries: readonly TokenEntry[]): AuthenticateToken {
  return createTokenRegistry(entries).authenticate;
}

const hashToken = (token: string): Buffer => createHash("sha256").update(token, "utf8").digest();

/** A token that was given to somebody else, or may do other things now, is another credential. */
function isSameIdentity(one: CallerIdentity, other: CallerIdentity): boolean {
  return one.tenant === other.tenant && one.user === other.user && one.grants.join() === other.grants.join();
}
