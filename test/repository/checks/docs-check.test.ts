import { describe, expect, it } from "vitest";
import { findUnreportedTitles } from "../../../scripts/checks/cited-titles.ts";
import { checkDocs } from "../../../scripts/checks/docs.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

const spec = `# Spec

| id | rule |
|---|---|
| L1 | A lease ends. |
| L2 | Written as a row, (planned). |

- **Q1** Queues are fair.

R3 is a rule of its own paragraph.
Words that wrap and begin with
X9 are no rule.

\`\`\`
Z1 stands in an example
\`\`\`
`;
const tests = `
it("[L1] ends a lease", run);
describe("[Q1] fair queues", () => { it(\`[Q1] is fair on \${store} today\`, run); });
it.each([["a", (x) => x]])("[R3] knows %s as a word", run);
// it("[L9] in a comment", run);
`;
const row = (...cells: string[]) => `| ${cells.join(" | ")} |`;
const table = (...rows: string[]) =>
  ["# Requirements", "", "| id | section | requirement | rule | test | state |", "|---|---|---|---|---|---|", ...rows, ""].join(
    "\n",
  );
const met = row("R2-001", "1", "Leases end \\| or not", "L1", "[L1] ends a lease", "met");

const validFiles = {
  "docs/spec.md": spec,
  "docs/requirements.md": table(met),
  "packages/a/src/a.test.ts": tests,
  "CONTRIBUTING.md": row("packages/a", "leases", "nothing"),
  "packages/a/src/lease.ts": "export const endLease = 1;",
  "docs/architecture.md": ["## Glossary", "", row("word", "meaning"), "|---|---|", row("lease", "…")].join("\n"),
  "docs/walk.md": "1. `packages/a/src/lease.ts`: `endLease`",
};
const checkWithFiles = (files: Record<string, string>) => checkDocs(writeTemporaryTree({ ...validFiles, ...files }));
const checkWithRow = (...cells: string[]) => checkWithFiles({ "docs/requirements.md": table(met, row(...cells)) });

describe("the rules of the spec", () => {
  it("[H15] the docs check accepts a spec in which each rule has a test and each cited rule exists", () => {
    expect(checkWithFiles({})).toEqual([]);
  });

  it("[H15] the docs check reports a test that cites a rule the spec does not have", () => {
    expect(checkWithFiles({ "test/b.test.ts": 'it("[L1, L7] ends twice", run);' })).toEqual([
      "test/b.test.ts:1: cites rule L7, which docs/spec.md does not have",
    ]);
  });

  it("[H15] the docs check reports a rule that no test cites, unless it is marked as planned", () => {
    expect(checkWithFiles({ "docs/spec.md": `${spec}\n| L8 | Untested. |\n` })).toEqual([
      expect.stringContaining("no test title begins with [L8]"),
    ]);
  });

  it("[H15] the docs check reports a rule that is marked as planned although a test cites it", () => {
    expect(checkWithFiles({ "test/b.test.ts": 'it("[L2] is here", run);' })).toEqual([
      expect.stringContaining("marked (planned), but a test"),
    ]);
  });

  it("[H15] the docs check reports a rule that is in the spec twice", () => {
    expect(checkWithFiles({ "docs/spec.md": `${spec}\n- L1: again\n` })).toEqual([
      expect.stringContaining("rule L1 is already on line 5"),
    ]);
  });
});

describe("the rows of the requirements", () => {
  it("[H25] a requirements row that cites a computed title no run reported is accepted from the sources and reported after a run", () => {
    const cited = ["[Q1] is fair on sqlite today", "[Q1] is fair on paper today"].join("<br>");
    const requirements = table(
      met,
      row("R2-002", "1", "Fair", "Q1", cited, "met"),
      row("R2-003", "1", "Later", "", "", "not yet"),
    );
    const reported = new Set(["[L1] ends a lease", "[Q1] fair queues", "[Q1] is fair on sqlite today"]);

    expect(checkWithFiles({ "docs/requirements.md": requirements })).toEqual([]);
    expect(findUnreportedTitles(requirements, reported)).toEqual([
      'docs/requirements.md:6: R2-002 names a test that did not run: "[Q1] is fair on paper today"',
    ]);
    expect(findUnreportedTitles(table(met), reported)).toEqual([]);
  });

  it("[H25] a requirements row that cites the template of a computed title is reported without a run", () => {
    expect(checkWithRow("R2-002", "1", "Fair", "R3", "[R3] knows %s as a word", "met")).toEqual([
      'docs/requirements.md:6: R2-002 names the template of a title; write one that a run reports: "[R3] knows %s as a word"',
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "Q1", "[Q1] is fair on ${store} today", "met")).toHaveLength(1);
  });

  it("[H26] a met row of the seeds about the wire must cite a test over a socket, through the API, or of what both ends run", () => {
    const system = { "test/system/leases.test.ts": 'it("[L1] ends a lease over a socket", run);' };
    const checkSeed = (seed: number, test: string) =>
      checkWithFiles({ ...system, "docs/requirements.md": table(row(`R${seed}-001`, "1", "Leases end", "L1", test, "met")) });

    for (const seed of [0, 1]) {
      expect(checkSeed(seed, "[L1] ends a lease")).toEqual([
        expect.stringContaining(`R${seed}-001 is met, so one of its tests must go over a socket`),
      ]);
      expect(checkSeed(seed, "[L1] ends a lease<br>[L1] ends a lease over a socket")).toEqual([]);
    }
    expect(checkSeed(2, "[L1] ends a lease")).toEqual([]);
  });

  it("[H16] a requirements row may name a test whose title is partly computed", () => {
    expect(checkWithRow("R2-002", "1", "Fair", "Q1", "[Q1] is fair on sqlite today", "met")).toEqual([]);
    expect(checkWithRow("R2-002", "1", "Fair", "R3", "`[R3] knows this as a word`", "met")).toEqual([]);
    expect(checkWithRow("R2-002", "1", "Fair", "Q1, L1", "[Q1] fair queues<br>[L1] ends a lease", "met")).toEqual([]);
  });

  it("[H16] the docs check reports a requirements row that names a missing test or rule, whatever the state of the row", () => {
    expect(checkWithRow("R2-002", "1", "Fair", "L1", "[L1] ends", "met")).toEqual([
      expect.stringContaining('does not exist: "[L1] ends"'),
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "", "[L1] ends a lease!", "not yet")).toEqual([
      expect.stringContaining("does not exist"),
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "K1", "", "not yet")).toEqual([expect.stringContaining("names rule K1")]);
  });

  it("[H16] a requirements row with the state met needs a rule and a test, and the rule must not be only planned", () => {
    expect(checkWithRow("R2-002", "1", "Fair", "", "[L1] ends a lease", "met")).toEqual([
      expect.stringContaining("needs a rule and a test"),
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "L1", "", "met")).toEqual([expect.stringContaining("needs a rule and a test")]);
    expect(checkWithRow("R2-002", "1", "Fair", "L2", "[L1] ends a lease", "met")).toEqual([
      expect.stringContaining("only planned"),
    ]);
  });

  it("[H16] a requirements row has one of three states, and 'decided otherwise' needs a reason", () => {
    expect(checkWithRow("R2-002", "1", "Fair", "", "", "decided otherwise: it is a drawing")).toEqual([]);
    expect(checkWithRow("R2-002", "1", "Fair", "", "", "not yet")).toEqual([]);
    expect(checkWithRow("R2-002", "1", "Fair", "", "", "decided otherwise:")).toEqual([
      expect.stringContaining("without a reason"),
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "", "", "decided otherwise")).toEqual([
      expect.stringContaining("without a reason"),
    ]);
    expect(checkWithRow("R2-002", "1", "Fair", "", "", "done")).toEqual([expect.stringContaining('the state "done"')]);
  });

  it("[H16] the requirements table has the agreed columns, and each row has six cells and a unique id", () => {
    expect(checkWithRow("R2-002", "1", "a | b", "", "", "not yet")).toEqual([expect.stringContaining("7 cells in place of 6")]);
    expect(checkWithRow("R2-001", "1", "again", "", "", "not yet")).toEqual([expect.stringContaining("R2-001 is used twice")]);
    expect(checkWithFiles({ "docs/requirements.md": "| id | what |\n|---|---|\n| 1 | a |\n" })).toEqual([
      expect.stringContaining("the columns are id | section"),
      expect.stringContaining("no table with the columns"),
    ]);
  });

  it("[H16] the docs check ignores other tables in docs/requirements.md", () => {
    expect(checkWithFiles({ "docs/requirements.md": `${table(met)}\n| seed | rows |\n|---|---|\n| 000 | 1 |\n` })).toEqual([]);
  });
});

describe("the documents", () => {
  it("[H15] the docs check names each missing document", () => {
    const problems = checkDocs(writeTemporaryTree({ "packages/a/src/a.test.ts": tests }));

    expect(problems).toEqual([
      expect.stringContaining("docs/spec.md is missing"),
      expect.stringContaining("docs/requirements.md is missing"),
      expect.stringContaining("CONTRIBUTING.md is missing"),
      expect.stringContaining("docs/architecture.md is missing"),
      expect.stringContaining("docs/walk.md is missing"),
    ]);
  });

  it("[H17] the docs check reports documents and sources that mention a place outside the repository", () => {
    const args = [
      ["..", "shared", "x.md"].join("/"),
      ["see ", "work", "main"].join("/"),
      ["", "tmp", "bash_1"].join("/"),
      ["registry", "npmjs.org"].join("."),
    ];

    for (const mention of args) {
      expect(checkWithFiles({ "docs/a.md": `one\n${mention}\n` })).toEqual([expect.stringMatching(/^docs\/a\.md:2: mentions /)]);
      expect(checkWithFiles({ "packages/a/src/a.ts": `// ${mention}` })).toHaveLength(1);
    }
    expect(
      checkWithFiles({ "package-lock.json": args.join("\n"), "docs/a.md": "packages/a/work/b and https://host/work/x" }),
    ).toEqual([]);
  });
});
