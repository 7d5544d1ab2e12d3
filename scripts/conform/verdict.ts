// Judges the report of schemathesis, and whether the list of expected refusals is as short as it can be. Pure, so that every outcome can be tested.

import type { ExpectedRefusal } from "./known-failures.ts";

/** The part of the tool's JSON report that is read here. */
export interface ToolReport {
  readonly seed: number;
  readonly running_time: number;
  readonly complete: boolean;
  readonly operations: { readonly total: number; readonly tested: number };
  readonly test_cases: { readonly generated: number };
  readonly failures: readonly { readonly code: string; readonly title: string; readonly operations: readonly string[] }[];
  readonly errors: readonly { readonly title: string; readonly count: number }[];
}

export interface ConformVerdict {
  readonly isGood: boolean;
  readonly lines: readonly string[];
}

export interface Expectations {
  readonly refusals: readonly ExpectedRefusal[];
  /** Indices of the refusals that occurred. */
  readonly seenRefusals: readonly number[];
  /** Nothing was narrowed down, so what was expected and did not occur does not occur any more. */
  readonly isWholeRun: boolean;
}

export function judgeReport(report: ToolReport, { refusals, seenRefusals, isWholeRun }: Expectations): ConformVerdict {
  const failures = report.failures.flatMap(({ code, title, operations }) =>
    operations.map((operation) => `${code} ${title}: ${operation}`),
  );
  const gone = isWholeRun ? refusals.filter((_, index) => !seenRefusals.includes(index)) : [];
  const problems = [
    ...failures,
    ...report.errors.map(({ title, count }) => `${title}: ${count}`),
    ...gone.map(
      ({ error, reason }) => `${error} (${reason}): listed in known-failures.ts, and no longer occurs; remove it there`,
    ),
    ...(report.complete ? [] : ["the run was cut short"]),
    ...(report.test_cases.generated === 0 ? ["no request was made"] : []),
  ];
  const figures =
    `${report.operations.tested} of ${report.operations.total} operations, ${report.test_cases.generated} requests, ` +
    `${failures.length} failures, ${seenRefusals.length} of ${refusals.length} expected refusals, seed ${report.seed}, ${Math.round(report.running_time)} s`;
  return { isGood: problems.length === 0, lines: [...problems, figures] };
}
