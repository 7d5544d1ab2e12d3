import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { logOut } from "../local/login-command.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { findSavedToken, resolveApiEndpoint, saveToken, tokensFilePath } from "./api-endpoint.ts";

const folder = mkdtempSync(join(tmpdir(), "astra-tokens-"));
const env = { XDG_CONFIG_HOME: folder };
afterEach(() => rmSync(join(folder, "astra"), { recursive: true, force: true }));

it("[L17] a saved token is used only for its scheduler and until it expires, and its file is readable only by its owner", () => {
  const file = saveToken("https://a.example", { token: "t", username: "ada", until: 100 }, env);

  expect(statSync(file ?? "").mode & 0o777).toBe(0o600);
  expect(findSavedToken("https://a.example", env, 99)).toBe("t");
  expect(findSavedToken("https://a.example", env, 100)).toBeUndefined();
  expect(findSavedToken("https://b.example", env, 99)).toBeUndefined();
  saveToken("https://a.example", null, env);
  expect(readFileSync(file ?? "", "utf8")).toBe("{}\n");
});

it("[L17] commands use the saved token if neither a flag nor the environment gives one, and ignore a broken token file", () => {
  saveToken("https://a.example", { token: "kept", username: "ada", until: Number.MAX_SAFE_INTEGER }, env);

  expect(resolveApiEndpoint({ url: "https://a.example/x" }, env).token).toBe("kept");
  expect(resolveApiEndpoint({ url: "https://a.example" }, { ...env, ASTRA_TOKEN: "mine" }).token).toBe("mine");
  expect(resolveApiEndpoint({ url: "https://b.example" }, env).token).toBe("");
  writeFileSync(tokensFilePath(env) ?? "", "{");
  expect(resolveApiEndpoint({ url: "https://a.example" }, env).token).toBe("");
});

it("[L53] logout deletes the saved token even if the scheduler no longer accepts it, and keeps it if the scheduler is unreachable", async () => {
  const refusing = (exitCode: 4 | 5, error: string) =>
    createCommandFixture({
      logout: () => {
        throw new CliFailure(exitCode, { error, message: error });
      },
    });
  saveToken("http://s", { token: "old", username: "ada", until: Number.MAX_SAFE_INTEGER }, env);

  const away = refusing(exitCodes.unreachable, "E.UNREACHABLE");
  await expect(logOut(away.context, env)).rejects.toMatchObject({ exitCode: 5 });
  expect(findSavedToken("http://s", env)).toBe("old");

  const stale = refusing(exitCodes.notAllowed, "E.AUTH.INVALID_TOKEN");
  expect(await logOut(stale.context, env)).toBe(0);
  expect(stale.stdout()).toBe("You were not signed in at http://s\n");
  expect(findSavedToken("http://s", env)).toBeUndefined();
});
