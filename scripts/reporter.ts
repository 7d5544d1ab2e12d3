/**
 * Counts a test run for the last line of `npm test`, and lists the titles it reported. The words of that line and the verdict are in
 * test-verdict.mjs, because the checks that ran beside the tests take part in them.
 */
import { writeFileSync } from "node:fs";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";
import { judgeRun, type TestCounts } from "./test-verdict.mjs";

/** Where `npm test` wants the counts; without it (plain vitest) the line is printed here. */
const countsFileVariable = "ASTRA_TEST_COUNTS";
/** Where it wants the titles of all tests and groups of tests; without it they are not listed. */
const titlesFileVariable = "ASTRA_TEST_TITLES";

/** Tests by state. A file or suite that broke outside its tests (import, hook) is one failure: its tests may never have run. */
export function countModules(modules: readonly TestModule[], unhandledErrors: number, reason: TestRunEndReason): TestCounts {
  const counts: TestCounts = { passed: 0, failed: unhandledErrors, skipped: [] };
  for (const module of modules) {
    if (module.errors().length > 0) counts.failed += 1;
    for (const suite of module.children.allSuites()) if (suite.errors().length > 0) counts.failed += 1;
    for (const test of module.children.allTests()) {
      const result = test.result();
      if (result.state === "passed") counts.passed += 1;
      else if (result.state === "failed") counts.failed += 1;
      else {
        const note = result.state === "skipped" ? result.note : "the run ended before it";
        counts.skipped.push({ title: `${module.relativeModuleId} > ${test.fullName}`, reason: note ?? "no reason given" });
      }
    }
  }
  if (reason !== "passed" && counts.failed === 0) counts.failed = 1; // interrupted, or failed where no test shows it
  return counts;
}

/** Titles as they were computed, without those of the groups around them. */
function listReportedTitles(modules: readonly TestModule[]): string[] {
  const titles = new Set<string>();
  for (const { children } of modules) {
    for (const suite of children.allSuites()) titles.add(suite.name);
    for (const test of children.allTests()) titles.add(test.name);
  }
  return [...titles];
}

export default class CountingReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[], reason: TestRunEndReason): void {
    const counts = countModules(modules, unhandledErrors.length, reason);
    const titlesFile = process.env[titlesFileVariable];
    if (titlesFile) writeFileSync(titlesFile, JSON.stringify(listReportedTitles(modules)));
    const file = process.env[countsFileVariable];
    if (file) writeFileSync(file, JSON.stringify(counts));
    else process.stdout.write(`${judgeRun({ counts, failedSteps: [] }).lines.join("\n")}\n`);
  }
}
