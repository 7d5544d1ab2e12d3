import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { peekUserToken, signUserToken, type UserClaims, verifyUserToken } from "./user-tokens.ts";

const key = { kid: "k1", secret: Buffer.alloc(32, 1) };
const claims: UserClaims = {
  sub: "u1",
  tenant: "default",
  username: "ann",
  displayName: "Ann",
  roles: ["admin"],
  jti: "j1",
  gen: 1,
  iat: 1_000,
  exp: 5_000,
};
const now = 2_000_000;
const spell = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const forge = (head: object, body: object, secret = key.secret): string => {
  const text = `${spell(head)}.${spell(body)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
};
const head = { alg: "HS256", typ: "JWT", kid: "k1" };
const whole = { iss: "astraflow", ...claims };

describe("a person's token", () => {
  it("[A80] a user token is a JWT that names its tenant and key, and verifies to the claims it was signed with", () => {
    const token = signUserToken(claims, key);

    expect(JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString())).toEqual(head);
    expect(peekUserToken(token)).toEqual({ tenant: "default", kid: "k1" });
    expect(verifyUserToken(token, [key], now)).toEqual(claims);
  });

  it("[A84] a user token is refused with any character of it changed", () => {
    const token = signUserToken(claims, key);
    const isGood = Array.from(token, (character, at) => {
      const changed = `${token.slice(0, at)}${character === "A" ? "B" : "A"}${token.slice(at + 1)}`;
      return verifyUserToken(changed, [key], now) !== null;
    });

    expect(isGood).not.toContain(true);
  });

  it.each([
    ["of no algorithm", forge({ ...head, alg: "none" }, whole)],
    ["of another algorithm", forge({ ...head, alg: "HS512" }, whole)],
    ["without a signature", `${spell({ ...head, alg: "none" })}.${spell(whole)}.`],
    ["of another key", forge(head, whole, Buffer.alloc(32, 2))],
    ["of a key that is not there", forge({ ...head, kid: "k2" }, whole)],
    ["that is over", forge(head, { ...whole, exp: 2_000 })],
    ["from the future", forge(head, { ...whole, iat: 2_061 })],
    ["that would live for ever", forge(head, { ...whole, exp: 99_999_999 })],
    ["without a user", forge(head, { ...whole, sub: "" })],
    ["of a tenant with a slash", forge(head, { ...whole, tenant: "a/b" })],
    ["of another issuer", forge(head, { ...whole, iss: "somebody" })],
    ["whose roles are no list", forge(head, { ...whole, roles: "admin" })],
    ["whose claims are a list", forge(head, [1])],
    ["that is noise", "a.b.c"],
    ["that is empty", ""],
  ])("[A84] a user token %s is refused", (_, token) => {
    expect(verifyUserToken(token, [key], now)).toBeNull();
  });
});
