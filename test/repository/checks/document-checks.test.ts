// The checks of single documents: the table of packages, the glossary, the walk through the code.
import { describe, expect, it } from "vitest";
import { checkGlossary } from "../../../scripts/checks/glossary.ts";
import { checkPackageTable } from "../../../scripts/checks/package-table.ts";
import { checkWalk } from "../../../scripts/checks/walk.ts";
import { repositoryRoot } from "../../../scripts/repository-files.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

const sources = {
  "packages/engine/src/lease.ts": "export interface DeadLetter { until: number }\nexport const endLease = () => runs.commit();",
  "packages/engine/src/lease.test.ts": "const seat = 1; // only a test has this word",
};

describe("the table of packages", () => {
  const table = (...rows: string[]) => ["| package | holds | may import |", "|---|---|---|", ...rows].join("\n");
  const checkRows = (...rows: string[]) =>
    checkPackageTable(
      writeTemporaryTree({ "packages/graph/src/a.ts": "", "apps/cli/src/a.ts": "", "CONTRIBUTING.md": table(...rows) }),
    );
  const valid = [
    "| packages/graph | workflows | protocol |",
    "| apps/cli | the CLI | protocol, archive, settings, graph, client |",
  ];

  it("[H21] the package table in CONTRIBUTING.md matches the packages of this repository", () => {
    expect(checkPackageTable(repositoryRoot)).toEqual([]);
  });

  it("[H21] the package table must have a row for every package and none for a package that does not exist", () => {
    expect(checkRows(...valid)).toEqual([]);
    expect(checkRows(...valid.slice(1))).toEqual(["CONTRIBUTING.md: the table of packages has no row for packages/graph"]);
    expect(checkRows(...valid, "| packages/tools | tools | protocol |")).toEqual([
      "CONTRIBUTING.md: the table of packages has a row for packages/tools, which does not exist",
    ]);
  });

  it("[H21] the package table must list the same allowed imports as the layers check", () => {
    expect(checkRows("| packages/graph | workflows | engine |", ...valid.slice(1))).toEqual([
      "CONTRIBUTING.md: says that packages/graph may import engine; scripts/checks/layers.ts says protocol",
    ]);
  });
});

describe("the glossary", () => {
  const checkWords = (...words: string[]) =>
    checkGlossary(
      writeTemporaryTree({
        ...sources,
        "docs/architecture.md": [
          "## Glossary",
          "",
          "| word | meaning |",
          "|---|---|",
          ...words.map((word) => `| ${word} | … |`),
          "",
          "## Design",
          "| seat | this table is no glossary |",
        ].join("\n"),
      }),
    );

  it("[H22] the glossary check accepts a term of one or two words, in the singular, that occurs in identifiers", () => {
    expect(checkWords("lease", "dead letter", "run")).toEqual([]);
  });

  it("[H22] the glossary check reports a term that occurs only in tests or only as part of a longer word in identifiers", () => {
    expect(checkWords("lease", "seat")).toEqual(['docs/architecture.md:6: no identifier of the code contains "seat"']);
    expect(checkWords("ease")).toEqual([expect.stringContaining('contains "ease"')]);
  });

  it("[H22] the glossary check reports a repeated term, more than 35 terms and a missing glossary", () => {
    expect(checkWords("lease", "Lease")).toEqual([expect.stringContaining("in the glossary twice")]);
    expect(checkWords(...Array.from({ length: 36 }, () => "lease"))).toContain(
      "docs/architecture.md: the glossary has 36 words, more than 35; give the others plainer names",
    );
    expect(checkWords(...Array.from({ length: 35 }, () => "lease")).join()).not.toContain("more than 35");
    expect(checkWords()).toEqual(['docs/architecture.md: has no table under "## Glossary"']);
    expect(checkGlossary(writeTemporaryTree(sources))).toEqual([expect.stringContaining("docs/architecture.md is missing")]);
  });
});

describe("the walk through the code", () => {
  const checkSteps = (...steps: string[]) =>
    checkWalk(
      writeTemporaryTree({ ...sources, "docs/walk.md": ["# A run", "", ...steps, "`nothing` here is checked"].join("\n") }),
    );
  const step = "1. `packages/engine/src/lease.ts`: `endLease()` calls `runs.commit` and makes a `DeadLetter`.";

  it("[H23] a step in docs/walk.md may name functions, members and types of the file it begins with", () => {
    expect(checkSteps(step)).toEqual([]);
  });

  it("[H23] the check of docs/walk.md reports a file or a symbol that does not exist", () => {
    expect(checkSteps(step, "2. `packages/engine/src/gone.ts`: `endLease`")).toEqual([
      "docs/walk.md:4: packages/engine/src/gone.ts does not exist",
    ]);
    expect(checkSteps("1. `packages/engine/src/lease.ts`: `beginLease()` and `runs.rollback`")).toEqual([
      "docs/walk.md:3: packages/engine/src/lease.ts has no beginLease",
      "docs/walk.md:3: packages/engine/src/lease.ts has no rollback",
    ]);
  });

  it("[H23] the check of docs/walk.md reports a step without a file or a symbol, a walk without steps and a missing walk", () => {
    expect(checkSteps("1. Then `endLease` is called.")).toEqual([expect.stringContaining("begins with a file in backquotes")]);
    expect(checkSteps("1. `packages/engine/src/lease.ts` does it.")).toEqual([expect.stringContaining("names no symbol of")]);
    expect(checkSteps("Nothing is numbered.")).toEqual(["docs/walk.md: has no numbered steps"]);
    expect(checkWalk(writeTemporaryTree(sources))).toEqual([expect.stringContaining("docs/walk.md is missing")]);
  });
});
