import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { writeTemporaryTree } from "../repository/temporary-tree.ts";
import { type PlantedBug, plantBug } from "./planted-bug.ts";
import { copyRepository } from "./scratch-copy.ts";
import { summarize } from "./summary.ts";
import { tryBug, type Verdict } from "./try-bug.ts";

/** Stands in for vitest: does what the product's text tells it, and reports as vitest does. */
const fakeVitest = `
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
const text = readFileSync("packages/a/src/product.ts", "utf8");
const file = process.argv.find((word) => word.startsWith("--outputFile=")).slice("--outputFile=".length);
const [name] = process.argv.slice(-1);
const title = process.argv.find((word) => word.startsWith("--testNamePattern="))?.slice("--testNamePattern=".length) ?? "all";
appendFileSync("order.txt", title + " of " + name + "\\n");
if (text.includes("hang")) for (;;);
const status = text.includes("broken") ? "failed" : "passed";
const assertionResults = [{ fullName: "[A1] counts to two", status }];
writeFileSync(file, JSON.stringify({ testResults: [{ name: process.cwd() + "/" + name, status, assertionResults }] }));
process.exit(status === "failed" ? 1 : 0);
`;
const product = "export const count = 2;\n";
const bug: PlantedBug = {
  id: "counts-three",
  rule: "A1",
  file: "packages/a/src/product.ts",
  find: "count = 2",
  replace: 'count = "broken"',
  tests: ["packages/a/src/product.test.ts"],
};

function createCopy() {
  const root = writeTemporaryTree({
    "packages/a/src/product.ts": product,
    "packages/a/src/product.test.ts": 'it("[A1] counts to two");',
    "packages/a/src/other.test.ts": 'it("[A2] counts to three");',
    "apps/cli/bin/astra.mjs": 'console.log("seed 7: lost (I1) at 3 ms: run x"); process.exit(1);',
    "node_modules/vitest/vitest.mjs": fakeVitest,
  });
  const { folder, remove } = copyRepository(root);
  onTestFinished(remove);
  return folder;
}
const tryHere = (folder: string, changes: Partial<PlantedBug>) => tryBug(folder, { ...bug, ...changes }, { limitSeconds: 20 });

describe("one planted bug", () => {
  it("[H641] a planted bug that a test finds is caught, by the name of that test, and the file is as it was afterwards", async () => {
    const folder = createCopy();

    const verdict = await tryHere(folder, {});

    expect(verdict).toMatchObject({ outcome: "caught", by: "packages/a/src/product.test.ts: [A1] counts to two" });
    expect(readFileSync(join(folder, bug.file), "utf8")).toBe(product);
  });

  it("[H641] a planted bug that neither its tests nor the simulator find has survived, and one that only the simulator finds is caught by its violation", async () => {
    const folder = createCopy();

    expect(await tryHere(folder, { replace: "count = 3" })).toMatchObject({ outcome: "survived" });
    expect(await tryHere(folder, { replace: "count = 3", sim: ["--seeds", "1..9"] })).toMatchObject({
      outcome: "caught",
      by: "seed 7: lost (I1) at 3 ms: run x",
    });
  });

  it("[H641] the tests that cite the rule of a planted bug run first, then their whole files, and the others only where these find nothing", async () => {
    const folder = createCopy();
    const tests = ["packages/a/src/other.test.ts", ...bug.tests];

    await tryHere(folder, { tests });
    await tryHere(folder, { tests, replace: "count = 3" });

    const [citing, other] = [bug.tests[0], tests[0]];
    const cited = `\\[A1\\] of ${citing}`;
    expect(readFileSync(join(folder, "order.txt"), "utf8").trim().split("\n")).toEqual([
      cited,
      cited,
      `all of ${citing}`,
      `all of ${other}`,
    ]);
  });

  it("[H641] a planted bug whose tests do not end is ended from outside after its limit and reported as hung", async () => {
    const folder = createCopy();

    const verdict = await tryBug(folder, { ...bug, replace: "count = hang" }, { limitSeconds: 2 });

    expect(verdict).toMatchObject({ outcome: "hung", by: "no end within 2 s of packages/a/src/product.test.ts" });
    expect(readFileSync(join(folder, bug.file), "utf8")).toBe(product);
  });

  it("[H640] a planted bug whose text is missing, is there twice, or changes nothing is refused with its name", async () => {
    expect(() => plantBug("count = 2; count = 2;", bug)).toThrow("counts-three: its text occurs 2 times");
    expect(() => plantBug("count = 2", { ...bug, replace: bug.find })).toThrow("counts-three changes nothing");
    expect(await tryHere(createCopy(), { find: "count = 4" })).toMatchObject({ outcome: "not planted" });
  });

  it("[H641] the summary of planted bugs gives the share that was caught, names every other one, and fails unless all were caught", () => {
    const verdict = (id: string, outcome: Verdict["outcome"]): Verdict => ({ id, outcome, by: "x", seconds: 1 });

    expect(summarize([verdict("a", "caught"), verdict("b", "caught")])).toEqual({
      lines: ["2 planted bugs: 2 caught (100 %), 0 survived, 0 hung, 0 not planted"],
      exitCode: 0,
    });
    for (const outcome of ["survived", "hung", "not planted"] as const) {
      const { lines, exitCode } = summarize([verdict("a", "caught"), verdict("b", "caught"), verdict("c", outcome)]);
      expect(lines[0]).toBe(`${outcome}: c: x`);
      expect(lines[1]).toMatch(new RegExp(`^3 planted bugs: 2 caught \\(66\\.6 %\\),.* 1 ${outcome}`));
      expect(exitCode).toBe(1);
    }
    expect(summarize([]).exitCode).toBe(1);
  });
});
