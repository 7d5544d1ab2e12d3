// Who makes a request, what roles and grants allow, and the actor that a write is recorded under. How a token is recognised is not here.

import type { Permission, UserRole } from "@astraflow/protocol";

export const tenantGrants: readonly Permission[] = ["worker", "view", "read", "edit", "operate"];
export const allGrants: readonly Permission[] = [...tenantGrants, "admin", "metrics"];

/** What each role may do. Nobody opens a worker's session by a role. */
const grantsByRole: Readonly<Record<UserRole, readonly Permission[]>> = {
  admin: ["view", "read", "edit", "operate", "admin"],
  "workflow.editor": ["view", "read", "edit", "operate"],
  "workflow.viewer": ["read"],
  "run.viewer": ["view"],
};

export const grantsForRoles = (roles: readonly UserRole[]): readonly Permission[] =>
  allGrants.filter((grant) => roles.some((role) => grantsByRole[role].includes(grant)));

/** The roles that these grants amount to, for showing a token of the configuration as a user. */
export const rolesForGrants = (grants: readonly Permission[]): UserRole[] =>
  (Object.keys(grantsByRole) as UserRole[]).filter((role) => grantsByRole[role].every((grant) => grants.includes(grant)));

/** `this needs the permission edit, which admin and workflow.editor have` */
export function missingPermissionMessage(grant: Permission): string {
  const roles = (Object.keys(grantsByRole) as UserRole[]).filter((role) => grantsByRole[role].includes(grant));
  const who = roles.length === 0 ? "no role has" : `${roles.join(" and ")} ${roles.length === 1 ? "has" : "have"}`;
  return `this needs the permission ${grant}, which ${who}`;
}

export interface CallerIdentity {
  readonly tenant: string;
  /** Who asked, for the log and as the owner of things: the name of a token, or the id of a person. */
  readonly user: string;
  readonly grants: readonly Permission[];
  /** Only of a person that has signed in: which of its tokens was shown. */
  readonly person?: { readonly username: string; readonly displayName: string; readonly jti: string; readonly expiresAt: number };
}

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
