// Who is speaking: tokens to identities, and the signature of session tokens. Where the secrets come from is the app's business.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** What a token may be used for. `worker` opens sessions, `view` reads, `edit` starts and cancels, `operate` drains and sees metrics. */
export type Grant = "worker" | "view" | "edit" | "operate";
export const allGrants: readonly Grant[] = ["worker", "view", "edit", "operate"];

export interface Identity {
  readonly tenant: string;
  /** For the log: who asked. */
  readonly user: string;
  readonly grants: readonly Grant[];
}

/** `tenant` is what the peer claims; null where the wire has no such claim. A claim that is not the token's tenant is refused. */
export type Authenticate = (token: string, tenant: string | null) => Identity | null;

export interface TokenEntry extends Identity {
  readonly token: string;
}

/** Every entry is compared, as equally long digests: neither length nor prefix nor position of a token shows in the time it takes. */
export function createTokens(entries: readonly TokenEntry[]): Authenticate {
  const book = entries.map(({ token, ...identity }) => {
    // `<tenant>/<instance>` names a worker: a slash in the tenant would let two of them meet.
    if (identity.tenant === "" || identity.tenant.includes("/"))
      throw new Error("a tenant's name must not be empty or contain a slash");
    if (token === "") throw new Error("a token must not be empty");
    return { digest: digestOf(token), identity };
  });
  return (token, tenant) => {
    const given = digestOf(token);
    let found: Identity | null = null;
    for (const entry of book) {
      const isEqual = timingSafeEqual(entry.digest, given);
      if (isEqual && (tenant === null || entry.identity.tenant === tenant)) found = entry.identity;
    }
    return found;
  };
}

const digestOf = (token: string): Buffer => createHash("sha256").update(token, "utf8").digest();

/** What a session token says. Times in seconds. */
export interface SessionClaims {
  readonly sid: string;
  readonly wid: string;
  readonly tenant: string;
  readonly iat: number;
  readonly exp: number;
  readonly jti: string;
}
export type Sign = (claims: SessionClaims) => string;

/** `<base64url(claims)>.<base64url(HMAC-SHA256)>`, keys in a fixed order. */
export function createSigner(secret: string | Uint8Array): Sign {
  return ({ sid, wid, tenant, iat, exp, jti }) => {
    const body = Buffer.from(JSON.stringify({ exp, iat, jti, sid, tenant, wid }), "utf8").toString("base64url");
    return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
  };
}
