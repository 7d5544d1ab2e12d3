import type { EventData, Run, ServerEvent } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { applyRunEvent, mergeFreshRun } from "./followed-run.ts";

const run = (more: Partial<Run> = {}): Run => ({
  runId: "r",
  status: "running",
  definitionHash: "h",
  clientId: "c",
  asOf: 10,
  ...more,
});
const node = { runId: "r", nodeId: "n", taskId: "r.0" };
const event = (id: string, data: EventData): ServerEvent =>
  ({
    version: "v1",
    id,
    type: data.kind,
    occurredAt: "2026-01-01T00:00:01Z",
    scope: { tenant: "t", runId: "r" },
    data,
  }) as ServerEvent;

it("[L1] applying events to a followed run gives the state that a later read of the run would return", () => {
  let state = mergeFreshRun(run());
  const applyEvent = (id: string, data: EventData) => {
    state = applyRunEvent(state, event(id, data)).after;
    return state.nodes.get("r.0");
  };

  expect(
    applyEvent("11.0", { kind: "node.status", ...node, status: "dispatching", workerName: "w", ackPending: true }),
  ).toMatchObject({
    status: "running",
    pendingAck: true,
    workerName: "w",
    startedAt: "2026-01-01T00:00:01Z",
  });
  expect(applyEvent("12", { kind: "node.state", ...node, state: { stage: "running", attempt: 2 } as never })).toMatchObject({
    attempt: 2,
    pendingAck: true,
  });
  expect(applyEvent("13", { kind: "node.state", ...node, state: { progress: 0.5, message: "half" } })).toMatchObject({
    pendingAck: false,
    state: { progress: 0.5, message: "half" },
  });
  expect(applyEvent("14", { kind: "node.error", ...node, error: { code: "E.X", message: "m" } })).toMatchObject({
    error: { code: "E.X" },
  });
  const warning = { code: "E.PARAMS.INVALID", message: "m", field: "/parameters/a" };
  expect(applyEvent("14.1", { kind: "node.warning", ...node, warning })).toMatchObject({ warnings: [warning] });
  expect(applyEvent("15", { kind: "node.status", ...node, status: "dispatching" })).not.toHaveProperty("error");
  expect(applyEvent("16", { kind: "node.status", ...node, status: "completed" })).toMatchObject({
    status: "succeeded",
    finishedAt: "2026-01-01T00:00:01Z",
  });
  applyEvent("17", { kind: "run.status", runId: "r", status: "succeeded", finishedAt: "2026-01-01T00:00:02Z" });
  expect(state.run).toMatchObject({ status: "succeeded", finishedAt: "2026-01-01T00:00:02Z" });
});

it("[L1] an event already contained in the read state of a run changes nothing, but its printed output is kept", () => {
  const first = mergeFreshRun(run({ nodes: [{ nodeId: "n", taskId: "r.0", status: "running" }] }));
  const append = (id: string, text: string) =>
    event(id, {
      kind: "node.result.delta",
      ...node,
      revision: 1,
      sequence: 1,
      operation: "append",
      payload: { text },
      terminal: false,
    });

  applyRunEvent(first, event("9", { kind: "node.status", ...node, status: "queued" }));
  applyRunEvent(first, append("9.0", "Dear "));
  applyRunEvent(first, append("10", "Ada"));
  const again = mergeFreshRun(run({ asOf: 20, nodes: [{ nodeId: "n", taskId: "r.0", status: "running" }] }), first);

  expect(again.nodes.get("r.0")).toMatchObject({ status: "running", printed: "Dear Ada" });
  expect(applyRunEvent(again, event("15", { kind: "run.status", runId: "r", status: "queued" })).after.run.status).toBe(
    "running",
  );
});
