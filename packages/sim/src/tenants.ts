// Who may speak in the simulated world: one token per tenant, good for everything.

import { type AuthenticateToken, allGrants } from "@astraflow/doors";

export const tokenOf = (tenant: string): string => `token-${tenant}`;

/** Digests and their comparison in constant time are tested elsewhere; here they would cost a tenth of every seed. */
export function authenticate(tenants: readonly string[]): AuthenticateToken {
  const book = new Map(tenants.map((tenant) => [tokenOf(tenant), { tenant, user: `user of ${tenant}`, grants: allGrants }]));
  return (token, tenant) => {
    const identity = book.get(token) ?? null;
    return identity === null || (tenant !== null && identity.tenant !== tenant) ? null : identity;
  };
}
