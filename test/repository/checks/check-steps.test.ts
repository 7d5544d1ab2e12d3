import { describe, expect, it } from "vitest";
import { listSteps, runSteps } from "../../../scripts/check-steps.mjs";
import { writeTemporaryTree } from "../temporary-tree.ts";

const stepContext = { root: process.cwd(), node: process.execPath, env: process.env };

/** A step that runs a line of JavaScript. */
const nodeStep = (name: string, code: string) => ({ name, words: [process.execPath, "-e", code] });

describe("the steps of the check", () => {
  it("[H7] npm run check marks passed and failed steps and shows the output of failed steps only", async () => {
    const printed: string[] = [];

    const failed = await runSteps(
      [nodeStep("good", "console.log('quiet')"), nodeStep("bad", "console.error('loud'); process.exit(3)")],
      stepContext,
      (line) => printed.push(line),
    );

    expect(failed).toEqual(["bad"]);
    expect(printed.join("\n")).toMatch(/✓ good \(\d+\.\d s\)/);
    expect(printed.join("\n")).toMatch(/✗ bad \(\d+\.\d s\)\n {4}loud/);
    expect(printed.join("\n")).not.toContain("quiet");
  });

  it("[H7] a check step whose tool does not exist or was killed fails, and the other steps still run", async () => {
    const printed: string[] = [];

    const failed = await runSteps(
      [
        { name: "missing", words: ["no-such-tool-here"] },
        nodeStep("killed", "process.kill(process.pid, 'SIGKILL')"),
        nodeStep("good", "0"),
      ],
      stepContext,
      (line) => printed.push(line),
    );

    expect(failed.toSorted()).toEqual(["killed", "missing"]);
    expect(printed.join("\n")).toContain("no-such-tool-here could not be started");
    expect(printed.join("\n")).toContain("was ended by SIGKILL");
    expect(printed.join("\n")).toContain("✓ good");
  });

  it("[H7] npm run check runs two steps at a time", async () => {
    const root = writeTemporaryTree({ "a.txt": "" });
    // Each of the two waits for the file of the other: one after the other, the first would give up.
    const meet = (mine: string, other: string) =>
      `const fs = require("node:fs"); fs.writeFileSync(${JSON.stringify(mine)}, ""); let tries = 500; const wait = () => fs.existsSync(${JSON.stringify(other)}) || (tries-- > 0 ? setTimeout(wait, 10) : process.exit(1)); wait();`;

    const failed = await runSteps(
      [nodeStep("one", meet("1", "2")), nodeStep("two", meet("2", "1"))],
      { ...stepContext, root },
      () => 0,
    );

    expect(failed).toEqual([]);
  });

  it("[H7] npm run check checks the types of every package that has its own tsconfig.json", () => {
    const root = writeTemporaryTree({ "tsconfig.json": "{}", "apps/console/tsconfig.json": "{}", "apps/cli/package.json": "{}" });

    const names = listSteps({ root, node: "node" }).map(({ name }) => name);

    expect(names).toEqual([
      "types",
      "types of apps/console",
      "lint",
      "dead code",
      "format",
      "generated files",
      "layers",
      "folders",
      "purity",
      "silent failures",
      "docs",
    ]);
  });
});
