import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { createWatchdog, describeProgress, type ProgressNote, readProgress } from "../../scripts/test-watchdog.mjs";
import { createCheckout, startScript, waitForEnd } from "./miniature-checkout.ts";
import { writeTemporaryTree } from "./temporary-tree.ts";

const second = 1_000;
const note = (changes: Partial<ProgressNote> = {}): string =>
  JSON.stringify({ file: "/r/a.test.ts", fileSince: 0, title: "[L1] loops", since: 0, isEnded: false, ...changes });

/** A vitest whose only test loops for ever; it leaves the note that the real one would leave. */
const hangingVitest = `
import { writeFileSync } from "node:fs";
const note = { file: process.cwd() + "/packages/a.test.ts", fileSince: Date.now(), title: "[L1] loops", since: Date.now(), isEnded: false };
writeFileSync(process.env.ASTRA_TEST_PROGRESS + "/" + process.pid + ".json", JSON.stringify(note));
for (;;);
`;

describe("the watchdog of npm test", () => {
  it("[H642] npm test names the file and the test that loop for ever, ends the run after the limit of a file and exits with 1", async () => {
    const checkout = createCheckout({ isReady: true, files: { "node_modules/vitest/vitest.mjs": hangingVitest } });
    checkout.env["ASTRA_TEST_FILE_LIMIT"] = "2";

    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages"]));

    expect(ended.stdout).toMatch(/^hung: packages\/a\.test\.ts: test \[L1\] loops has run \d+ s; the limit is 2 s$/m);
    expect(ended.stdout.trimEnd().split("\n").at(-1)).toBe("0 passed, 1 failed");
    expect(ended.code).toBe(1);
  });

  it("[H642] a process of the test runner notes its file and test where a parent reads it, although the test never returns", async () => {
    const root = writeTemporaryTree({
      "vitest.config.mjs": `export default { test: { globals: true, setupFiles: [${JSON.stringify(join(repositoryRoot, "scripts/test-progress.ts"))}] } };`,
      "a.test.ts": 'it("one", () => {}); describe("group", () => { it("[L1] loops", () => { for (;;); }); });',
    });
    mkdirSync(join(root, "progress"));
    const words = [join(repositoryRoot, "node_modules/vitest/vitest.mjs"), "run", "--root", root];
    const env = { ...process.env, ASTRA_TEST_PROGRESS: join(root, "progress"), ASTRA_TEST_COUNTS: "", ASTRA_TEST_TITLES: "" };
    const child = spawn(process.execPath, words, { env, stdio: "ignore" });
    onTestFinished(() => {
      for (const { process: id } of readProgress(join(root, "progress"))) process.kill(id, "SIGKILL");
      child.kill("SIGKILL");
    });

    await expect
      .poll(() => readProgress(join(root, "progress")).map((one) => describeProgress(one, root, one.since)), { timeout: 100_000 })
      .toEqual([expect.stringMatching(/^a\.test\.ts: test group > \[L1\] loops has run 0 s/)]);
  });

  it("[H642] the watchdog names a slow test once per period, tells hooks from tests, and leaves files alone that have ended", () => {
    const folder = writeTemporaryTree({ "1.json": note(), "2.json": note({ title: null, since: 30 * second }) });
    const watchdog = createWatchdog({ folder, root: "/r", fileLimitMs: 600 * second, namedAfterMs: 60 * second });

    expect(watchdog.look(59 * second)).toEqual({ lines: [], hanging: [] });
    expect(watchdog.look(61 * second).lines).toEqual(["a.test.ts: test [L1] loops has run 61 s"]);
    expect(watchdog.look(62 * second).lines).toEqual([]);
    writeFileSync(join(folder, "1.json"), note({ isEnded: true }));
    expect(watchdog.look(125 * second).lines).toEqual([
      "a.test.ts: a hook, or what is outside of tests, has run 95 s, its file 125 s",
    ]);
    expect(watchdog.look(599 * second).hanging).toEqual([]);
    expect(watchdog.look(600 * second).hanging.map(({ process: id }) => id)).toEqual([2]);
  });

  it("[H642] the watchdog skips a note that is being written and reads it at the next look", () => {
    const folder = writeTemporaryTree({ "1.json": note().slice(0, 20), "2.json": "", "other.txt": "x" });

    expect(readProgress(folder)).toEqual([]);
    writeFileSync(join(folder, "1.json"), note());
    expect(readProgress(folder)).toMatchObject([{ process: 1, title: "[L1] loops" }]);
  });
});
