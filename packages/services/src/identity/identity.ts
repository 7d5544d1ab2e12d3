// Who makes a request, and what roles and grants allow. How a token is recognised is not here.

import type { Permission, UserRole } from "@astraflow/protocol";

export const tenantGrants: readonly Permission[] = ["worker", "view", "read", "edit", "operate"];
export const allGrants: readonly Permission[] = [...tenantGrants, "admin"];

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

export interface CallerIdentity {
  readonly tenant: string;
  /** Who asked, for the log and as the owner of things: the name of a token, or the id of a person. */
  readonly user: string;
  readonly grants: readonly Permission[];
  /** Only of a person that has signed in: which of its tokens was shown. */
  readonly person?: { readonly username: string; readonly displayName: string; readonly jti: string; readonly expiresAt: number };
}
