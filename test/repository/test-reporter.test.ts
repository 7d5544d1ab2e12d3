import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { writeTemporaryTree } from "./temporary-tree.ts";

/** Runs the real vitest with our reporter over planted tests. */
function runWithFiles(files: Record<string, string>, titlesFile = ""): string[] {
  const root = writeTemporaryTree(files);
  const args = ["run", "--globals", "--root", root, "--reporter", join(repositoryRoot, "scripts/reporter.ts")];
  const env = { ...process.env, ASTRA_TEST_COUNTS: "", ASTRA_TEST_TITLES: titlesFile };
  const done = spawnSync(process.execPath, [join(repositoryRoot, "node_modules/vitest/vitest.mjs"), ...args], {
    encoding: "utf8",
    env,
  });
  return done.stdout.trim().split("\n");
}

describe("the reporter", () => {
  it("[H4] the test reporter counts passed, failed and skipped tests and gives the reason for a skip", () => {
    const lines = runWithFiles({
      "a.test.ts": 'it("one", () => {}); it("two", () => { throw new Error("no"); });',
      "b.test.ts": 'describe("b", () => { it("three", (ctx) => ctx.skip("no such server")); it("four", () => {}); });',
    });

    expect(lines).toEqual(["skipped: b.test.ts > b > three: no such server", "2 passed, 1 failed, 1 skipped"]);
  });

  it("[H25] the test reporter lists the titles of tests and groups as they were computed, each once", () => {
    const titlesFile = join(writeTemporaryTree({}), "titles.json");
    runWithFiles(
      {
        "a.test.ts": `
          describe("a group", () => {
            it.each(["one", "two"])("[L1] ends after %s", () => {});
            for (const store of ["memory", "sqlite"]) it(\`[L2] works on \${store}\`, () => {});
          });`,
        "b.test.ts": 'it("[L1] ends after one", () => {}); it.skip("[L3] is skipped", () => {});',
      },
      titlesFile,
    );

    const titles = JSON.parse(readFileSync(titlesFile, "utf8")) as string[];
    expect(titles.toSorted()).toEqual([
      "[L1] ends after one",
      "[L1] ends after two",
      "[L2] works on memory",
      "[L2] works on sqlite",
      "[L3] is skipped",
      "a group",
    ]);
  });

  it("[H5] the test reporter counts a file that cannot be loaded and a hook that throws as failures", () => {
    const lines = runWithFiles({
      "a.test.ts": 'it("one", () => {});',
      "b.test.ts": 'throw new Error("at load");',
      "c.test.ts": 'describe("c", () => { beforeAll(() => { throw new Error("hook"); }); it("two", () => {}); });',
    });

    expect(lines.at(-1)).toMatch(/^1 passed, 2 failed/);
  });

  it("[H5] the test reporter counts an uncaught error outside a test as a failure", () => {
    const lines = runWithFiles({
      "a.test.ts":
        'it("one", async () => { setTimeout(() => { throw new Error("stray"); }, 0); await new Promise((r) => setTimeout(r, 50)); });',
    });

    expect(lines.at(-1)).toBe("1 passed, 1 failed");
  });
});
