import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildPrograms } from "../../scripts/build.ts";
import { repositoryRoot } from "../../scripts/repository-files.ts";

const folder = join(repositoryRoot, "var", `build-test-${process.pid}`);
let program = "";

beforeAll(async () => {
  program = await buildPrograms(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

it.each(["scheduler", "worker", "sim"])("[H24] the built `astra %s` runs without loading a source file", (command) => {
  const listLoaded = join(folder, "list-loaded.mjs");
  writeFileSync(
    listLoaded,
    `import { registerHooks } from "node:module";
const loaded = [];
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
process.on("exit", () => console.error(loaded.join("\\n")));`,
  );

  const output = execFileSync(
    "sh",
    ["-c", `"$0" --import "$1" "$2" ${command} --help 2>&1`, process.execPath, listLoaded, program],
    {
      encoding: "utf8",
    },
  );

  expect(output).toContain(`astra ${command}`);
  expect(output).toContain("/astra.mjs");
  expect(output.match(/\S+\.ts$/gm)).toBeNull();
});
