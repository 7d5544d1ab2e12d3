// Bodies of the REST API about people: signing in, users and their roles, the audit. What a role may do is in the doors.

import type { Static } from "typebox";
import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageAsOf } from "./body-parts.ts";

/** The roles of users; each is a set of permissions. */
export const userRoles = ["admin", "workflow.editor", "workflow.viewer", "run.viewer"] as const;
export type UserRole = (typeof userRoles)[number];

export const passwordLimits = { charsMin: 12, charsMax: 1_024 } as const;

const RoleSchema = t.oneOf(userRoles);
/** Letters, digits and a few signs, compared without regard to case: two users must not look alike. */
const username = () => t.string({ minLength: 1, maxLength: 64, pattern: "^[A-Za-z0-9][A-Za-z0-9._@+-]*$" });
const displayName = () => t.string({ minLength: 1, maxLength: limits.nameCharsMax, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const newPassword = () =>
  t.string({
    minLength: passwordLimits.charsMin,
    maxLength: passwordLimits.charsMax,
    description: "Any characters; a sentence is better than a riddle.",
  });

const userFields = {
  userId: t.id(),
  username: t.name(),
  displayName: t.name(),
  roles: t.list(RoleSchema, userRoles.length),
  isActive: t.boolean({ description: "An inactive user cannot sign in, and existing tokens stop working." }),
};
export const UserSummarySchema = t.object(userFields);
export type UserSummary = Static<typeof UserSummarySchema>;
export const UserDetailSchema = t.object({ ...userFields, asOf: asOfPosition() });
export const UserListSchema = pageAsOf(UserSummarySchema);

export const UserCreateRequestSchema = t.object({
  username: username(),
  password: newPassword(),
  displayName: t.optional(displayName()),
  roles: t.optional(t.list(RoleSchema, userRoles.length)),
});
export const UserChangeRequestSchema = t.object({ displayName: displayName() });
export const UserPasswordRequestSchema = t.object({ password: newPassword() });
export const OwnPasswordRequestSchema = t.object({
  currentPassword: t.string({ maxLength: passwordLimits.charsMax }),
  password: newPassword(),
});
export const UserRoleRequestSchema = t.object({ role: RoleSchema });
export const UserStatusRequestSchema = t.object({ isActive: t.boolean() });

export const AuthLoginRequestSchema = t.object({
  username: t.name(),
  password: t.string({ maxLength: passwordLimits.charsMax }),
  tenant: t.optional(t.id("The tenant that the user belongs to; default where it is left out.")),
});
export const AuthLoginResponseSchema = t.object({
  accessToken: t.string(),
  tokenType: t.literal("Bearer"),
  expiresIn: t.integer(0, "Seconds."),
  user: UserSummarySchema,
});

export const AuditEventSchema = t.object({
  eventId: t.id(),
  createdAt: t.instant(),
  action: t.name("What was done, such as worker.drain; a dispatch is task.dispatch, the start of a run run.start."),
  targetType: t.name(),
  actorId: t.optional(t.id("A user's id or a token's name; absent where the scheduler acted by itself.")),
  targetId: t.optional(t.id()),
  metadata: t.optional(t.openObject("The outcome's code, the request id as corr, and what else belongs to the action.")),
});
export type AuditEvent = Static<typeof AuditEventSchema>;
export const AuditEventListSchema = pageAsOf(AuditEventSchema);
