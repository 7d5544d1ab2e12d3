/**
 * `npm test`: set-up, then the checks and every test side by side. The last line is always `N passed, N failed` (with `, N skipped`).
 * `npm test -- packages/store` runs the tests below a path only, and leaves the checks out.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listSteps, runSteps } from "./check-steps.mjs";
import { root, setUpOrExplain } from "./setup.mjs";
import { judgeRun } from "./test-verdict.mjs";
import { createWatchdog, describeProgress } from "./test-watchdog.mjs";

/** For one file of tests, in seconds; several times what the longest takes on two busy cores. */
const fileLimitMs = 1000 * Number(process.env["ASTRA_TEST_FILE_LIMIT"] || 600);
const lookEveryMs = 1000;
/** Days since 1970: chooses the seeds that the simulator plays today. */
const simulatorDay = process.env["ASTRA_SIM_DAY"] || String(Math.floor(Date.now() / 86_400_000));

/** Ends the test runner once a file hangs, and returns what hung. The runner waits for its processes, so the one that hangs goes first.
 * @type {(child: import("node:child_process").ChildProcess, folder: string) => { stop: () => string[] }} */
function guardRunner(child, folder) {
  const watchdog = createWatchdog({ folder, root, fileLimitMs, namedAfterMs: 60_000 });
  /** @type {string[]} */
  const hung = [];
  const timer = setInterval(() => {
    const now = Date.now();
    const { lines, hanging } = watchdog.look(now);
    for (const line of lines) console.log(line);
    if (hanging.length === 0 || hung.length > 0) return;
    for (const one of hanging) {
      hung.push(`${describeProgress(one, root, now)}; the limit is ${fileLimitMs / 1000} s`);
      endProcess(one.process);
    }
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), 10 * lookEveryMs).unref();
  }, lookEveryMs);
  return { stop: () => (clearInterval(timer), hung) };
}

/** @type {(process: number) => void} */
function endProcess(id) {
  try {
    process.kill(id, "SIGKILL");
  } catch (error) {
    // It has ended since it was seen.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** Only a run of all tests shows which of the titles that documents cite there are.
 * @type {(place: { node: string; env: NodeJS.ProcessEnv }, words: string[]) => Promise<import("./test-verdict.d.mts").RunOutcome>} */
async function runTests({ node, env }, words) {
  const folder = mkdtempSync(join(tmpdir(), "astra-test-"));
  const file = join(folder, "counts.json");
  const titlesFile = join(folder, "titles.json");
  const progressFolder = join(folder, "progress");
  mkdirSync(progressFolder);
  try {
    const program = join(root, "node_modules", "vitest", "vitest.mjs");
    const child = spawn(node, [program, "run", ...words], {
      cwd: root,
      stdio: "inherit",
      env: {
        ...env,
        ASTRA_TEST_COUNTS: file,
        ASTRA_TEST_TITLES: titlesFile,
        ASTRA_TEST_PROGRESS: progressFolder,
        ASTRA_SIM_DAY: simulatorDay,
      },
    });
    for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.on(signal, () => child.kill(signal));
    const guard = guardRunner(child, progressFolder);
    await new Promise((resolve, reject) => child.on("exit", resolve).on("error", reject));
    const hung = guard.stop();
    const counts = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
    const isComparable = words.length === 0 && existsSync(titlesFile);
    const steps = isComparable ? [{ name: "cited tests", words: [node, "scripts/checks/cited-titles.ts", titlesFile] }] : [];
    return { counts, hung, failedSteps: await runSteps(steps, { root, node, env }, console.log) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @type {(words: string[]) => Promise<import("./test-verdict.d.mts").RunOutcome & { exitCode?: number }>} */
async function runAll(words) {
  const ready = setUpOrExplain("test");
  if (!ready) return { counts: null, failedSteps: ["set-up"], exitCode: 2 };
  if (words.length > 0) {
    console.log(`check: left out, because only ${words.join(" ")} is tested`);
    return runTests(ready, words);
  }
  // Side by side: tests wait for processes and leases, and the checks use that time.
  const [failedSteps, tests] = await Promise.all([
    runSteps(listSteps({ root, node: ready.node }), { root, ...ready }, console.log),
    runTests(ready, words),
  ]);
  return { ...tests, failedSteps: [...failedSteps, ...tests.failedSteps] };
}

const outcome = await runAll(process.argv.slice(2));
const verdict = judgeRun(outcome);
for (const line of verdict.lines) console.log(line);
process.exitCode = outcome.exitCode ?? verdict.exitCode;
