import { buildOpenapiDocument, faultCodes, type Route, routes } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { expectedRefusals, leftOutOperations } from "../../scripts/conform/known-failures.ts";
import { judgeReport, type ToolReport } from "../../scripts/conform/verdict.ts";

const report: ToolReport = {
  seed: 1,
  running_time: 12.3,
  complete: true,
  operations: { total: 3, tested: 2 },
  test_cases: { generated: 40 },
  failures: [],
  errors: [],
};
const failure = { code: "ST202", title: "Schema-valid request rejected", operations: ["GET /a", "GET /b"] };
const refusal = { error: "E.WORKFLOW.INVALID", operations: ["GET /a"], reason: "a reason" };
const nothing = { refusals: [], seenRefusals: [], isWholeRun: true };

describe("the verdict of conform", () => {
  it("[H621] a comparison without failures is good, and its last line has the figures", () => {
    const { isGood, lines } = judgeReport(report, { refusals: [refusal], seenRefusals: [0], isWholeRun: true });

    expect(isGood).toBe(true);
    expect(lines).toEqual(["2 of 3 operations, 40 requests, 0 failures, 1 of 1 expected refusals, seed 1, 12 s"]);
  });

  it("[H621] a failure fails the comparison and is named with each of its operations", () => {
    const { isGood, lines } = judgeReport({ ...report, failures: [failure] }, nothing);

    expect(isGood).toBe(false);
    expect(lines.slice(0, 2)).toEqual([
      "ST202 Schema-valid request rejected: GET /a",
      "ST202 Schema-valid request rejected: GET /b",
    ]);
    expect(lines).toHaveLength(3);
  });

  it("[H621] an expected refusal that no longer occurs fails a whole comparison, and not one that was narrowed down", () => {
    expect(judgeReport(report, { ...nothing, refusals: [refusal] })).toMatchObject({
      isGood: false,
      lines: [expect.stringContaining("no longer occurs"), expect.anything()],
    });
    expect(judgeReport(report, { ...nothing, refusals: [refusal], isWholeRun: false }).isGood).toBe(true);
  });

  it("[H621] requests that could not be made, a run that was cut short and a run without requests fail the comparison", () => {
    expect(judgeReport({ ...report, errors: [{ title: "Network Error", count: 4 }] }, nothing).lines[0]).toBe("Network Error: 4");
    expect(judgeReport({ ...report, complete: false }, nothing).isGood).toBe(false);
    expect(judgeReport({ ...report, test_cases: { generated: 0 } }, nothing).isGood).toBe(false);
  });

  it("[H621] what is left out of the comparison, and every expected refusal, is an operation of the document and has a reason", () => {
    const operations = Object.values<Route>(routes).map(({ method, path }) => `${method} ${path}`);
    const ids = Object.values(buildOpenapiDocument().paths).flatMap((path) =>
      Object.values(path).map((operation) => (operation as { operationId: string }).operationId),
    );

    expect(leftOutOperations.filter(({ operationId, reason }) => !ids.includes(operationId) || reason.length < 20)).toEqual([]);
    const refused = expectedRefusals.flatMap((one) => one.operations ?? []);
    expect(refused.filter((one) => !operations.includes(one))).toEqual([]);
    expect(expectedRefusals.filter(({ error, reason }) => !(error in faultCodes) || reason.length < 20)).toEqual([]);
  });
});
