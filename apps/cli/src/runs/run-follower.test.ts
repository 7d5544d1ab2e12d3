import type { EventData, Run, ServerEvent, Workflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { type CommandFixture, createCommandFixture } from "../testing/command-fixture.ts";
import { followRun } from "./run-follower.ts";

const workflow = {
  id: "22222222-2222-4222-8222-222222222222",
  schemaVersion: "2025-10",
  metadata: { name: "One step" },
  nodes: [{ id: "n", type: "demo.text", label: "Say", package: { name: "demo", version: "1.0.0" }, position: { x: 0, y: 0 } }],
  edges: [],
} as Workflow;
const run = (status: Run["status"], more: Partial<Run> = {}): Run => ({
  runId: "r",
  status,
  definitionHash: "h",
  clientId: "c",
  asOf: 5,
  ...more,
});
const event = (id: string, data: EventData): ServerEvent =>
  ({
    version: "v1",
    id,
    type: data.kind,
    occurredAt: "2026-01-01T00:00:00Z",
    scope: { tenant: "t", runId: "r" },
    data,
  }) as ServerEvent;
const node = { runId: "r", nodeId: "n", taskId: "r.0" };

it("[L83] the run follower names astra why once when no task of the run has had a worker for ten seconds", async () => {
  const clock = { now: 0 };
  const waiting = { nodeId: "n", taskId: "r.0", status: "queued" } as const;
  const fixture: CommandFixture = createCommandFixture({
    getRunDefinition: workflow,
    getRun: () => run(clock.now > 0 ? "succeeded" : "queued", { nodes: [waiting] }),
    events: async function* () {
      while (!fixture.stderr().includes("astra why")) await new Promise((resolve) => setImmediate(resolve));
      yield event("9", { kind: "run.status", runId: "r", status: "succeeded" });
    },
  });
  const { client, terminal, signal } = fixture.context;
  const now = () => {
    clock.now += 2_000;
    return clock.now;
  };

  await followRun("r", { client, terminal, view: "picture", signal, now, rereadMs: 1 });

  const hints = fixture
    .stderr()
    .split("\n")
    .filter((line) => line.includes("astra why"));
  expect(hints).toEqual(["No worker has had a task of this run for 10 s. What it waits for: astra why r"]);
});

it("[L8] the run follower prints one line per change after its first read, over a lost connection, to the end with its error", async () => {
  const freshness = [run("running"), run("failed", { asOf: 9, error: { code: "E.X", message: "bad" } })];
  const fixture = createCommandFixture({
    getRunDefinition: workflow,
    getRun: () => freshness.shift(),
    events: async function* ({ after, onState }: { after: string; onState: (state: "open" | "lost", why: null) => void }) {
      expect(after).toBe("5");
      onState("open", null);
      yield event("6.0", { kind: "node.status", ...node, status: "dispatching", workerName: "w" });
      yield event("6", { kind: "node.state", ...node, state: { stage: "running", attempt: 1 } as never });
      for (const state of ["lost", "lost", "open"] as const) onState(state, null);
      yield event("7", { kind: "node.state", ...node, state: { message: "half" } });
      yield event("8", { kind: "node.status", ...node, status: "completed", workerName: "w" });
      yield event("9", { kind: "run.status", runId: "r", status: "failed" });
      throw new Error("nobody listens after the end");
    },
  });
  const { client, terminal, signal } = fixture.context;

  const last = await followRun("r", { client, terminal, view: "picture", signal, now: () => 0 });

  expect(last).toMatchObject({ status: "failed", error: { code: "E.X" } });
  expect(fixture.stderr().trim().split("\n")).toEqual([
    "run r running",
    "Say · sent · w",
    "the scheduler at http://s does not answer; reconnecting, no event is lost",
    "Reconnected; no events were lost.",
    "Say · running · w · half",
    "Say · succeeded · w",
    "run r failed · E.X: bad",
  ]);
});

it("[L8] the run follower prints the result of a run that has already ended at once", async () => {
  const endController = run("succeeded", { nodes: [{ nodeId: "n", taskId: "r.0", status: "succeeded", workerName: "w" }] });
  const fixture = createCommandFixture({ getRunDefinition: workflow, getRun: endController });
  const { client, terminal, signal } = fixture.context;

  await followRun("r", { client, terminal, view: "picture", signal, now: () => 0 });

  expect(fixture.stderr()).toBe("Say · succeeded · w\nrun r succeeded\n");
});

it("[L1] the run follower prints the facts of a run as JSON lines with their cursor", async () => {
  const fact = (position: number, type: string) => ({ position, type, at: "x", runId: "r", data: {} });
  const fixture = createCommandFixture({
    getRun: run("succeeded"),
    listRunEvents: ({ cursor }: { cursor?: string }) =>
      cursor === undefined
        ? { items: [fact(1, "run.created"), fact(3, "run.succeeded")], nextCursor: "3" }
        : { items: [], nextCursor: "3" },
  });
  const { client, terminal, signal } = fixture.context;

  await followRun("r", { client, terminal, view: "facts", signal, now: () => 0 });

  const lines = fixture.stdout().trim().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { cursor: string }).cursor)).toEqual(["1", "3"]);
});

it("[L8] the run follower reads the end of a run from the run itself if its event is no longer stored", async () => {
  const freshness = [run("running"), run("succeeded"), run("succeeded")];
  const fixture = createCommandFixture({
    getRunDefinition: workflow,
    getRun: () => freshness.shift(),
    events: async function* ({ onGap, signal }: { onGap: (fault: null) => void; signal: AbortSignal }) {
      onGap(null);
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
      yield event("9", { kind: "run.status", runId: "r", status: "running" });
    },
  });
  const { client, terminal, signal } = fixture.context;

  expect(await followRun("r", { client, terminal, view: "picture", signal, now: () => 0 })).toMatchObject({
    status: "succeeded",
  });
});
