import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import type { Log } from "../platform/log.ts";
import { createServiceEnvironment } from "../platform/service-environment.ts";
import { readConfig } from "../settings/config.ts";
import { openCredentials } from "./credentials.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const secret = "a-long-enough-secret-1";

function createFixture() {
  const folder = mkdtempSync(join(tmpdir(), "astra-credentials-"));
  folders.push(folder);
  const file = join(folder, "token");
  writeFileSync(file, secret);
  const answer = readConfig({
    argv: ["--token", `ops/acme=@${file}`, "--data-dir", join(folder, "data")],
    env: {},
    readFile: () => secret,
  });
  if (answer.type !== "start") throw new Error(JSON.stringify(answer));
  const lines: string[] = [];
  const note = (fields: unknown, event?: string) => void lines.push(`${event} ${JSON.stringify(fields)}`);
  const log = { debug: note, info: note, warn: note, error: note, fatal: note } as Log;
  const credentials = openCredentials({ config: answer.config, replica: "one", environment: createServiceEnvironment(log), log });
  let changes = 0;
  credentials.workerAuthenticator.onChange(() => (changes += 1));
  const knows = (word: string): boolean => credentials.authenticate(word, "acme") !== null;
  return { file, credentials, lines, knows, changes: () => changes };
}

it("[O33] reloading an unchanged token changes nothing and logs nothing", async () => {
  const { credentials, lines, knows, changes } = createFixture();

  await credentials.reloadTokens(false);
  await credentials.reloadTokens(true);

  expect([knows(secret), changes(), lines]).toEqual([true, 0, []]);
});

it("[O33] a token file that exists but cannot be read leaves its token valid, and is logged once", async () => {
  const { file, credentials, lines, knows } = createFixture();
  await credentials.reloadTokens(false);
  rmSync(file);
  mkdirSync(file);

  for (const isSure of [false, false, true]) await credentials.reloadTokens(isSure);

  expect(knows(secret)).toBe(true);
  expect(lines).toEqual([expect.stringMatching(/^token\.unread .*EISDIR/)]);
});

it("[O33] the well-known token and short tokens are also refused when added later, and logged with the token's name", async () => {
  const { file, credentials, lines, knows, changes } = createFixture();

  writeFileSync(file, `${secret}\ndev-token\nshort\n`);
  await credentials.reloadTokens(false);
  await credentials.reloadTokens(false);

  expect([knows(secret), knows("dev-token"), knows("short"), changes()]).toEqual([true, false, false, 0]);
  expect(lines).toHaveLength(2);
  expect(lines.join("\n")).toMatch(/^token\.refused .*ops.*dev-token.*\ntoken\.refused .*ops.*fewer than 16/);
});

it("[O33] a deleted token file revokes its token after two checks in a row, and restores it once the file is back", async () => {
  const { file, credentials, lines, knows, changes } = createFixture();
  rmSync(file);

  await credentials.reloadTokens(false);
  expect([knows(secret), changes()]).toEqual([true, 0]);
  await credentials.reloadTokens(false);
  expect([knows(secret), changes()]).toEqual([false, 1]);
  writeFileSync(file, secret);
  await credentials.reloadTokens(false);

  expect([knows(secret), changes()]).toEqual([true, 2]);
  expect(lines.map((line) => line.split(" ")[0])).toEqual(["token.refused", "token.revoked", "token.added"]);
  expect(lines.join("\n")).not.toContain(secret);
});
