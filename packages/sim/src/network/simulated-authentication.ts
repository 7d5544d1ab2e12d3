// Authentication in the simulated world: one token per tenant, valid for everything, and session tokens that expire. Forgery is tested elsewhere.

import type { AuthenticatedWorker, AuthenticateToken, SessionTokenClaims, WorkerAuthenticator } from "@astraflow/doors";
import { fault } from "@astraflow/protocol";
import { allGrants } from "@astraflow/services";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SimulatedIds } from "../kernel/seeded-random.ts";

export const tokenOfTenant = (tenant: string): string => `token-${tenant}`;

/** Digests and their comparison in constant time are tested elsewhere; here they would cost a tenth of every seed. */
export function createTokenAuthenticator(tenants: readonly string[]): AuthenticateToken {
  const identities = new Map(
    tenants.map((tenant) => [tokenOfTenant(tenant), { tenant, user: `user of ${tenant}`, grants: allGrants }]),
  );
  return (token, tenant) => {
    const identity = identities.get(token) ?? null;
    return identity === null || (tenant !== null && identity.tenant !== tenant) ? null : identity;
  };
}

/** Session tokens only have to expire and to belong to the process that made them. */
export function createSimulatedAuthenticator(
  { name, clock }: ProcessEventLoop,
  ids: SimulatedIds,
  tokenMs: number,
): WorkerAuthenticator {
  return {
    authenticate({ tenant, token }): AuthenticatedWorker | ReturnType<typeof fault> {
      if (token !== tokenOfTenant(tenant)) return fault("E.AUTH.INVALID_TOKEN", "unknown token");
      return { tenant, user: `workers of ${tenant}`, credential: token, thumbprint: null };
    },
    isStillValid: () => true,
    onChange: () => () => undefined,
    issueSessionToken({ sid, wid, tenant, dialect }) {
      const jti = ids.next();
      const now = clock.wall();
      const expiresAt = now + tokenMs;
      const times = { iat: Math.floor(now / 1_000), exp: expiresAt / 1_000 };
      const claims: SessionTokenClaims = { sid, wid, tenant, dialect, jti, kid: "sim", aud: name, ...times };
      return { token: JSON.stringify(claims), jti, expiresAt };
    },
    readSessionToken(token) {
      const claims = JSON.parse(token) as SessionTokenClaims;
      if (claims.aud !== name) return fault("E.SESSION.INVALID_TOKEN", "this token was made by another process");
      return claims.exp * 1_000 >= clock.wall() ? claims : fault("E.SESSION.INVALID_TOKEN", "the token has expired");
    },
  };
}
