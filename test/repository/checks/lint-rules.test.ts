import { spawnSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readText, repositoryRoot } from "../../../scripts/repository-files.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

/** Names of the rules that the real linter, with our configuration, finds broken in one file. */
function lint(source: string, file = "packages/a/src/a.ts"): string[] {
  const configuration = [".oxlintrc.json", "tsconfig.json"].map((name) => [name, readText(repositoryRoot, name)]);
  const root = writeTemporaryTree({ ...Object.fromEntries(configuration), [file]: source });
  symlinkSync(join(repositoryRoot, "node_modules"), join(root, "node_modules"));
  const args = ["--type-aware", "--deny-warnings", "--format", "json"];
  const bin = join(repositoryRoot, "node_modules/.bin");
  const env = { ...process.env, PATH: `${bin}:${process.env["PATH"]}` };
  const done = spawnSync(join(bin, "oxlint"), args, { cwd: root, encoding: "utf8", env });
  const { diagnostics } = JSON.parse(done.stdout) as { diagnostics: { code: string }[] };
  return diagnostics.map(({ code }) => code.replace(/^.*\((.*)\)$/, "$1")).toSorted();
}

describe("lint", () => {
  it("[H14] the linter reports floating promises, explicit any, loose equality, an empty catch and console output in a library", () => {
    const broken = lint(`
      async function work(): Promise<void> {}
      export function run(x: any): void {
        work();
        [1].forEach(async () => { await work(); });
        if (x == 1) console.log(x);
        try { x(); } catch {}
      }
    `);

    expect(broken).toEqual([
      "eqeqeq",
      "no-console",
      "no-empty",
      "no-explicit-any",
      "no-floating-promises",
      "no-misused-promises",
    ]);
  });

  it("[H14] the linter reports skipped tests, focused tests and tests without an assertion", () => {
    const source = `
      import { expect, it } from "vitest";
      it.only("one", () => { expect(1).toBe(1); });
      it.skip("two", () => { expect(1).toBe(1); });
      it("three", () => { String(1); });
    `;

    expect(lint(source, "packages/a/src/a.test.ts")).toEqual(["expect-expect", "no-disabled-tests", "no-focused-tests"]);
  });

  it("[H14] the linter reports nothing in ordinary code", () => {
    expect(
      lint("export async function run(work: () => Promise<number>): Promise<number> { return 1 + (await work()); }"),
    ).toEqual([]);
  });
});
