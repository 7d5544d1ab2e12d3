import { describe, expect, it } from "vitest";
import { checkFolders } from "../../../scripts/checks/folders.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

/** Two packages without any problem: `runs` imports `tasks`, and the entry point imports both. */
const validFiles = {
  "packages/engine/src/index.ts": 'export { start } from "./runs/start.ts";\nexport { take } from "./tasks/take.ts";',
  "packages/engine/src/runs/start.ts":
    'import type { Task } from "../tasks/take.ts";\nexport const start = (task: Task) => task;',
  "packages/engine/src/tasks/take.ts": 'export interface Task { id: string }\nexport const take = "../runs/start.ts";',
  "packages/engine/src/tasks/take.test.ts": 'import { start } from "../runs/start.ts";\nimport { take } from "./take.ts";',
  "apps/cli/src/index.ts": "export interface Flags { json: boolean }",
};
const checkWithFiles = (files: Record<string, string>) => checkFolders(writeTemporaryTree({ ...validFiles, ...files }));

describe("folders", () => {
  it("[H18] the folders check accepts imports that go one way, whatever entry points and tests import", () => {
    expect(checkWithFiles({})).toEqual([]);
  });

  it("[H18] the folders check reports folders that import each other, also through types or a third folder", () => {
    const direct = checkWithFiles({
      "packages/engine/src/tasks/take.ts": 'import type { Run } from "../runs/run.ts";\nexport interface Task { run: Run }',
    });
    const indirect = checkWithFiles({
      "packages/engine/src/tasks/take.ts": 'export { now } from "../clock/now.ts";\nexport interface Task { id: string }',
      "packages/engine/src/clock/now.ts": 'export const now = () => import("../runs/start.ts");',
    });

    expect(direct).toEqual([
      "these folders import each other in a cycle: packages/engine/src/runs -> packages/engine/src/tasks (start.ts), packages/engine/src/tasks -> packages/engine/src/runs (take.ts)",
    ]);
    expect(indirect).toEqual([expect.stringContaining("packages/engine/src/clock -> packages/engine/src/runs (now.ts)")]);
  });

  it("[H18] the folders check covers the scripts folder too", () => {
    const problems = checkWithFiles({
      "scripts/gen.ts": 'import "./checks/layers.ts";',
      "scripts/checks/layers.ts": 'import "../gen.ts";',
    });

    expect(problems).toEqual([expect.stringContaining("scripts -> scripts/checks (gen.ts)")]);
  });

  it("[H19] the folders check reports a folder with more than 20 source files and does not count unit tests", () => {
    const files = (count: number, folder: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`${folder}/file-${at}.ts`, ""]));

    expect(checkWithFiles({ ...files(20, "packages/engine/src/many"), "packages/engine/src/many/a.test.ts": "" })).toEqual([]);
    expect(checkWithFiles(files(21, "packages/engine/src/many"))).toEqual([
      "packages/engine/src/many: has 21 files, more than 20; group them in folders by what they are about",
    ]);
    expect(checkWithFiles(files(21, "test/system"))).toEqual([expect.stringContaining("test/system: has 21 files")]);
  });

  it("[H20] the folders check reports a type name that two packages export, but not one that only one of them exports", () => {
    const local = "interface Task { id: string }\nexport interface TaskFlags { id: string }";

    expect(checkWithFiles({ "apps/cli/src/task.ts": local })).toEqual([]);
    expect(checkWithFiles({ "apps/cli/src/task.ts": "export type Task = string;" })).toEqual([
      "type Task is exported by apps/cli/src/task.ts and packages/engine/src/tasks/take.ts; a type name belongs to one package",
    ]);
    expect(checkWithFiles({ "apps/cli/src/task.ts": "export abstract class Task {}" })).toHaveLength(1);
  });
});
