// Session tokens: signs them with the newest key of a ring, and verifies those that come back.

import { createHmac, timingSafeEqual } from "node:crypto";
import { type Dialect, Fault, fault, limits, readJson } from "@astraflow/protocol";
import type { ServiceEnvironment, SigningKey } from "@astraflow/services";

/** The content of a session token whose signature and times are valid. Times in seconds. */
export interface SessionTokenClaims {
  readonly sid: string;
  readonly wid: string;
  readonly tenant: string;
  readonly dialect: Dialect;
  readonly jti: string;
  readonly kid: string;
  readonly aud: string;
  readonly iat: number;
  readonly exp: number;
  /** Thumbprint the token is bound to; absent where the session has no certificate. */
  readonly cnf?: string;
}

export interface IssuedSessionToken {
  readonly token: string;
  readonly jti: string;
  /** Wall time in ms. */
  readonly expiresAt: number;
}

/** Oldest first; the last one signs, all of them verify. Never empty. */
export interface KeyRing {
  keys(): readonly SigningKey[];
}

/** How far in the future a token may be issued, as after a restart during which the wall clock was set back. */
const clockSkewMsMax = 60_000;

/** No token is valid longer, whatever it says. */
const sessionTokenMsMax = 86_400_000;

export type SessionTokenSubject = Pick<SessionTokenClaims, "sid" | "wid" | "tenant" | "dialect"> & {
  readonly thumbprint: string | null;
};

export interface SessionTokensOptions {
  readonly keys: KeyRing;
  /** Cluster and replica: a token is valid only where its session lives. */
  readonly audience: string;
  readonly sessionTokenMs: number;
  readonly environment: Pick<ServiceEnvironment, "clock" | "ids">;
}

const tokenType = "astraflow-session";
const tokenPattern = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})$/;

export class SessionTokens {
  readonly #options: SessionTokensOptions;
  readonly #wallClockOffset: number;

  constructor(options: SessionTokensOptions) {
    const { clock } = options.environment;
    this.#options = options;
    this.#wallClockOffset = clock.now() - clock.monotonic();
  }

  /** Wall time at the start plus monotonic time: a wall clock that is set neither expires tokens nor revives old ones. */
  #nowSeconds(): number {
    return Math.floor((this.#wallClockOffset + this.#options.environment.clock.monotonic()) / 1_000);
  }

  issue({ thumbprint, sid, wid, tenant, dialect }: SessionTokenSubject): IssuedSessionToken {
    const { keys, audience, sessionTokenMs: lifeMs, environment } = this.#options;
    const key = keys.keys().at(-1);
    if (key === undefined) throw new Error("there is no session signing key");
    const iat = this.#nowSeconds();
    const jti = environment.ids.next();
    const exp = iat + Math.floor(lifeMs / 1_000);
    const cnf = thumbprint === null ? {} : { cnf: thumbprint };
    // In the order of their names. The worker's display name identifies nothing, so it is not included.
    const claims = { aud: audience, ...cnf, dialect, exp, iat, jti, kid: key.kid, sid, tenant, typ: tokenType, wid };
    const body = Buffer.from(JSON.stringify(claims), "utf8").toString("base64url");
    // The worker compares it with its own clock, so it gets the wall time of now.
    return { token: `${body}.${signBody(body, key)}`, jti, expiresAt: environment.clock.now() + lifeMs };
  }

  /** One fault for everything that can be wrong, so that a guess reveals nothing. */
  read(token: string): SessionTokenClaims | Fault {
    const { keys, audience } = this.#options;
    const [, body = "", signature = ""] = token.length <= limits.tokenCharsMax ? (tokenPattern.exec(token) ?? []) : [];
    const key = body === "" ? null : findSigningKey(body, signature, keys.keys());
    if (key === null) return invalidSessionTokenFault();
    // Signed by us, but another version may have signed it, so its content is checked too.
    const claims = parseClaims(readJson(Buffer.from(body, "base64url"), limits.json.unauthenticated));
    if (claims === null || claims.kid !== key.kid || claims.aud !== audience) return invalidSessionTokenFault();
    const { exp, iat } = claims;
    const now = this.#nowSeconds();
    const isCurrent = exp > now && iat * 1_000 <= now * 1_000 + clockSkewMsMax;
    const hasValidLife = exp > iat && (exp - iat) * 1_000 <= sessionTokenMsMax;
    return isCurrent && hasValidLife ? claims : invalidSessionTokenFault();
  }
}

export const invalidSessionTokenFault = (): Fault =>
  fault("E.SESSION.INVALID_TOKEN", "the session token is not valid here; send a new handshake");

const signBody = (body: string, key: SigningKey): string => createHmac("sha256", key.secret).update(body).digest("base64url");

/** Compares texts, not bytes: base64url can encode the last bits of one signature in several ways, and only one was issued. */
function findSigningKey(body: string, signature: string, keys: readonly SigningKey[]): SigningKey | null {
  const received = Buffer.from(signature, "latin1");
  let found: SigningKey | null = null;
  for (const key of keys) if (timingSafeEqual(Buffer.from(signBody(body, key), "latin1"), received)) found = key;
  return found;
}

const dialects: readonly Dialect[] = ["v1", "first", "undecided", "basic", "v2"];

function parseClaims(value: unknown): SessionTokenClaims | null {
  if (typeof value !== "object" || value === null || value instanceof Fault) return null;
  const { typ, sid, wid, tenant, dialect, jti, kid, aud, iat, exp, cnf } = value as Record<string, unknown>;
  const known = dialects.find((one) => one === dialect);
  if (typ !== tokenType || known === undefined) return null;
  if (!isText(sid) || !isText(wid) || !isText(tenant) || !isText(jti) || !isText(kid) || !isText(aud)) return null;
  if (!isSeconds(iat) || !isSeconds(exp) || (cnf !== undefined && !isText(cnf))) return null;
  return { sid, wid, tenant, dialect: known, jti, kid, aud, iat, exp, ...(cnf !== undefined && { cnf }) };
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isSeconds = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
