// The bank stays true: every bug still applies, names a rule and tests that exist. Whether the tests find it is asked by `npm run planted`.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readText, repositoryRoot } from "../../scripts/repository-files.ts";
import { bank } from "./bank/bank.ts";
import { plantBug } from "./planted-bug.ts";
import { findCitingTests } from "./try-bug.ts";

const bugs = Object.values(bank).flat();

describe("the bank of planted bugs", () => {
  it("[H640] every planted bug of the bank still applies: its text is in its file once, and another text takes its place", () => {
    const problems = bugs.flatMap((bug) => {
      try {
        return plantBug(readText(repositoryRoot, bug.file), bug) === "" ? [`${bug.id} leaves an empty file`] : [];
      } catch (problem) {
        return [problem instanceof Error ? problem.message : String(problem)];
      }
    });

    expect(problems).toEqual([]);
  });

  it("[H640] every planted bug has an id of its own, a rule of the specification, product code and tests that exist", () => {
    const rules = new Set([...readText(repositoryRoot, "docs/spec.md").matchAll(/^\| ([A-Z]\d+) \|/gm)].map(([, rule]) => rule));

    expect(new Set(bugs.map(({ id }) => id)).size).toBe(bugs.length);
    expect(bugs.filter(({ rule }) => !rules.has(rule)).map(({ id }) => id)).toEqual([]);
    expect(bugs.filter(({ file }) => !/^(packages|apps)\/[a-z-]+\/src\//.test(file)).map(({ id }) => id)).toEqual([]);
    expect(bugs.flatMap(({ tests }) => tests.filter((path) => !existsSync(join(repositoryRoot, path))))).toEqual([]);
    expect(bugs.filter(({ tests, sim }) => tests.length === 0 && sim === undefined).map(({ id }) => id)).toEqual([]);
  });

  it("[H640] every planted bug names a test that cites its rule, unless the simulator alone is to find it", () => {
    const uncited = bugs.filter(
      ({ rule, tests, sim }) =>
        !(tests.length === 0 && sim !== undefined) && findCitingTests(repositoryRoot, rule, tests).length === 0,
    );

    expect(uncited.map(({ id, rule }) => `${id} ${rule}`)).toEqual([]);
  });
});
