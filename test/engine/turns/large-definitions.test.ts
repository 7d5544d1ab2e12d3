// Definitions that take long to compile, and turns that follow each other: the thread is never held for long.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

/** Above what is compiled at once. */
const largeChain = () => buildChain(40, { params: { text: "x".repeat(10_000) } });

describe("large definitions", () => {
  it("[U610] a large definition is compiled in steps between which the thread is free, once for all of its runs", async () => {
    let pauses = 0;
    const harness = await new EngineHarness({ yieldLoop: async () => void (pauses += 1) }).start();
    const worker = await harness.joinWorker("w", { slots: 1 });

    const run = await harness.startRun(largeChain());
    const pausesOfFirst = pauses;
    await harness.startRun(largeChain());

    expect(pausesOfFirst).toBeGreaterThan(2);
    expect(pauses).toBe(pausesOfFirst);
    await worker.succeed({ out: 1 });
    await harness.settle();
    expect((await harness.runDetail(run)).tasks.length).toBeGreaterThan(1);
  });

  it("[U610] one turn decides about more large definitions than the cache holds", async () => {
    const harness = await new EngineHarness().start();
    const text = "y".repeat(9_000_000);
    const workflows = Array.from({ length: 5 }, (_, at) => ({
      ...buildChain(1, { params: { text } }),
      metadata: { name: `large ${at}` },
    }));

    const runs = await Promise.all(workflows.map((workflow) => harness.startRun(workflow)));

    expect(new Set(runs).size).toBe(5);
    expect(harness.problems).toEqual([]);
  });
});

describe("turns that follow each other", () => {
  it("[U611] an engine whose turns follow each other without end lets the thread go every 20 ms", async () => {
    let pauses = 0;
    const harness = await new EngineHarness({
      settings: { sweepTasksMax: 10 },
      yieldLoop: async () => void (pauses += 1),
    }).start();
    const nodes = Array.from({ length: 300 }, (_, at) => at);
    const wide = buildChain(1);
    const template = (wide["nodes"] as object[])[0];
    const many = nodes.map((at) => ({ ...template, id: `00000000-0000-4000-8000-${String(at).padStart(12, "0")}` }));
    const { engine } = harness;
    const before = engine.gauge().turns;
    // Each look at the clock is 10 ms later than the one before.
    const start = harness.now;
    let looks = 0;
    Object.defineProperty(harness, "now", { get: () => start + 10 * looks++ });

    await harness.startRun({ ...wide, nodes: many, edges: [] });
    await harness.settle();

    const turns = engine.gauge().turns - before;
    expect(turns).toBeGreaterThan(20);
    expect(pauses).toBeGreaterThan(turns / 10);
  });
});
