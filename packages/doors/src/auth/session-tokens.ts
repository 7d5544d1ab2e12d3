// Session tokens: what is signed, with which key, and how one that comes back is judged. Where keys are kept is the app's business;
// whether the session that a token names is still there is the session door's.

import { createHmac, timingSafeEqual } from "node:crypto";
import { type Dialect, Fault, fault, limits, readJson } from "@astraflow/protocol";
import type { SigningKey } from "@astraflow/services";
import type { DoorEnvironment } from "../environment/door-environment.ts";
import type { IssuedSessionToken, SessionTokenClaims } from "./worker-authenticator.ts";

/** Oldest first; the last one signs, all of them verify. Never empty. */
export interface KeyRing {
  keys(): readonly SigningKey[];
}

/** How far a clock may be ahead that signed a token, as when the process was started again and the wall clock set back meanwhile. */
const clockSkewMsMax = 60_000;

/** No token lives longer, whatever it says. */
export const sessionTokenMsMax = 86_400_000;

export interface SessionTokens {
  issue(of: { sid: string; wid: string; tenant: string; dialect: Dialect; thumbprint: string | null }): IssuedSessionToken;
  read(token: string): SessionTokenClaims | Fault;
}

export interface SessionTokensOptions {
  readonly keys: KeyRing;
  /** Cluster and replica: a token is worth something only where its session lives. */
  readonly audience: string;
  readonly lifeMs: number;
  readonly environment: Pick<DoorEnvironment, "clock" | "ids">;
}

const tokenType = "astraflow-session";
const tokenPattern = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})$/;

export function createSessionTokens({ keys, audience, lifeMs, environment }: SessionTokensOptions): SessionTokens {
  const { clock, ids } = environment;
  // Wall time at the start, carried on by the monotonic clock: a wall clock that is set forward or back neither ends the fleet's
  // tokens nor brings an old one back to life.
  const wallClockOffset = clock.now() - clock.monotonic();
  const monotonicSeconds = (): number => Math.floor((wallClockOffset + clock.monotonic()) / 1_000);

  return {
    issue({ thumbprint, sid, wid, tenant, dialect }) {
      const key = keys.keys().at(-1);
      if (key === undefined) throw new Error("the ring of session keys is empty");
      const iat = monotonicSeconds();
      const jti = ids.next();
      const exp = iat + Math.floor(lifeMs / 1_000);
      const cnf = thumbprint === null ? {} : { cnf: thumbprint };
      // In the order of their names. The worker's display name is nobody's identity and is not in it.
      const claims = { aud: audience, ...cnf, dialect, exp, iat, jti, kid: key.kid, sid, tenant, typ: tokenType, wid };
      const body = Buffer.from(JSON.stringify(claims), "utf8").toString("base64url");
      // The worker compares with its own clock, so it is told wall time as it is now.
      return { token: `${body}.${signBody(body, key)}`, jti, expiresAt: clock.now() + lifeMs };
    },

    read(token) {
      const [, body = "", signature = ""] = token.length <= limits.tokenCharsMax ? (tokenPattern.exec(token) ?? []) : [];
      const key = body === "" ? null : findSigningKey(body, signature, keys.keys());
      // One sentence for everything: whoever guesses learns nothing from it.
      if (key === null) return invalidTokenFault();
      // Signed by us; what is in it is looked at all the same, for another version may have signed it.
      const claims = parseClaims(readJson(Buffer.from(body, "base64url"), limits.json.unauthenticated));
      if (claims === null || claims.kid !== key.kid || claims.aud !== audience) return invalidTokenFault();
      const now = monotonicSeconds();
      if (claims.exp <= now || claims.iat * 1_000 > now * 1_000 + clockSkewMsMax) return invalidTokenFault();
      if (claims.exp <= claims.iat || (claims.exp - claims.iat) * 1_000 > sessionTokenMsMax) return invalidTokenFault();
      return claims;
    },
  };
}

const invalidTokenFault = (): Fault =>
  fault("E.SESSION.INVALID_TOKEN", "the session token is not valid here; send a new handshake");

const signBody = (body: string, key: SigningKey): string => createHmac("sha256", key.secret).update(body).digest("base64url");

/** Texts are compared, not bytes: base64url can spell the last bits of one signature in several ways, and only one was issued. */
function findSigningKey(body: string, signature: string, keys: readonly SigningKey[]): SigningKey | null {
  const received = Buffer.from(signature, "latin1");
  let found: SigningKey | null = null;
  for (const key of keys) if (timingSafeEqual(Buffer.from(signBody(body, key), "latin1"), received)) found = key;
  return found;
}

const dialects: readonly Dialect[] = ["v1", "first", "v2"];

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
