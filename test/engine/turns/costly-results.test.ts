// Results whose check against a schema takes long: the thread is never held for more than one of them.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

/** Each of 29 schemas is one of the last one twice: a naive check takes 2^29 steps. */
const doublingSchema = {
  type: "object",
  properties: { x: { $ref: "#/$defs/d28" } },
  $defs: Object.fromEntries(
    Array.from({ length: 29 }, (_, at) => {
      const inner = at === 0 ? { type: "string" } : { $ref: `#/$defs/d${at - 1}` };
      return [`d${at}`, { oneOf: [inner, inner] }];
    }),
  ),
};
/** A few thousand steps for the list below, so that only many of them take long. */
const listSchema = { type: "object", properties: { x: { type: "array", items: { type: "integer", minimum: 0 } } } };
const list = Array.from({ length: 1_500 }, (_, at) => at);

async function runSideBySide(results: unknown, count: number) {
  let pauses = 0;
  const harness = await new EngineHarness({ yieldLoop: async () => void (pauses += 1) }).start();
  const worker = await harness.joinWorker("w", { slots: count });
  const chain = buildChain(1);
  const [template] = chain["nodes"] as { schema?: object }[];
  const nodes = Array.from({ length: count }, (_, at) => ({
    ...template,
    id: `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`,
    schema: { ...template?.schema, results },
  }));
  const run = await harness.startRun({ ...chain, nodes, edges: [] });
  await harness.settle();
  const dispatches = [...worker.dispatchesSent];
  const before = pauses;
  return {
    dispatches,
    harness,
    /** Reports the same result for all tasks in one turn, and returns how often the thread was let go. */
    async succeedAll(result: unknown): Promise<number> {
      const turns = harness.engine.gauge().turns;
      await Promise.all(dispatches.map((dispatch) => worker.succeed(result, dispatch)));
      expect(harness.engine.gauge().turns - turns).toBeLessThanOrEqual(2);
      return pauses - before;
    },
    tasks: async () => (await harness.runDetail(run)).tasks,
  };
}

describe("results that take long to check", () => {
  it("[U803] costly checks of several results in one turn are made one at a time, with the thread free after each", async () => {
    const { succeedAll, tasks, harness } = await runSideBySide(doublingSchema, 6);

    expect(await succeedAll({ x: "text" })).toBeGreaterThanOrEqual(6);

    expect((await tasks()).map(({ phase }) => phase)).toEqual(Array(6).fill("succeeded"));
    const warnings = (await harness.facts()).filter((fact) => fact.includes("warn"));
    expect(warnings.length).toBeGreaterThan(0);
    expect(harness.problems).toEqual([]);
  });

  it("[U803] many checks that are cheap alone do not hold the thread together, and one alone interrupts nothing", async () => {
    const many = await runSideBySide(listSchema, 60);
    const one = await runSideBySide(listSchema, 1);

    expect(await many.succeedAll({ x: list })).toBeGreaterThan(10);
    expect(await one.succeedAll({ x: list })).toBe(0);

    expect(
      (await many.tasks()).every(({ phase, state }) => phase === "succeeded" && !JSON.stringify(state).includes("E.RESULT")),
    ).toBe(true);
  });
});
