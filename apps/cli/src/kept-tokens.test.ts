import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { openStage } from "./command-stage.ts";
import { readConnection } from "./connection.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import { keepToken, keptToken, tokensFile } from "./kept-tokens.ts";
import { logOut } from "./login-command.ts";

const folder = mkdtempSync(join(tmpdir(), "astra-tokens-"));
const env = { XDG_CONFIG_HOME: folder };
afterEach(() => rmSync(join(folder, "astra"), { recursive: true, force: true }));

it("[L17] a token is kept for its scheduler alone, readable by its owner alone, until its time is over", () => {
  const file = keepToken("https://a.example", { token: "t", username: "ada", until: 100 }, env);

  expect(statSync(file ?? "").mode & 0o777).toBe(0o600);
  expect(keptToken("https://a.example", env, 99)).toBe("t");
  expect(keptToken("https://a.example", env, 100)).toBeUndefined();
  expect(keptToken("https://b.example", env, 99)).toBeUndefined();
  keepToken("https://a.example", null, env);
  expect(readFileSync(file ?? "", "utf8")).toBe("{}\n");
});

it("[L17] commands use it where neither a flag nor the environment names one; a broken file signs nobody in", () => {
  keepToken("https://a.example", { token: "kept", username: "ada", until: Number.MAX_SAFE_INTEGER }, env);

  expect(readConnection({ url: "https://a.example/x", env }).token).toBe("kept");
  expect(readConnection({ url: "https://a.example", env: { ...env, ASTRA_TOKEN: "mine" } }).token).toBe("mine");
  expect(readConnection({ url: "https://b.example", env }).token).toBe("");
  writeFileSync(tokensFile(env) ?? "", "{");
  expect(readConnection({ url: "https://a.example", env }).token).toBe("");
});

it("[L53] a logout forgets the kept token also where the scheduler does not take it any more, and keeps it where nobody answered", async () => {
  const refusing = (exitCode: 4 | 5, error: string) =>
    openStage({
      logout: () => {
        throw new CliFailure(exitCode, { error, message: error });
      },
    });
  keepToken("http://s", { token: "old", username: "ada", until: Number.MAX_SAFE_INTEGER }, env);

  const away = refusing(exitCodes.unreachable, "E.UNREACHABLE");
  await expect(logOut({ ...away.place, env })).rejects.toMatchObject({ exitCode: 5 });
  expect(keptToken("http://s", env)).toBe("old");

  const stale = refusing(exitCodes.notAllowed, "E.AUTH.INVALID_TOKEN");
  expect(await logOut({ ...stale.place, env })).toBe(0);
  expect(stale.out()).toBe("nobody was signed in at http://s\n");
  expect(keptToken("http://s", env)).toBeUndefined();
});
