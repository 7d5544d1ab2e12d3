import { allGrants } from "@astraflow/services";
import { describe, expect, it } from "vitest";
import { createTokenAuthenticator, TokenRegistry } from "./token-registry.ts";

describe("tokens", () => {
  const book = createTokenAuthenticator([
    { token: "alpha", tenant: "a", user: "ann", grants: allGrants },
    { token: "beta", tenant: "b", user: "bob", grants: ["view"] },
  ]);

  it("[D3] the token authenticator finds the owner of an exact token, not of a prefix, an extension or another case", () => {
    expect(book("alpha", null)).toEqual({ tenant: "a", user: "ann", grants: allGrants });
    for (const wrong of ["alph", "alpha ", "Alpha", "alphaa", "", "beta\u0000"]) expect(book(wrong, null)).toBeNull();
  });

  it("[D3] the token authenticator refuses a token for another tenant than its own", () => {
    expect(book("beta", "b")).toMatchObject({ tenant: "b" });
    expect(book("beta", "a")).toBeNull();
  });

  it("[D3] the token authenticator accepts no empty token and no tenant name with a slash", () => {
    expect(() => createTokenAuthenticator([{ token: "", tenant: "a", user: "u", grants: [] }])).toThrow(/token/);
    expect(() => createTokenAuthenticator([{ token: "x", tenant: "a/b", user: "u", grants: [] }])).toThrow(/slash/);
  });
});

describe("a book of tokens that changes", () => {
  const entry = (token: string, user = "ann", tenant = "a") => ({ token, tenant, user, grants: allGrants });

  it("[D81] the token registry accepts two tokens of one user at once, with credential ids that do not reveal the secret", () => {
    const book = new TokenRegistry([entry("old-secret"), entry("new-secret")]);

    const old = book.find("old-secret", "a");
    const fresh = book.find("new-secret", "a");

    expect([old?.identity.user, fresh?.identity.user]).toEqual(["ann", "ann"]);
    expect(old?.credential).not.toBe(fresh?.credential);
    expect(`${old?.credential}${fresh?.credential}`).not.toContain("secret");
  });

  it("[D81] after a change the token registry knows added tokens, not removed ones, and keeps the credential id of the others", () => {
    const book = new TokenRegistry([entry("stays"), entry("goes")]);
    const stays = book.find("stays", null)?.credential ?? "";
    const goes = book.find("goes", null)?.credential ?? "";

    book.replace([entry("comes"), entry("stays")]);

    expect(book.find("stays", null)?.credential).toBe(stays);
    expect([book.hasCredential(stays), book.hasCredential(goes), book.hasCredential("")]).toEqual([true, false, false]);
    expect(book.authenticate("goes", null)).toBeNull();
    expect(book.authenticate("comes", null)).toMatchObject({ user: "ann" });
  });

  it("[D81] the token registry gives a secret a new credential id when it moves to another tenant or is added again", () => {
    const book = new TokenRegistry([entry("secret")]);
    const first = book.find("secret", null)?.credential ?? "";

    book.replace([entry("secret", "ann", "b")]);
    expect(book.hasCredential(first)).toBe(false);
    book.replace([entry("secret")]);
    expect(book.hasCredential(first)).toBe(false);
  });

  it("[D81] the token registry stays unchanged if a new entry is invalid", () => {
    const book = new TokenRegistry([entry("good")]);

    expect(() => book.replace([entry("other"), entry("")])).toThrow(/token/);
    expect(book.authenticate("good", null)).not.toBeNull();
  });
});
