import type { Run, Workflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { showRun } from "./inspect-commands.ts";
import { describeResults, showResults } from "./run-results.ts";
import { followToEnd } from "./start-command.ts";

const runId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const workflow = {
  id: uuid(9),
  schemaVersion: "2025-10",
  metadata: { name: "Two steps" },
  nodes: ["First", "Last"].map((label, n) => ({
    id: uuid(n),
    type: "demo.step",
    label,
    package: { name: "demo", version: "1.0.0" },
    position: { x: 0, y: 0 },
  })),
  edges: [{ id: "e", source: { node: uuid(0), port: "out" }, target: { node: uuid(1), port: "in" } }],
} as Workflow;
const runWith = (result: object, status: Run["status"] = "succeeded"): Run => ({
  runId,
  status,
  definitionHash: "h",
  clientId: "c",
  nodes: [
    { nodeId: uuid(0), taskId: `${runId}.0`, status: "succeeded", label: "First", result: { out: "of the first" } },
    { nodeId: uuid(1), taskId: `${runId}.1`, status: "succeeded", label: "Last", result: result as Record<string, never> },
  ],
});
const openFixture = (result: object) =>
  createCommandFixture({
    getRun: runWith(result),
    getRunDefinition: workflow,
    getRunNode: { node: runWith(result).nodes?.[1], asOf: 1 },
  });

it("[L82] astra run and astra runs show end with the results of the last nodes", async () => {
  const started = openFixture({ text: "Hello" });
  const shown = openFixture({ text: "Hello" });

  await followToEnd(started.context, runId, false);
  await showRun(shown.context, { run: runId });

  expect(started.stdout()).toContain(`${runId} succeeded\nresult of Last: {"text":"Hello"}\n`);
  expect(shown.stdout()).toContain(`result of Last: {"text":"Hello"}\n`);
  expect(started.stdout()).not.toContain("of the first");
});

it("[L82] a long result beside a run is cut, with its length and the command that prints all of it", () => {
  const [line = ""] = describeResults(runWith({ text: "x".repeat(5_000) }), workflow);

  expect(line.length).toBeLessThan(400);
  expect(line).toContain(`(5011 characters; all of it: astra runs results ${runId} ${uuid(1)})`);
});

it("[L82] astra runs results prints the results of the last nodes, of one node by its label as a whole, and as JSON", async () => {
  const long = { text: "x".repeat(5_000) };
  const last = openFixture({ text: "Hello" });
  const one = openFixture(long);
  const json = createCommandFixture({ getRun: runWith(long), getRunDefinition: workflow }, { json: true });

  await showResults(last.context, { run: runId });
  await showResults(one.context, { run: runId, node: "last" });
  await showResults(json.context, { run: runId });

  expect(last.stdout()).toBe(`Last:\n{\n  "text": "Hello"\n}\n`);
  expect(JSON.parse(one.stdout())).toEqual(long);
  expect(JSON.parse(json.stdout())).toMatchObject({ runId, items: [{ nodeId: uuid(1), label: "Last", result: long }] });
});
