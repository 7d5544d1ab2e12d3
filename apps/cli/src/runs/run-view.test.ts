import { compilePlan } from "@astraflow/graph";
import type { Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createColors } from "../output/terminal.ts";
import { describeRunChanges, describeWarnings, renderRun } from "./run-view.ts";

const ids = ["first", "second", "third"];

const workflow = {
  id: "w",
  schemaVersion: "2025-10",
  metadata: { name: "Three steps" },
  nodes: ids.map((id) => ({
    id,
    type: `demo.${id}`,
    label: `Step ${id}`,
    package: { name: "demo", version: "1.0.0" },
    position: { x: 0, y: 0 },
  })),
  edges: [
    { id: "a", source: { node: "first", port: "out" }, target: { node: "second", port: "in" } },
    { id: "b", source: { node: "second", port: "out" }, target: { node: "third", port: "in" } },
  ],
} as Workflow;

const plan = compilePlan(workflow);

const node = (nodeId: string, more: Partial<RunNodeStatus>): RunNodeStatus => ({
  nodeId,
  taskId: `r.${ids.indexOf(nodeId)}`,
  status: "queued",
  ...more,
});
const run = (nodes: RunNodeStatus[], more: Partial<Run> = {}): Run => ({
  runId: "r",
  status: "running",
  definitionHash: "h",
  clientId: "c",
  nodes,
  ...more,
});
const options = {
  paint: createColors(false),
  columns: 200,
  now: Date.parse("2026-01-01T00:00:05Z"),
  url: "http://127.0.0.1:8080",
};

describe("the picture of a run", () => {
  it("[L1] the run view shows each node with symbol, status, progress, attempt, worker and last message", () => {
    const lines = renderRun(
      run([
        node("first", {
          status: "succeeded",
          startedAt: "2026-01-01T00:00:00Z",
          finishedAt: "2026-01-01T00:00:00.200Z",
          workerName: "w-1",
        }),
        node("second", {
          status: "running",
          startedAt: "2026-01-01T00:00:01Z",
          attempt: 2,
          workerName: "w-2",
          state: { progress: 0.4, message: "half way" },
        }),
        node("third", {}),
      ]),
      workflow,
      options,
    );

    expect(lines[0]).toMatch(/^✓ {2}Step first +succeeded 0\.2 s +w-1$/);
    expect(lines[1]).toMatch(/^◔ {2}Step second +━{6}─{9} {2}40 % +attempt 2 · w-2 +half way$/);
    expect(lines[2]).toMatch(/^◌ {2}Step third +waiting +waits for Step second$/);
    expect(lines[3]).toBe("running · 1 of 3 done · run r · http://127.0.0.1:8080/#r");
  });

  it("[L1] the run view lets no label or message move the cursor, and never wraps a line", () => {
    const lines = renderRun(
      run([node("first", { status: "failed", error: { code: "E.X", message: "bad\u001b[2J\nnews" } })]),
      workflow,
      { ...options, columns: 40 },
    );

    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be gone
    expect(lines.join("")).not.toMatch(/[\u0000-\u001f]/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(40);
  });
});

describe("the warnings of a run", () => {
  const warnings = [{ code: "E.RESULT.INVALID", message: "node first: results.status is required", field: "/results/status" }];
  const warned = run([node("first", { status: "succeeded", workerName: "w-1", warnings })]);

  it("[L80] the run view and the changes of a run show a value that did not match its schema", () => {
    const before = run([node("first", { status: "running", workerName: "w-1" })]);

    expect(renderRun(warned, workflow, options)[0]).toMatch(
      /✓ {2}Step first .* warning: node first: results\.status is required$/,
    );
    expect(describeRunChanges(before, warned, plan)).toEqual([
      "Step first · succeeded · w-1 · warning: node first: results.status is required",
    ]);
    expect(describeWarnings(warned)).toEqual(["warning E.RESULT.INVALID: node first: results.status is required"]);
  });
});

describe("the changes of a run", () => {
  it("[L1] the changes between two states of a run are one line each, and none if nothing changed", () => {
    const before = run([node("first", { status: "running", attempt: 1, workerName: "w-1" }), node("second", {})]);
    const after = run([node("first", { status: "succeeded", attempt: 1, workerName: "w-1" }), node("second", {})], {
      status: "failed",
      error: { code: "E.TIMEOUT", message: "late" },
    });

    expect(describeRunChanges(before, before, plan)).toEqual([]);
    expect(describeRunChanges(before, after, plan)).toEqual(["Step first · succeeded · w-1", "run r failed · E.TIMEOUT: late"]);
    expect(describeRunChanges(null, run([node("first", {})]), plan)).toEqual(["run r running"]);
  });
});

it("[L85] a followed run keeps status and worker of every node on a terminal of 40 columns", () => {
  const nodes = [
    node("first", { status: "succeeded", workerName: "w-1", startedAt: "2026-01-01T00:00:00Z" }),
    node("second", { status: "running", workerName: "w-2", state: { progress: 0.5, message: "half way there" } }),
  ];

  const lines = renderRun(run(nodes), workflow, { ...options, columns: 40 });

  expect(lines.every((line) => line.length <= 40)).toBe(true);
  expect(lines[0]).toMatch(/Step .*(succeeded|done).* w-1/);
  expect(lines[1]).toMatch(/Step .*running.* w-2/);
});
