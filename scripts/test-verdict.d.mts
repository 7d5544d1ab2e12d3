/** The types of test-verdict.mjs, for the tests and the reporter, which are TypeScript. */

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: { title: string; reason: string }[];
}

export interface RunOutcome {
  /** null: the test runner ended without a word. */
  counts: TestCounts | null;
  /** Names of the set-up or check steps that failed before the tests. */
  failedSteps: readonly string[];
  /** Files that did not end within their limit, each as one sentence. */
  hung?: readonly string[];
}

export type JudgeRun = (outcome: RunOutcome) => { lines: string[]; exitCode: 0 | 1 };
export const judgeRun: JudgeRun;
