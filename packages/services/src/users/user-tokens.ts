// The tokens that users get when they log in: JSON Web Tokens, HS256. What is signed, and how one that comes back is read.

import { createHmac, timingSafeEqual } from "node:crypto";
import { Fault, isRecord, limits, readJson, userRoles } from "@astraflow/protocol";
import type { SigningKey } from "../identity/signing-keys.ts";
import type { User } from "./user-store.ts";

/** What is said of the user is as it was; what counts is as it is now. Times are in seconds. */
export interface UserClaims extends Pick<User, "username" | "displayName" | "roles" | "gen"> {
  readonly sub: string;
  readonly tenant: string;
  readonly jti: string;
  readonly iat: number;
  readonly exp: number;
}

/** How far another scheduler's clock may be ahead. */
const clockSkewSecondsMax = 60;
/** No such token lives longer, whatever it says. */
const userTokenMsMax = 366 * 86_400_000;
const tokenPattern = /^([A-Za-z0-9_-]{1,512})\.([A-Za-z0-9_-]{1,6000})\.([A-Za-z0-9_-]{43})$/;
const issuer = "astraflow";

export function signUserToken(claims: UserClaims, key: Pick<SigningKey, "kid" | "secret">): string {
  const head = encodePart({ alg: "HS256", typ: "JWT", kid: key.kid });
  const body = `${head}.${encodePart({ iss: issuer, ...claims })}`;
  return `${body}.${signatureOf(body, key)}`;
}

/** What the token says of itself before anybody has looked at its signature: enough to find the keys. Null: no such token at all. */
export function peekUserToken(token: string): { readonly tenant: string; readonly kid: string } | null {
  const [, head = "", body = ""] = token.length <= limits.tokenCharsMax ? (tokenPattern.exec(token) ?? []) : [];
  if (head === "") return null;
  const { alg, kid } = decodePart(head);
  const { iss, tenant } = decodePart(body);
  // The algorithm is ours to say, not the token's; one that names another was not issued here.
  if (alg !== "HS256" || iss !== issuer || !isText(kid) || !isText(tenant) || tenant.includes("/")) return null;
  return { tenant, kid };
}

/** The claims, if one of these keys signed them and their time is not over; else null. */
export function verifyUserToken(
  token: string,
  keys: readonly Pick<SigningKey, "kid" | "secret">[],
  nowMs: number,
): UserClaims | null {
  const peeked = peekUserToken(token);
  const key = peeked === null ? undefined : keys.find(({ kid }) => kid === peeked.kid);
  if (key === undefined) return null;
  const end = token.lastIndexOf(".");
  const expected = Buffer.from(signatureOf(token.slice(0, end), key), "latin1");
  // Texts are compared, not bytes: base64url can spell the last bits of one signature in several ways, and only one was issued.
  if (!timingSafeEqual(expected, Buffer.from(token.slice(end + 1), "latin1"))) return null;
  const claims = parseClaims(decodePart(token.slice(token.indexOf(".") + 1, end)));
  if (claims === null) return null;
  const now = nowMs / 1_000;
  const isExpired = claims.exp <= now || claims.iat > now + clockSkewSecondsMax;
  return isExpired || (claims.exp - claims.iat) * 1_000 > userTokenMsMax ? null : claims;
}

const encodePart = (value: object): string => Buffer.from(JSON.stringify(value), "utf8").toString("base64url");
const signatureOf = (body: string, { secret }: Pick<SigningKey, "secret">): string =>
  createHmac("sha256", secret).update(body).digest("base64url");

function decodePart(part: string): Record<string, unknown> {
  const value = readJson(Buffer.from(part, "base64url"), limits.json.unauthenticated);
  return isRecord(value) && !(value instanceof Fault) ? value : {};
}

function parseClaims(value: Record<string, unknown>): UserClaims | null {
  const { sub, tenant, username, displayName, roles, jti, gen, iat, exp } = value;
  if (!isText(sub) || !isText(tenant) || !isText(username) || !isText(displayName) || !isText(jti)) return null;
  if (!Array.isArray(roles) || !isCount(gen) || !isCount(iat) || !isCount(exp)) return null;
  const known = userRoles.filter((role) => roles.includes(role));
  return { sub, tenant, username, displayName, roles: known, jti, gen, iat, exp };
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
