/**
 * `npm test`: set-up, then the checks and every test side by side. The last line is always `N passed, N failed` (with `, N skipped`).
 * `npm test -- packages/store` runs the tests below a path only, and leaves the checks out.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listSteps, runSteps } from "./check-steps.mjs";
import { root, setUpOrExplain } from "./setup.mjs";
import { judgeRun } from "./test-verdict.mjs";

/** Only a run of all tests shows which of the titles that documents cite there are.
 * @type {(place: { node: string; env: NodeJS.ProcessEnv }, words: string[]) => Promise<import("./test-verdict.d.mts").RunOutcome>} */
async function runTests({ node, env }, words) {
  const folder = mkdtempSync(join(tmpdir(), "astra-test-"));
  const file = join(folder, "counts.json");
  const titlesFile = join(folder, "titles.json");
  try {
    const program = join(root, "node_modules", "vitest", "vitest.mjs");
    const child = spawn(node, [program, "run", ...words], {
      cwd: root,
      stdio: "inherit",
      env: { ...env, ASTRA_TEST_COUNTS: file, ASTRA_TEST_TITLES: titlesFile },
    });
    for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.on(signal, () => child.kill(signal));
    await new Promise((resolve, reject) => child.on("exit", resolve).on("error", reject));
    const counts = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
    const isComparable = words.length === 0 && existsSync(titlesFile);
    const steps = isComparable ? [{ name: "cited tests", words: [node, "scripts/checks/cited-titles.ts", titlesFile] }] : [];
    return { counts, failedSteps: await runSteps(steps, { root, node, env }, console.log) };
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
  return { counts: tests.counts, failedSteps: [...failedSteps, ...tests.failedSteps] };
}

const outcome = await runAll(process.argv.slice(2));
const verdict = judgeRun(outcome);
for (const line of verdict.lines) console.log(line);
process.exitCode = outcome.exitCode ?? verdict.exitCode;
