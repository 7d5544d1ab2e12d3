// A dashboard of the field at a real scheduler: a page of another origin that opens the event stream with its session and nothing else.

import { SseTestReader } from "@astraflow/protocol/testing";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { withTimeout } from "../harness/processes.ts";
import { sleepingWorkflow } from "../harness/workflows.ts";

const origin = "http://localhost:5173";

it("[A384] [A385] a page of a configured origin opens the event stream of its session, sees its open run at once and its end once", async () => {
  const { http } = await startScheduler({ flags: ["--cors-origin", origin] });
  const api = new SchedulerApi(http);
  const { runId } = await api.startRun(sleepingWorkflow(1), "k");
  const preflight = await fetch(`${http}/api/v1/events`, {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "GET", "access-control-request-headers": "authorization" },
  });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, origin]);

  const response = await api.send("GET", "/api/v1/events?clientSessionId=system-test&topics=run", undefined, { origin });
  expect(response.headers.get("access-control-allow-credentials")).toBe("true");
  const reader = new SseTestReader(response.body);
  const seen = () => reader.events.flatMap(({ type, data }) => (data === null ? [] : [{ type, ...JSON.parse(data) }]));
  await withTimeout(
    reader.readUntil(() => seen().some(({ type }) => type === "run.snapshot")),
    "the first snapshot",
  );
  await api.send("POST", `/api/v1/runs/${runId}/cancel`);
  await withTimeout(
    reader.readUntil(() => seen().filter(({ type }) => type === "run.snapshot").length === 2),
    "the end of the run",
  );

  expect(seen().map(({ type, data }) => [type, data.runId ?? data.run.runId, data.status ?? data.run.status])).toEqual([
    ["run.status", runId, "queued"],
    ["run.snapshot", runId, "queued"],
    // While its tasks are told to stop.
    ["run.status", runId, "running"],
    ["run.status", runId, "cancelled"],
    ["run.snapshot", runId, "cancelled"],
  ]);
});
