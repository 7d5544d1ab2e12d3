// Edges that read inside a result which was too large to travel, on the real engine: nothing is silently left out.

import { afterEach, expect, it } from "vitest";
import { chain, Harness } from "./harness.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

interface Drawn {
  nodes: { ui: { outputPorts: { binding: { path: string } }[] } }[];
}

/** The first node's port reads a part of its result, or all of it. */
async function runWith(path: string) {
  const world = await new Harness().start();
  ends.push(() => world.engine.stop());
  const worker = await world.join("w");
  const drawn = structuredClone(chain(2)) as unknown as Drawn;
  for (const port of drawn.nodes[0]?.ui.outputPorts ?? []) port.binding.path = path;
  await world.run(drawn as unknown as Record<string, unknown>);
  await world.settle();
  return { world, worker };
}
const stayed = { resourceRef: { resourceId: "big", workerName: "w", type: "json" } };

it("[A367] fails the node that would get a part of a value that stayed, and names field, part and way out", async () => {
  const { world, worker } = await runWith("results.out.0.url");
  await worker.done({ out: stayed });

  expect(worker.sent).toHaveLength(1);
  const [run] = (await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items;
  expect(run?.phase).toBe("failed");
  expect(JSON.parse(run?.error ?? "{}")).toMatchObject({
    code: "E.PARAMS.INVALID",
    message: expect.stringContaining("parameters.in is to be 0.url of a value that was too large to travel"),
    details: { field: "parameters.in", resource: "big" },
  });
});

it("[A367] hands on a part of a value that travelled, as ever", async () => {
  const { worker } = await runWith("results.out.0.url");
  await worker.done({ out: [{ url: "here" }] });

  expect(JSON.parse(worker.last.params)).toEqual({ in: "here" });
});
