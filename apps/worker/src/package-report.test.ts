import type { LoadedPackagesSummary } from "@astraflow/runtime";
import { expect, it } from "vitest";
import { countPackages, describeMissingPackages, findManifestWarnings } from "./package-report.ts";

const summary = (loaded: readonly string[], failed: readonly string[]): LoadedPackagesSummary => ({
  packages: loaded.map((dir) => ({ name: "words", version: "1.0.0", dir: `p/${dir}`, manifestJson: {}, nodeTypes: [] })),
  problems: failed.map((dir) => ({ dir: `p/${dir}`, code: "E.PKG.INVALID", message: `${dir} is broken` })),
});

it("[W831] the ready line of a worker warns of every package that cannot be loaded, and counts those that can", () => {
  const some = summary(["a"], ["b", "b", "c", "d"]);

  expect(describeMissingPackages(some, "p")).toEqual({
    warning: "3 of 4 packages cannot be loaded: b: b is broken; 3 more problems are in the log",
  });
  expect(countPackages(some)).toBe("1 package is loaded, 3 are not");
  expect(describeMissingPackages(summary(["a"], ["a", "b"]), "p").warning).toMatch(/^1 of 2 packages cannot be loaded: b: /);
});

it("[W831] the ready line of a worker says nothing of packages that are all loaded, and names a node that cannot be run", () => {
  expect(describeMissingPackages(summary(["a", "b"], []), "p")).toEqual({});
  expect(countPackages(summary(["a", "b"], []))).toBe("2 packages are loaded");
  expect(describeMissingPackages(summary(["a"], ["a"]), "p")).toEqual({
    warning: "some nodes of the packages cannot be run: a: a is broken",
  });
});

it("[W832] the worker warns of a manifest's unknown fields with the nearest known name", () => {
  const manifestJson = { name: "words", descripton: "x", nodes: [{ type: "words.a", lable: "A" }] };
  const { packages, problems } = summary(["a"], []);

  expect(findManifestWarnings({ problems, packages: packages.map((one) => ({ ...one, manifestJson })) })).toEqual([
    { dir: "p/a", message: expect.stringMatching(/^manifest\.descripton is not a known field .*did you mean description\?$/) },
    { dir: "p/a", message: expect.stringMatching(/^manifest\.nodes\.0\.lable .*did you mean label\?$/) },
  ]);
});
