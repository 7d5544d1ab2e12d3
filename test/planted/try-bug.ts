/** Tries one planted bug in a copy of the repository: plants it, runs what should find it, takes it out again. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { describeProgress, readProgress } from "../../scripts/test-watchdog.mjs";
import { type PlantedBug, plantBug } from "./planted-bug.ts";

export interface Verdict {
  id: string;
  outcome: "caught" | "survived" | "hung" | "not planted";
  /** Which test failed, which checker objected, or what went wrong. */
  by: string;
  seconds: number;
}

export interface TryOptions {
  /** Ends what still runs by then. */
  limitSeconds: number;
  /** Instead of the tests that the bug names. */
  tests?: readonly string[];
  /** Only the tests that cite the bug's rule: quick, and what they miss deserves a look. */
  isCitedOnly?: boolean;
}

interface CommandEnd {
  code: number | null;
  output: string;
  isOverLimit: boolean;
}

/** Runs a program as the leader of its own group, so that the limit ends everything it has started. */
function runBounded(folder: string, words: readonly string[], limitSeconds: number, env = process.env): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, words, { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let isOverLimit = false;
    const limit = setTimeout(() => {
      isOverLimit = true;
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, limitSeconds * 1000);
    const collect = (bytes: Buffer) => (output = (output + bytes.toString()).slice(-20_000));
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(limit);
      resolve({ code, output, isOverLimit });
    });
  });
}

interface VitestReport {
  testResults: { name: string; status: string; message?: string; assertionResults: { fullName: string; status: string }[] }[];
}

/** The first test that failed, or the file that could not be run. */
function findFailure(folder: string, report: VitestReport): string | null {
  for (const file of report.testResults) {
    const failed = file.assertionResults.find(({ status }) => status === "failed");
    if (failed) return `${relative(folder, file.name)}: ${failed.fullName}`;
  }
  const broken = report.testResults.find(({ status }) => status === "failed");
  return broken ? `${relative(folder, broken.name)}: ${broken.message?.split("\n")[0] ?? "could not be run"}` : null;
}

type Finding = Pick<Verdict, "outcome" | "by">;

/** Runs test files in the copy, or only their tests that cite a rule, and names the first test that failed. */
export async function runTests(
  folder: string,
  tests: readonly string[],
  limitSeconds: number,
  rule: string | null = null,
): Promise<Finding> {
  const results = mkdtempSync(join(tmpdir(), "astra-planted-results-"));
  const file = join(results, "report.json");
  try {
    const words = [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--maxWorkers=1",
      "--bail=1",
      "--reporter=json",
      `--outputFile=${file}`,
      ...(rule === null ? [] : [`--testNamePattern=\\[${rule}\\]`]),
    ];
    const progress = join(results, "progress");
    mkdirSync(progress);
    const env = { ...process.env, ASTRA_TEST_PROGRESS: progress };
    const end = await runBounded(folder, [...words, ...tests], limitSeconds, env);
    if (end.isOverLimit) {
      const running = readProgress(progress).map((one) => describeProgress(one, folder, Date.now()));
      return { outcome: "hung", by: running.join("; ") || `no end within ${limitSeconds} s of ${listBriefly(tests)}` };
    }
    const failure = existsSync(file) ? findFailure(folder, JSON.parse(readFileSync(file, "utf8")) as VitestReport) : null;
    if (failure) return { outcome: "caught", by: failure };
    if (end.code === 0) return { outcome: "survived", by: listBriefly(tests) };
    return { outcome: "caught", by: `the test runner ended with ${end.code}: ${end.output.trim().split("\n").at(-1) ?? ""}` };
  } finally {
    rmSync(results, { recursive: true });
  }
}

/** `astra sim` ends with 1 when a checker has found a violation. */
async function runSimulator(folder: string, words: readonly string[], limitSeconds: number): Promise<Finding> {
  const end = await runBounded(folder, ["apps/cli/bin/astra.mjs", "sim", ...words], limitSeconds);
  if (end.isOverLimit) return { outcome: "hung", by: `no end within ${limitSeconds} s of astra sim ${words.join(" ")}` };
  if (end.code === 0) return { outcome: "survived", by: `astra sim ${words.join(" ")}` };
  const violation = end.output.split("\n").find((line) => line.startsWith("seed "));
  return { outcome: "caught", by: violation?.slice(0, 200) ?? `astra sim ended with ${end.code}: ${end.output.slice(-300)}` };
}

/** The file itself; a contract suite also has the cases in the folder beside it. */
function listTestSources(folder: string, path: string): string[] {
  const cases = join(folder, dirname(path), "cases");
  const isContract = basename(path).startsWith("contract-") && existsSync(cases);
  return [join(folder, path), ...(isContract ? readdirSync(cases).map((name) => join(cases, name)) : [])];
}

/** Those of the bug's test files that cite its rule. */
export function findCitingTests(folder: string, rule: string, tests: readonly string[]): string[] {
  const citesRule = (path: string): boolean =>
    path.endsWith(".ts") && listTestSources(folder, path).some((file) => readFileSync(file, "utf8").includes(`[${rule}]`));
  return tests.filter(citesRule);
}

interface TestRun {
  readonly tests: readonly string[];
  /** Only tests whose titles cite it. */
  readonly rule: string | null;
}

/** The tests that cite the bug's rule are the most likely to find it: they run first, then their whole files, and the others only if need be. */
function planTestRuns(folder: string, { rule }: PlantedBug, tests: readonly string[]): { citing: TestRun[]; others: TestRun } {
  const citing = findCitingTests(folder, rule, tests);
  return {
    citing: [
      { tests: citing, rule },
      { tests: citing, rule: null },
    ],
    others: { tests: tests.filter((path) => !citing.includes(path)), rule: null },
  };
}

async function findBug(folder: string, bug: PlantedBug, options: TryOptions): Promise<Finding> {
  const { limitSeconds, tests = bug.tests, isCitedOnly = false } = options;
  const { citing, others } = planTestRuns(folder, bug, tests);
  for (const run of isCitedOnly ? citing : [...citing, others]) {
    if (run.tests.length === 0) continue;
    const found = await runTests(folder, run.tests, limitSeconds, run.rule);
    if (found.outcome !== "survived") return found;
  }
  if (bug.sim) return runSimulator(folder, bug.sim, limitSeconds);
  return { outcome: "survived", by: tests.length === 0 ? "no test named" : listBriefly(tests) };
}

/** The file is as it was when this returns. */
export async function tryBug(folder: string, bug: PlantedBug, options: TryOptions): Promise<Verdict> {
  const begin = performance.now();
  const finish = (finding: Finding): Verdict => ({
    id: bug.id,
    ...finding,
    seconds: Math.round((performance.now() - begin) / 1000),
  });
  const path = join(folder, bug.file);
  const text = readFileSync(path, "utf8");
  try {
    writeFileSync(path, plantBug(text, bug));
  } catch (error) {
    return finish({ outcome: "not planted", by: error instanceof Error ? error.message : String(error) });
  }
  try {
    return finish(await findBug(folder, bug, options));
  } finally {
    writeFileSync(path, text);
  }
}

const listBriefly = (tests: readonly string[]): string =>
  tests.length <= 3 ? tests.join(" ") : `${tests.slice(0, 2).join(" ")} and ${tests.length - 2} more`;
