// Bodies of the REST API about people: signing in, users and their roles, the audit. What a role may do is in the doors.

import Type, { type Static } from "typebox";
import type { Fault } from "./fault.ts";
import { limits } from "./limits.ts";
import { page } from "./rest.ts";
import { shape } from "./shape.ts";
import { bag, id, instant, int, list, name, oneOf, optional } from "./words.ts";

/** What people are given; each stands for a few grants. */
export const userRoles = ["admin", "workflow.editor", "workflow.viewer", "run.viewer"] as const;
export type UserRole = (typeof userRoles)[number];

export const passwordLimits = { charsMin: 12, charsMax: 1_024 } as const;

const RoleSchema = oneOf(userRoles);
const asOf = int(0, undefined, "Position of the tenant's log that this is true at.");
/** Letters, digits and a few signs, compared without regard to case: two users must not look alike. */
const username = () => Type.String({ minLength: 1, maxLength: 64, pattern: "^[A-Za-z0-9][A-Za-z0-9._@+-]*$" });
const displayName = () => Type.String({ minLength: 1, maxLength: limits.nameCharsMax, pattern: "^[^\\u0000-\\u001f\\u007f]*$" });
const newPassword = () =>
  Type.String({
    minLength: passwordLimits.charsMin,
    maxLength: passwordLimits.charsMax,
    description: "Any characters; a sentence is better than a riddle.",
  });

const user = {
  userId: id(),
  username: name(),
  displayName: name(),
  roles: list(RoleSchema, userRoles.length),
  isActive: Type.Boolean({ description: "Who is not active cannot sign in, and tokens given out before open nothing." }),
};
const UserSummarySchema = Type.Object(user);
export type UserSummary = Static<typeof UserSummarySchema>;
export const UserDetailSchema = Type.Object({ ...user, asOf });
export const UserListSchema = Type.Object({ ...page(UserSummarySchema).properties, asOf });

export const UserCreateRequestSchema = Type.Object({
  username: username(),
  password: newPassword(),
  displayName: optional(displayName()),
  roles: optional(list(RoleSchema, userRoles.length)),
});
export const UserChangeRequestSchema = Type.Object({ displayName: displayName() });
export const UserPasswordRequestSchema = Type.Object({ password: newPassword() });
export const OwnPasswordRequestSchema = Type.Object({
  currentPassword: Type.String({ maxLength: passwordLimits.charsMax }),
  password: newPassword(),
});
export const UserRoleRequestSchema = Type.Object({ role: RoleSchema });
export const UserStatusRequestSchema = Type.Object({ isActive: Type.Boolean() });

export const AuthLoginRequestSchema = Type.Object({
  username: name(),
  password: Type.String({ maxLength: passwordLimits.charsMax }),
  tenant: optional(id("The tenant that the user belongs to; default where it is left out.")),
});
export const AuthLoginResponseSchema = Type.Object({
  accessToken: Type.String(),
  tokenType: Type.Literal("Bearer"),
  expiresIn: int(0, undefined, "Seconds."),
  user: UserSummarySchema,
});

const AuditEventSchema = Type.Object({
  eventId: id(),
  createdAt: instant(),
  action: name("What was done, such as worker.drain; a dispatch is task.dispatch, the start of a run run.start."),
  targetType: name(),
  actorId: optional(id("A user's id or a token's name; absent where the scheduler acted by itself.")),
  targetId: optional(id()),
  metadata: optional(bag("The outcome's code, the request id as corr, and what else belongs to the action.")),
});
export type AuditEvent = Static<typeof AuditEventSchema>;
export const AuditEventListSchema = Type.Object({ ...page(AuditEventSchema).properties, asOf });

/** By the names they have in the OpenAPI document. */
export const peopleSchemas = {
  UserSummary: UserSummarySchema,
  UserDetail: UserDetailSchema,
  UserList: UserListSchema,
  UserCreateRequest: UserCreateRequestSchema,
  UserChangeRequest: UserChangeRequestSchema,
  UserPasswordRequest: UserPasswordRequestSchema,
  OwnPasswordRequest: OwnPasswordRequestSchema,
  UserRoleRequest: UserRoleRequestSchema,
  UserStatusRequest: UserStatusRequestSchema,
  AuthLoginRequest: AuthLoginRequestSchema,
  AuthLoginResponse: AuthLoginResponseSchema,
  AuditEvent: AuditEventSchema,
  AuditEventList: AuditEventListSchema,
} as const;

const reading = { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" } as const;
const shapes = {
  login: shape(AuthLoginRequestSchema, reading),
  create: shape(UserCreateRequestSchema, reading),
  change: shape(UserChangeRequestSchema, reading),
  password: shape(UserPasswordRequestSchema, reading),
  ownPassword: shape(OwnPasswordRequestSchema, reading),
  role: shape(UserRoleRequestSchema, reading),
  status: shape(UserStatusRequestSchema, reading),
} as const;

type PeopleBody = typeof shapes;
/** The body of one of the routes about people. */
export function readPeopleRequest<K extends keyof PeopleBody>(
  of: K,
  value: unknown,
): Exclude<ReturnType<PeopleBody[K]["read"]>, Fault> | Fault {
  return shapes[of].read(value) as never;
}
