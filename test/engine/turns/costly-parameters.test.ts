// Parameters that arrive over edges and whose check takes long: the thread is never held for more than one of them, and one tenant's checks
// delay nobody else by more than its share of a turn.
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness } from "../harness/engine-harness.ts";

/** Each of 29 schemas is one of the last one twice: a naive check takes 2^29 steps. */
const doublingSchema = {
  type: "object",
  properties: { in: { $ref: "#/$defs/d28" } },
  $defs: Object.fromEntries(
    Array.from({ length: 29 }, (_, at) => {
      const inner = at === 0 ? { type: "string" } : { $ref: `#/$defs/d${at - 1}` };
      return [`d${at}`, { oneOf: [inner, inner] }];
    }),
  ),
};
/** So many full checks are a tenant's share of a turn. */
const checksOfTurn = 8;

/** One node, and many behind it that get its result. */
function fanOutWorkflow(count: number) {
  const workflow = buildWorkflow(
    Array.from({ length: count + 1 }, () => ({})),
    Array.from({ length: count }, (_, at) => [0, at + 1] as const),
  );
  const nodes = (workflow["nodes"] as object[]).map((node, at) =>
    at === 0 ? node : { ...node, schema: { parameters: doublingSchema } },
  );
  return { ...workflow, nodes };
}

async function startFanOut(count: number) {
  let pauses = 0;
  const harness = await new EngineHarness({ yieldLoop: async () => void (pauses += 1) }).start();
  const worker = await harness.joinWorker("w", { slots: count + 1 });
  const run = await harness.startRun(fanOutWorkflow(count));
  await harness.settle();
  return { harness, worker, run, countPauses: () => pauses };
}

describe("parameters that take long to check", () => {
  it("[U890] costly checks of parameters that arrive over edges are made outside of the decision, with the thread free after each", async () => {
    const { harness, worker, run, countPauses } = await startFanOut(6);
    const before = countPauses();

    await worker.succeed({ out: "text" });
    await harness.settle();

    expect(countPauses() - before).toBeGreaterThanOrEqual(6);
    const { tasks } = await harness.runDetail(run);
    expect(tasks).toHaveLength(7);
    const warnings = (await harness.facts()).filter((fact) => fact.includes("task.warning"));
    expect(warnings).toHaveLength(6);
    expect(harness.problems).toEqual([]);
  });

  it("[U891] a turn checks no more than a tenant's share: the other nodes of a fan-out are reached in the next turns", async () => {
    const { harness, worker, run } = await startFanOut(40);
    const turnsBefore = harness.engine.gauge().turns;

    await worker.succeed({ out: "text" });
    const { tasks: atOnce } = await harness.runDetail(run);
    await harness.settle();

    expect(atOnce.length).toBeLessThanOrEqual(1 + 2 * checksOfTurn);
    expect((await harness.runDetail(run)).tasks).toHaveLength(41);
    expect(harness.engine.gauge().turns - turnsBefore).toBeGreaterThanOrEqual(Math.floor(40 / checksOfTurn));
    expect(harness.problems).toEqual([]);
  });

  it("[U891] the commands of a tenant that has spent its share wait in order for the next turn, and those of others do not", async () => {
    const harness = await new EngineHarness({ yieldLoop: async () => undefined }).start();
    const worker = await harness.joinWorker("w", { slots: 64 });
    const other = await harness.joinWorker("v", { tenant: "t2", slots: 1 });
    const chain = buildChain(1);
    const [template] = chain["nodes"] as { id: string; schema?: object }[];
    const results = { ...doublingSchema, properties: { out: { $ref: "#/$defs/d28" } } };
    const nodes = Array.from({ length: 20 }, (_, at) => ({
      ...template,
      id: `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`,
      schema: { results },
    }));
    await harness.startRun({ ...chain, nodes, edges: [] });
    await harness.startRun(buildChain(1), { tenant: "t2" });
    await harness.settle();
    const dispatches = [...worker.dispatchesSent];
    const answered: string[] = [];
    const turnsBefore = harness.engine.gauge().turns;
    const note = (who: string) => (answer: unknown) => void (answered.push(who), answer);

    const costly = dispatches.map((dispatch, at) => worker.succeed({ out: "text" }, dispatch).then(note(`costly ${at}`)));
    const cheap = other.succeed({ out: "text" }).then(note("other"));
    await Promise.all([...costly, cheap]);

    const order = answered.filter((who) => who !== "other");
    expect(order).toEqual(dispatches.map((_, at) => `costly ${at}`));
    expect(answered.indexOf("other")).toBeLessThanOrEqual(checksOfTurn);
    expect(harness.engine.gauge().turns - turnsBefore).toBeGreaterThanOrEqual(Math.ceil(dispatches.length / checksOfTurn));
    expect(harness.problems).toEqual([]);
  });
});
