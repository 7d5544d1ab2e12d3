import { describe, expect, it } from "vitest";
import { judgeRun } from "../../scripts/test-verdict.mjs";

describe("the verdict of npm test", () => {
  it("[H4] the verdict of npm test is the line of counts with exit code 0 when all tests passed", () => {
    const verdict = judgeRun({ counts: { passed: 3, failed: 0, skipped: [] }, failedSteps: [] });

    expect(verdict).toEqual({ lines: ["3 passed, 0 failed"], exitCode: 0 });
  });

  it("[H4] the verdict of npm test counts a failed check step as a failure although all tests passed", () => {
    const verdict = judgeRun({ counts: { passed: 3, failed: 0, skipped: [] }, failedSteps: ["lint"] });

    expect(verdict.lines).toEqual(["failed check: lint", "3 passed, 1 failed"]);
    expect(verdict.exitCode).toBe(1);
  });

  it("[H4] the verdict of npm test adds failed tests and failed check steps", () => {
    const verdict = judgeRun({ counts: { passed: 1, failed: 2, skipped: [] }, failedSteps: ["lint", "types"] });

    expect(verdict.lines.at(-1)).toBe("1 passed, 4 failed");
  });

  it("[H4] the verdict of npm test names every skipped test with its reason", () => {
    const skipped = [{ title: "store > postgres", reason: "no server on this platform" }];

    const verdict = judgeRun({ counts: { passed: 1, failed: 0, skipped }, failedSteps: [] });

    expect(verdict.lines).toEqual(["skipped: store > postgres: no server on this platform", "1 passed, 0 failed, 1 skipped"]);
    expect(verdict.exitCode).toBe(0);
  });

  it("[H5] the verdict of npm test is a failure when no test was executed", () => {
    const nothing = judgeRun({ counts: { passed: 0, failed: 0, skipped: [] }, failedSteps: [] });
    const onlySkipped = judgeRun({ counts: { passed: 0, failed: 0, skipped: [{ title: "a", reason: "b" }] }, failedSteps: [] });

    expect(nothing).toEqual({ lines: ["failed: no test ran", "0 passed, 1 failed"], exitCode: 1 });
    expect(onlySkipped).toMatchObject({ exitCode: 1 });
    expect(onlySkipped.lines.at(-1)).toBe("0 passed, 1 failed, 1 skipped");
  });

  it("[H642] the verdict of npm test names a file that hung and counts it once", () => {
    const verdict = judgeRun({ counts: null, failedSteps: [], hung: ["a.test.ts: test b has run 600 s"] });

    expect(verdict).toEqual({ lines: ["hung: a.test.ts: test b has run 600 s", "0 passed, 1 failed"], exitCode: 1 });
  });

  it("[H5] the verdict of npm test is a failure when the test runner ended without a result", () => {
    const verdict = judgeRun({ counts: null, failedSteps: [] });

    expect(verdict.lines.at(-1)).toBe("0 passed, 1 failed");
    expect(verdict.exitCode).toBe(1);
  });
});
