import { tenantGrants } from "@astraflow/services";
import { expect, it } from "vitest";
import { type AccessToken, compareTokens, readTokens } from "./secrets.ts";

const token = (secret: string, name = "ops", tenant = "default"): AccessToken => ({ name, tenant, grants: tenantGrants, secret });
const old = token("old-secret-0123456789");
const fresh = token("new-secret-0123456789");

it("[O33] a new secret is valid from the first check, and a missing one is removed after two checks in a row", () => {
  const first = compareTokens([old], [fresh], { missing: [], isSure: false });
  expect(first).toEqual({ tokens: [fresh, old], added: [fresh], removed: [], missing: [old] });

  const second = compareTokens(first.tokens, [fresh], { missing: first.missing, isSure: false });
  expect(second).toEqual({ tokens: [fresh], added: [], removed: [old], missing: [] });
});

it("[O33] a token file that is briefly empty while it is written revokes no token", () => {
  const empty = compareTokens([old], [], { missing: [], isSure: false });
  const back = compareTokens(empty.tokens, [old], { missing: empty.missing, isSure: false });

  expect(empty.tokens).toEqual([old]);
  expect(back).toEqual({ tokens: [old], added: [], removed: [], missing: [] });
});

it("[O33] an explicit reload removes a missing secret at once", () => {
  expect(compareTokens([old, fresh], [fresh], { missing: [], isSure: true })).toMatchObject({ tokens: [fresh], removed: [old] });
});

it("[O33] a secret moved to another tenant is never valid for both", () => {
  const moved = token(old.secret, "ops", "acme");

  const change = compareTokens([old], [moved], { missing: [], isSure: false });

  expect(change.tokens).toEqual([moved]);
});

it("[O33] a token file with some bad lines still yields its good secrets, and the errors repeat none of the secrets", () => {
  const text = `${old.secret}\nshort\n${old.secret}\ntwo words\n${fresh.secret}\n`;
  const given = [{ name: "ops", tenant: "default", grants: tenantGrants, secret: null, file: "/f" }];

  const { tokens, problems } = readTokens(given, { isDev: false, readFile: () => text });

  expect(tokens).toEqual([old, fresh]);
  expect(problems).toHaveLength(3);
  expect(problems.join("\n")).toMatch(/without spaces.*fewer than 16.*same secret/s);
  for (const word of [old.secret, fresh.secret, "two words"]) expect(problems.join("\n")).not.toContain(word);
});
