// Authentication in the simulated world: one token per tenant, valid for everything.

import type { AuthenticateToken } from "@astraflow/doors";
import { allGrants } from "@astraflow/services";

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
