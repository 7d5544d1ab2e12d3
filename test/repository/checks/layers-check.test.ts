import { describe, expect, it } from "vitest";
import { checkLayers } from "../../../scripts/checks/layers.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

const manifest = (name: string, more: Record<string, unknown> = {}) => JSON.stringify({ name: `@astraflow/${name}`, ...more });
const dependencies = (...names: string[]) => Object.fromEntries(names.map((name) => [name, "0.1.0"]));

/** A small repository without problems. */
const validFiles = {
  "package.json": JSON.stringify({ devDependencies: dependencies("vitest") }),
  "packages/protocol/package.json": manifest("protocol", {
    exports: { ".": "./src/index.ts" },
    dependencies: dependencies("typebox"),
  }),
  "packages/protocol/src/index.ts": 'export { word } from "./word.ts";',
  "packages/protocol/src/word.ts": 'import Type from "typebox"; // not "@astraflow/engine"\nexport const word = Type;',
  "packages/engine/package.json": manifest("engine", {
    exports: { ".": "./src/index.ts", "./testing": "./src/testing.ts" },
    dependencies: dependencies("@astraflow/protocol"),
    devDependencies: dependencies("@astraflow/store"),
  }),
  "packages/engine/src/index.ts": 'import { word } from "@astraflow/protocol";\nexport { word };',
  "packages/engine/src/testing.ts": 'import { expect } from "vitest";\nexport const check = expect;',
  "packages/engine/src/a.test.ts": 'import { it } from "vitest"; import { open } from "@astraflow/store/testing"; it("a", open);',
  "packages/store/package.json": manifest("store", { dependencies: dependencies("@astraflow/engine") }),
  "packages/store/src/index.ts":
    'import { readFileSync } from "node:fs"; import { word } from "@astraflow/engine"; export { word, readFileSync };',
  "apps/cli/package.json": manifest("cli", { bin: { astra: "./bin/astra.mjs" } }),
  "apps/cli/src/index.ts": 'export const load = () => import("@astraflow/scheduler"); export const home = process.env.HOME;',
  "test/whole.test.ts": 'import { it } from "vitest"; import { word } from "@astraflow/engine"; it("a", () => word);',
};

/** The problems of that repository with some files changed. */
const checkWithFiles = (files: Record<string, string>) => checkLayers(writeTemporaryTree({ ...validFiles, ...files }));

describe("layers", () => {
  it("[H9] the layers check finds nothing in a valid repository", () => {
    expect(checkWithFiles({})).toEqual([]);
  });

  it("[H9] the layers check refuses a dependency that is not in its table, in an import and in a manifest", () => {
    const problems = checkWithFiles({
      "packages/protocol/package.json": manifest("protocol", { dependencies: dependencies("typebox", "@astraflow/engine") }),
      "packages/protocol/src/index.ts": 'export { word } from "./word.ts";\nexport type { T } from "@astraflow/engine";',
    });

    expect(problems).toEqual([
      "packages/protocol/package.json: declares protocol -> engine, which is not in the table (protocol may import no other package)",
      "packages/protocol/src/index.ts:2: uses protocol -> engine, which is not in the table (protocol may import no other package)",
    ]);
  });

  it("[H9] the layers check applies to tests too, except for the testing entry points", () => {
    const problems = checkWithFiles({ "packages/engine/src/b.test.ts": 'import { open } from "@astraflow/doors";' });

    expect(problems).toEqual([expect.stringContaining("packages/engine/src/b.test.ts:1: uses engine -> doors")]);
  });

  it("[H9] the layers check refuses a package that is not in its table and a package without a manifest", () => {
    const problems = checkWithFiles({ "packages/utils/package.json": manifest("utils"), "packages/graph/src/index.ts": "" });

    expect(problems).toEqual([
      expect.stringContaining("packages/graph: a package without a package.json"),
      expect.stringContaining("packages/utils: unknown package"),
    ]);
  });

  it("[H9] the layers check skips a package in another language, unless it has a package.json too", () => {
    const python = { "packages/models-python/pyproject.toml": "", "packages/models-python/tests/a.py": "import json" };

    expect(checkWithFiles(python)).toEqual([]);
    expect(checkWithFiles({ ...python, "packages/models-python/package.json": manifest("models-python") })).toHaveLength(1);
  });

  it("[H9] the layers check refuses an import of a package that does not exist", () => {
    expect(checkWithFiles({ "test/b.test.ts": 'import "@astraflow/attic";' })).toEqual([
      expect.stringContaining("not in the table"),
    ]);
  });

  it("[H10] the layers check refuses deep imports and relative imports into another package", () => {
    const problems = checkWithFiles({
      "packages/store/src/deep.ts": 'import { a } from "@astraflow/engine/src/a.ts";',
      "packages/store/src/wall.ts": 'import { a } from "../../engine/src/a.ts";',
      "test/wall.test.ts": 'const a = await import("../packages/engine/src/a.ts");',
      "packages/store/src/machine.ts": 'import "/opt/a.ts";',
    });

    expect(problems).toEqual([
      'packages/store/src/deep.ts:1: "@astraflow/engine/src/a.ts" is a deep import; import @astraflow/engine',
      'packages/store/src/machine.ts:1: "/opt/a.ts" is a path of one machine; import by name',
      'packages/store/src/wall.ts:1: "../../engine/src/a.ts" is a relative import into another package; import packages/engine by its name',
      'test/wall.test.ts:1: "../packages/engine/src/a.ts" is a relative import into another package; import packages/engine by its name',
    ]);
  });

  it("[H10] the layers check allows testing entry points and test support in tests only", () => {
    const problems = checkWithFiles({
      "packages/store/src/a.ts": 'import { open } from "@astraflow/engine/testing";',
      "packages/store/src/b.ts": 'import { suite } from "./contract/suite.ts";',
      "packages/store/src/b.test.ts": 'import { suite } from "./contract/suite.ts";',
    });

    expect(problems).toEqual([
      'packages/store/src/a.ts:1: "@astraflow/engine/testing" is for tests only, and this file is not a test',
      'packages/store/src/b.ts:1: "./contract/suite.ts" is for tests only, and this file is not a test',
    ]);
  });

  it("[H10] the layers check refuses additional entry points and an entry point that uses export *", () => {
    const problems = checkWithFiles({
      "packages/store/package.json": manifest("store", {
        exports: { ".": "./src/index.ts", "./sqlite": "./src/sqlite.ts" },
        dependencies: dependencies("@astraflow/engine"),
      }),
      "packages/protocol/src/index.ts": 'export * from "./word.ts";',
    });

    expect(problems).toEqual([
      expect.stringContaining("lists every export by name"),
      'packages/store/package.json: exports "./sqlite"; a package has the entry points "." and "./testing"',
    ]);
  });

  it("[H11] the layers check refuses unused and undeclared dependencies and regular dependencies that only tests use", () => {
    const problems = checkWithFiles({
      "packages/store/package.json": manifest("store", { dependencies: dependencies("@astraflow/engine", "pg", "fast-check") }),
      "packages/store/src/a.ts": 'import { b } from "undeclared/deep/file.js";\nimport c from "@scope/pack/x";',
      "packages/store/src/a.test.ts": 'import fc from "fast-check";',
      "test/b.test.ts": 'import "ws";',
    });

    expect(problems).toEqual([
      "packages/store/src/a.ts:1: imports undeclared, which packages/store/package.json does not declare",
      "packages/store/src/a.ts:2: imports @scope/pack, which packages/store/package.json does not declare",
      "packages/store/package.json: declares pg, which nothing in packages/store imports",
      "packages/store/package.json: fast-check is used by tests only; declare it in devDependencies",
      "test/b.test.ts:1: imports ws, which package.json does not declare",
    ]);
  });

  it("[H9] the layers check allows only the CLI to import other apps, and only lazily", () => {
    const problems = checkWithFiles({
      "apps/cli/src/b.ts": 'import { main } from "@astraflow/scheduler";',
      "apps/worker/package.json": manifest("worker"),
      "apps/worker/src/index.ts": 'export const a = () => import("@astraflow/scheduler");',
    });

    expect(problems).toEqual([
      expect.stringContaining('apps/cli/src/b.ts:1: "@astraflow/scheduler" is loaded at once'),
      expect.stringContaining("apps/worker/src/index.ts:1: uses worker -> scheduler"),
    ]);
  });

  it("[H12] the layers check refuses process.env, import.meta.main and a bin entry in library packages", () => {
    const problems = checkWithFiles({
      "packages/engine/package.json": manifest("engine", {
        bin: "./x.mjs",
        dependencies: dependencies("@astraflow/protocol"),
        devDependencies: dependencies("@astraflow/store"),
      }),
      "packages/engine/src/a.ts": [
        "const a = process.env.HOME;",
        'const b = process["env"];',
        "const { env } = process;",
        'import { env as c } from "node:process";',
        "if (import.meta.main) run();",
        "const fine = { process: 1 }.process; // process.env",
        "process.nextTick(run);",
      ].join("\n"),
      "packages/engine/src/a.test.ts": 'import { open } from "@astraflow/store/testing"; open(process.env.HOME);',
    });

    expect(problems.map((problem) => problem.split(":").slice(0, 2).join(":"))).toEqual([
      "packages/engine/package.json: has a main or bin; packages are libraries, programs live in apps",
      "packages/engine/src/a.ts:1",
      "packages/engine/src/a.ts:2",
      "packages/engine/src/a.ts:3",
      "packages/engine/src/a.ts:5",
      "packages/engine/src/a.ts:4",
    ]);
  });
});
