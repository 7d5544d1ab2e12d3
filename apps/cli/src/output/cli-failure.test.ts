import { expect, it } from "vitest";
import { CliFailure, describeFailure, exitCodeForStatus, exitCodes } from "./cli-failure.ts";

it("[L2] different exit codes stand for refused, not found, not allowed, unreachable, conflict and timeout", () => {
  const codes = [400, 401, 403, 404, 409, 410, 412, 422, 500, 503, 504].map(exitCodeForStatus);

  expect(codes).toEqual([1, 4, 4, 3, 6, 3, 6, 1, 1, 5, 7]);
});

it("[L2] an error shows its code, its message, a command to try and where it is documented", () => {
  const failure = new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message: "There is no run 12." }, "astra runs list");

  expect(describeFailure(failure, false)).toBe(
    "error E.NOT_FOUND: There is no run 12.\ntry: astra runs list\ndocs: docs/faults.md#E.NOT_FOUND\n",
  );
  expect(JSON.parse(describeFailure(failure, true))).toEqual({ error: "E.NOT_FOUND", message: "There is no run 12." });
});

it("[L2] the error for a refused workflow lists its problems with their paths", () => {
  const problems = Array.from({ length: 25 }, (_, at) => ({ path: `/nodes/${at}`, message: "is wrong" }));
  const text = describeFailure(
    new CliFailure(exitCodes.usage, { error: "E.WORKFLOW.INVALID", message: "no", details: { problems } }),
    false,
  );

  const one = { error: "E.WORKFLOW.INVALID", message: "is wrong", details: { problems: problems.slice(0, 1) } };
  expect(describeFailure(new CliFailure(exitCodes.usage, one), false)).toMatch(/^error E\.WORKFLOW\.INVALID: is wrong\ndocs: /);
  expect(text).toContain("  /nodes/19: is wrong\n  and 5 more; --json shows all");
});
