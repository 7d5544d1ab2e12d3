// The caller of one request, and the actor that a write is recorded under.

import type { CallerIdentity } from "./identity.ts";

/** Who asks, and the id of the request. */
export interface Caller {
  readonly identity: CallerIdentity;
  readonly requestId: string;
}

/** On whose behalf something is written, and for which request. */
export interface Actor {
  readonly tenant: string;
  readonly by: string;
  readonly corr: string;
}

export const actorOf = ({ identity, requestId }: Caller): Actor => ({
  tenant: identity.tenant,
  by: identity.user,
  corr: requestId,
});

export const isAdmin = ({ grants }: CallerIdentity): boolean => grants.includes("admin");
export const isOwnerOrAdmin = (identity: CallerIdentity, owner: string): boolean => owner === identity.user || isAdmin(identity);
