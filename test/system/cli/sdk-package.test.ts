// The SDK as an author of packages has it: built, packed, unpacked where nothing of this repository is, and used there.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { buildSdk } from "../../../scripts/publish/sdk-package.ts";
import { repositoryRoot, waitMsMax } from "../harness/processes.ts";

const author = mkdtempSync(join(tmpdir(), "astra-sdk-author-"));
afterAll(() => rmSync(author, { recursive: true, force: true }));

const run = (program: string, args: readonly string[]) =>
  spawnSync(program, args, {
    cwd: author,
    encoding: "utf8",
    timeout: waitMsMax,
    env: { ...process.env, npm_config_cache: join(author, "cache") },
  });

/** The programs that the readme shows, by name. */
function readShownFiles(): Record<string, string> {
  const text = readFileSync(join(repositoryRoot, "packages/sdk/README.md"), "utf8");
  const blocks = [...text.matchAll(/^```ts file=(\S+)\n([\s\S]*?)^```$/gm)];
  return Object.fromEntries(blocks.map(([, name = "", body = ""]) => [name, body]));
}

it("[W1304] the packed SDK needs no other package: the handler of its readme compiles against it, and the test of the readme passes", () => {
  const dist = join(author, "dist");
  buildSdk(dist);
  const packed = run("npm", ["pack", "--json", "--offline", dist]);
  const [tarball] = JSON.parse(packed.stdout) as { filename: string; files: { path: string }[] }[];
  const installed = join(author, "node_modules", "@astraflow", "sdk");
  mkdirSync(installed, { recursive: true });
  run("tar", ["-xzf", tarball?.filename ?? "", "--strip-components=1", "-C", installed]);
  writeFileSync(join(author, "package.json"), JSON.stringify({ type: "module" }));
  const shown = readShownFiles();
  for (const [name, text] of Object.entries(shown)) writeFileSync(join(author, name), text);

  const compiled = run(process.execPath, [
    join(repositoryRoot, "node_modules/typescript/bin/tsc"),
    ...[
      "--noEmit",
      "--strict",
      "--target",
      "es2022",
      "--module",
      "nodenext",
      "--allowImportingTsExtensions",
      "--skipLibCheck",
      "false",
    ],
    ...["--types", "node", "--typeRoots", join(repositoryRoot, "node_modules/@types"), ...Object.keys(shown)],
  ]);
  const tested = run(process.execPath, ["greet.test.ts"]);

  expect(Object.keys(shown)).toEqual(["greet.ts", "greet.test.ts"]);
  expect(compiled.stdout).toBe("");
  expect([compiled.status, tested.status, tested.stderr]).toEqual([0, 0, ""]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as Record<string, unknown>;
  expect(manifest).not.toHaveProperty("dependencies");
  expect(tarball?.files.map(({ path }) => path)).toEqual(
    expect.arrayContaining(["LICENSE", "README.md", "index.d.ts", "testing.js"]),
  );
});
