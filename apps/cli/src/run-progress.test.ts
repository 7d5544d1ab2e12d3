import type { Run, RunEvent } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { foldProgress, noProgress, withProgress } from "./run-progress.ts";

const said = (fence: number, data: Record<string, string | number>): RunEvent => ({
  position: 1,
  type: "task.feedback",
  at: "2026-01-01T00:00:00Z",
  runId: "r",
  data: { task: "r.0", fence, ...data },
});
const run = (fence: number, status: "running" | "succeeded" = "running"): Run => ({
  runId: "r",
  status: "running",
  definitionHash: "h",
  clientId: "c",
  nodes: [{ nodeId: "n", taskId: "r.0", status, fence, pendingAck: true }],
});

it("[L1] a running node shows the last progress and message of its present attempt", () => {
  const progress = foldProgress(foldProgress(noProgress, [said(5, { progress: 0.2, message: "begun" })]), [
    said(5, { progress: 1.7 }),
  ]);

  expect(withProgress(run(5), progress).nodes?.[0]).toMatchObject({
    state: { progress: 1, message: "begun" },
    pendingAck: false,
  });
});

it("[L1] what an older attempt said, and what an ended node said, is not shown", () => {
  const progress = foldProgress(noProgress, [said(5, { progress: 0.9 })]);

  expect(withProgress(run(6), progress).nodes?.[0]).not.toHaveProperty("state");
  expect(withProgress(run(5, "succeeded"), progress).nodes?.[0]).not.toHaveProperty("state");
  expect(withProgress(run(6), foldProgress(progress, [said(6, { message: "again" })])).nodes?.[0]?.state).toEqual({
    message: "again",
  });
});
