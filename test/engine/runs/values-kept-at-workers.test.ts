// Edges that read inside a result which was too large to travel, on the real engine: nothing is silently left out.

import { afterEach, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

interface WorkflowGraph {
  nodes: { ui: { outputPorts: { binding: { path: string } }[] } }[];
}

/** The first node's port reads a part of its result, or all of it. */
async function runWith(path: string) {
  const harness = await new EngineHarness().start();
  cleanups.push(() => harness.engine.stop());
  const worker = await harness.joinWorker("w");
  const workflow = structuredClone(buildChain(2)) as unknown as WorkflowGraph;
  for (const port of workflow.nodes[0]?.ui.outputPorts ?? []) port.binding.path = path;
  await harness.startRun(workflow as unknown as Record<string, unknown>);
  await harness.settle();
  return { world: harness, worker };
}
const storedAtWorker = { resourceRef: { resourceId: "big", workerName: "w", type: "json" } };

it("[A367] a node that needs part of a value kept at a worker fails with an error that names the field and the part", async () => {
  const { world: harness, worker } = await runWith("results.out.0.url");
  await worker.succeed({ out: storedAtWorker });

  expect(worker.dispatchesSent).toHaveLength(1);
  const [run] = (await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items;
  expect(run?.phase).toBe("failed");
  expect(JSON.parse(run?.error ?? "{}")).toMatchObject({
    code: "E.PARAMS.INVALID",
    message: expect.stringContaining("parameters.in is to be 0.url of a value that was too large to travel"),
    details: { field: "parameters.in", resource: "big" },
  });
});

it("[A367] a node that needs part of a value sent with the result receives that part", async () => {
  const { worker } = await runWith("results.out.0.url");
  await worker.succeed({ out: [{ url: "here" }] });

  expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "here" });
});
