// Runs the official JSON Schema Test Suite. Cases that we answer differently are listed in unsupported.json, and the guide lists their features.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { findSchemaProblem } from "../plan/node-schemas.ts";

interface CaseGroup {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
}
type Draft = "draft2020-12" | "draft7";
type CasesByFile = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

// Parsed, not imported: an imported file becomes JavaScript, in which the key __proto__ sets the prototype.
const readFixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../fixtures/json-schema-suite/${name}.json`, import.meta.url), "utf8"));
const drafts = ["draft2020-12", "draft7"] as const;
const readSuite = (draft: Draft) => readFixture(draft) as Record<string, readonly CaseGroup[]>;
const suites: Record<Draft, Record<string, readonly CaseGroup[]>> = {
  "draft2020-12": readSuite("draft2020-12"),
  draft7: readSuite("draft7"),
};
const features = Object.entries(
  readFixture("unsupported") as Record<string, { reason: string } & Partial<Record<Draft, CasesByFile>>>,
);
const files = drafts.flatMap((draft) => Object.entries(suites[draft]).map(([file, groups]) => ({ draft, file, groups })));

const listedCases = (draft: Draft, file: string): string[] =>
  features.flatMap(([, cases]) =>
    Object.entries(cases[draft]?.[file] ?? {}).flatMap(([group, names]) => names.map((name) => `${group} / ${name}`)),
  );

describe("the official JSON Schema Test Suite", () => {
  it.each(files)(
    "[G12] the schema validator answers $draft $file as the JSON Schema Test Suite expects, except for the cases listed as unsupported",
    (one) => {
      const different = one.groups.flatMap(({ description, schema, tests }) =>
        tests
          .filter(({ data, valid }) => (findSchemaProblem(schema, data) === null) !== valid)
          .map((test) => `${description} / ${test.description}`),
      );

      expect(different.toSorted()).toEqual(listedCases(one.draft, one.file).toSorted());
    },
  );

  it("[G12] the JSON Schema Test Suite is complete, and the cases listed as unsupported are in files of the suite", () => {
    const count = (draft: Draft) =>
      Object.values(suites[draft]).reduce((sum, groups) => sum + groups.reduce((cases, { tests }) => cases + tests.length, 0), 0);
    const listedFiles = features.flatMap(([, cases]) =>
      drafts.flatMap((draft) => Object.keys(cases[draft] ?? {}).map((file) => ({ draft, file }))),
    );

    expect([count("draft2020-12"), count("draft7")]).toEqual([1257, 913]);
    expect(listedFiles.filter(({ draft, file }) => !(file in suites[draft]))).toEqual([]);
  });

  it("[G12] the unsupported JSON Schema features are exactly those that the guide lists, with the same reasons", () => {
    const guide = readFileSync(new URL("../../../../docs/guides/workflows.md", import.meta.url), "utf8");
    const table = guide.split("| JSON Schema feature | what happens |\n|---|---|\n")[1]?.split("\n\n")[0];

    expect(table?.trim().split("\n")).toEqual(features.map(([feature, { reason }]) => `| ${feature} | ${reason} |`));
  });
});
