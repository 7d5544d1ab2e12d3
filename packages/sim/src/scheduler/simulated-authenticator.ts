// Authentication of sessions in the simulated world: who may open a session, and tokens that expire. Forgery of real tokens is tested elsewhere; here
// tokens only have to expire and to belong to the process that made them.

import type { AuthenticatedWorker, SessionTokenClaims, WorkerAuthenticator } from "@astraflow/doors";
import { fault } from "@astraflow/protocol";
import { tokenOfTenant } from "../network/tenant-tokens.ts";

export interface SimulatedAuthenticatorOptions {
  /** The process whose tokens these are. */
  readonly audience: string;
  readonly tokenMs: number;
  readonly now: () => number;
  readonly nextId: () => string;
}

export function createSimulatedAuthenticator({
  audience,
  tokenMs,
  now,
  nextId,
}: SimulatedAuthenticatorOptions): WorkerAuthenticator {
  return {
    authenticate({ tenant, token }): AuthenticatedWorker | ReturnType<typeof fault> {
      if (token !== tokenOfTenant(tenant)) return fault("E.AUTH.INVALID_TOKEN", "unknown token");
      return { tenant, user: `workers of ${tenant}`, credential: token, thumbprint: null };
    },
    isStillValid: () => true,
    onChange: () => () => undefined,
    issueSessionToken({ sid, wid, tenant, dialect }) {
      const jti = nextId();
      const expiresAt = now() + tokenMs;
      const claims: SessionTokenClaims = {
        sid,
        wid,
        tenant,
        dialect,
        jti,
        kid: "sim",
        aud: audience,
        iat: Math.floor(now() / 1_000),
        exp: expiresAt / 1_000,
      };
      return { token: JSON.stringify(claims), jti, expiresAt };
    },
    readSessionToken(token) {
      const claims = JSON.parse(token) as SessionTokenClaims;
      if (claims.aud !== audience) return fault("E.SESSION.INVALID_TOKEN", "this token was made by another process");
      return claims.exp * 1_000 >= now() ? claims : fault("E.SESSION.INVALID_TOKEN", "the token has expired");
    },
  };
}
