import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { allGrants, createSigner, createTokens } from "./identity.ts";

describe("tokens", () => {
  const book = createTokens([
    { token: "alpha", tenant: "a", user: "ann", grants: allGrants },
    { token: "beta", tenant: "b", user: "bob", grants: ["view"] },
  ]);

  it("[D3] knows the owner of a token, and nobody by a prefix, an extension or another case", () => {
    expect(book("alpha", null)).toEqual({ tenant: "a", user: "ann", grants: allGrants });
    for (const wrong of ["alph", "alpha ", "Alpha", "alphaa", "", "beta\u0000"]) expect(book(wrong, null)).toBeNull();
  });

  it("[D3] refuses a token for another tenant than its own", () => {
    expect(book("beta", "b")).toMatchObject({ tenant: "b" });
    expect(book("beta", "a")).toBeNull();
  });

  it("[D3] does not take an empty token or a tenant whose name could run into a worker's", () => {
    expect(() => createTokens([{ token: "", tenant: "a", user: "u", grants: [] }])).toThrow(/token/);
    expect(() => createTokens([{ token: "x", tenant: "a/b", user: "u", grants: [] }])).toThrow(/slash/);
  });
});

describe("session tokens", () => {
  it("[D3] are signed over exactly their claims", () => {
    const claims = { sid: "s", wid: "w", tenant: "t", iat: 1, exp: 2, jti: "j" };

    const [body = "", signature] = createSigner("key")(claims).split(".");

    expect(JSON.parse(Buffer.from(body, "base64url").toString())).toEqual(claims);
    expect(signature).toBe(createHmac("sha256", "key").update(body).digest("base64url"));
    expect(createSigner("other")(claims).split(".")[1]).not.toBe(signature);
  });
});
