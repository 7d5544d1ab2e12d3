// Workers that run short, that are full, that report themselves unhealthy: what they get, what the log and the metrics show, what any replica
// can read of it. The values of the condition column are in core/condition.test.ts.
import { readCondition, type SendDrain } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const drainsSent = (harness: EngineHarness): [boolean, string][] =>
  harness.effects.filter((effect): effect is SendDrain => effect.type === "drain").map(({ on, reason }) => [on, reason]);

const drainWorker = (harness: EngineHarness, { worker }: TestWorker, on: boolean) =>
  harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker, on });

async function startHarness(): Promise<{ world: EngineHarness; worker: TestWorker }> {
  const harness = await new EngineHarness().start();
  return { world: harness, worker: await harness.joinWorker("w") };
}

describe("a worker short of memory or disk", () => {
  it("[B32] a worker short of memory is drained at the threshold and gets work again 5 points below it", async () => {
    const { world: harness, worker } = await startHarness();

    await worker.heartbeat([], true, { memPct: 89.9, diskPct: 94 });
    expect(drainsSent(harness)).toEqual([]);
    await worker.heartbeat([], true, { memPct: 90, diskPct: 10 });
    const run = await harness.startRun(buildChain(1));
    await worker.heartbeat([], true, { memPct: 86, diskPct: 10 });
    await harness.settle();
    expect(worker.dispatchesSent).toEqual([]);
    expect(drainsSent(harness)).toEqual([[true, "short of memory"]]);

    await worker.heartbeat([], true, { memPct: 85, diskPct: 10 });
    await harness.settle();

    expect(worker.dispatchesSent).toMatchObject([{ run }]);
    expect(drainsSent(harness)).toEqual([
      [true, "short of memory"],
      [false, "room again"],
    ]);
    expect(await harness.workerFacts(worker.worker, "worker.strained")).toEqual([
      { memPct: 90, diskPct: 10, limit: { memPct: 90, diskPct: 95 } },
    ]);
    expect(await harness.workerFacts(worker.worker, "worker.relieved")).toEqual([{ memPct: 85, diskPct: 10 }]);
  });

  it("[B39] resource pressure, missed heartbeats and the recovery from each are emitted as worker events", async () => {
    const { world: harness, worker } = await startHarness();
    const news = () => harness.effects.flatMap((effect) => (effect.type === "worker" ? [[effect.event, effect.isRecovery]] : []));

    await worker.heartbeat([], true, { memPct: 95, diskPct: 10 });
    await worker.heartbeat([], true, { memPct: 10, diskPct: 10 });
    for (let second = 0; second < 11; second++) await harness.advance(1_000);
    await worker.heartbeat([], true);

    expect(news()).toEqual([
      ["worker.strained", false],
      ["worker.relieved", true],
      ["worker.liveness", false],
      ["worker.liveness", true],
    ]);
  });

  it("[P9] a worker gets no task in the turn of the heartbeat that reports resource pressure", async () => {
    const { world: harness, worker } = await startHarness();
    const beat = {
      type: "worker.beat",
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      healthy: true,
      held: [],
      diskPct: 95,
    } as const;

    await Promise.all(harness.askAll([beat, harness.startCommand(buildChain(1))]));
    await harness.settle();

    expect(worker.dispatchesSent).toEqual([]);
    expect(drainsSent(harness)).toEqual([[true, "short of disk"]]);
  });

  it("[B32] memory and disk are judged separately: disk just below its threshold does not prolong memory pressure", async () => {
    const { world: harness, worker } = await startHarness();

    await worker.heartbeat([], true, { memPct: 95, diskPct: 94 });
    await worker.heartbeat([], true, { memPct: 20, diskPct: 94 });

    expect(drainsSent(harness).map(([on]) => on)).toEqual([true, false]);
  });

  it("[B32] a worker that stops reporting its usage keeps its pressure state", async () => {
    const { world: harness, worker } = await startHarness();
    await worker.heartbeat([], true, { memPct: 95 });

    await worker.heartbeat([]);

    expect(drainsSent(harness)).toHaveLength(1);
    expect(readCondition((await harness.workerRow(worker.worker)).condition).strain).toBe("memory");
  });

  it("[B32] the end of resource pressure does not undo an operator's drain, nor the reverse", async () => {
    const { world: harness, worker } = await startHarness();
    await drainWorker(harness, worker, true);
    await worker.heartbeat([], true, { memPct: 95 });
    await worker.heartbeat([], true, { memPct: 10 });
    expect(drainsSent(harness)).toEqual([[true, "asked by me"]]);

    await worker.heartbeat([], true, { memPct: 95 });
    await drainWorker(harness, worker, false);
    expect(drainsSent(harness)).toEqual([[true, "asked by me"]]);
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    expect(worker.dispatchesSent).toEqual([]);
    await worker.heartbeat([], true, { memPct: 10 });
    await harness.settle();

    expect(drainsSent(harness).map(([on]) => on)).toEqual([true, false]);
    expect(worker.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[B32] an undrain requested at another scheduler reaches a worker only once its resource pressure is over", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await near.joinWorker("w");
    await drainWorker(far, worker, true);
    await cluster.passSeconds(1);
    await worker.heartbeat([], true, { memPct: 95 });

    await drainWorker(far, worker, false);
    await cluster.passSeconds(1);
    expect(drainsSent(near).map(([on]) => on)).toEqual([true]);
    await worker.heartbeat([], true, { memPct: 10 });

    expect(drainsSent(near).map(([on]) => on)).toEqual([true, false]);
  });

  it("[B32] a worker's resource pressure outlasts its session but not its process", async () => {
    const { world: harness, worker } = await startHarness();
    await worker.heartbeat([], true, { memPct: 95 });

    const again = await harness.joinWorker("w", { boot: worker.boot });
    expect(harness.lastJoinAnswer).toMatchObject({ draining: true });
    await harness.startRun(buildChain(1));
    await harness.settle();
    expect(again.dispatchesSent).toEqual([]);
    const restarted = await harness.joinWorker("w", { boot: "new" });
    await harness.settle();

    expect(harness.lastJoinAnswer).toMatchObject({ draining: false });
    expect(restarted.dispatchesSent).toHaveLength(1);
  });

  it("[B32] resource pressure is judged by the thresholds of the worker's tenant", async () => {
    const harness = await new EngineHarness({ settings: { tenants: { t2: { drainMemPct: 50 } } } }).start();
    const [one, two] = [await harness.joinWorker("w"), await harness.joinWorker("w", { tenant: "t2" })];

    await one.heartbeat([], true, { memPct: 60 });
    await two.heartbeat([], true, { memPct: 60 });

    expect(await harness.workerFacts(one.worker, "worker.strained")).toEqual([]);
    expect(await harness.workerFacts(two.worker, "worker.strained")).toMatchObject([{ memPct: 60, limit: { memPct: 50 } }]);
  });
});

describe("what a worker says of itself", () => {
  it("[B33] a worker's health and vitals are stored with each heartbeat, for every replica to read", async () => {
    const { world: harness, worker } = await startHarness();
    await harness.advance(3_000);

    await worker.heartbeat([], false, { memPct: 95, vitals: '{"metrics":{"mem_pct":95}}' });

    expect(readCondition((await harness.workerRow(worker.worker)).condition)).toEqual({
      healthy: false,
      strain: "memory",
      saturatedAt: null,
      vitals: { metrics: { mem_pct: 95 } },
      beatAt: harness.now,
      session: worker.session,
      formerBoots: [],
      clones: [],
    });
  });

  it("[E16] heartbeats of unhealthy workers are counted, and the lateness of each heartbeat after its period is measured", async () => {
    const { world: harness, worker } = await startHarness();
    await harness.advance(8_000);
    await worker.heartbeat([], false);
    await harness.advance(12_500);
    await worker.heartbeat([]);

    expect(harness.countersNamed("heartbeat_degraded_total")).toMatchObject([
      { labels: { tenant: "t1", worker: "w" }, values: [1] },
    ]);
    expect(harness.countersNamed("heartbeat_latency_ms").map(({ labels, values }) => [labels, values])).toEqual([
      [{ tenant: "t1" }, [0]],
      [{ tenant: "t1" }, [2_500]],
    ]);
  });
});

describe("a worker without a free slot", () => {
  async function full(slots = 1): Promise<{ world: EngineHarness; worker: TestWorker }> {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots });
    for (let run = 0; run < slots; run++) await harness.startRun(buildChain(1));
    await harness.settle();
    for (const one of worker.dispatchesSent) await worker.ack(one);
    return { world: harness, worker };
  }
  async function pass(harness: EngineHarness, worker: TestWorker, span: number): Promise<void> {
    for (let passed = 1; passed <= span; passed++) {
      await harness.advance(1_000);
      if (passed % 10 === 0) await worker.heartbeat(null);
    }
  }

  it("[B34] a worker without a free slot for 60 s is reported as saturated once, and as unsaturated when a slot is free", async () => {
    const { world: harness, worker } = await full(2);
    await pass(harness, worker, 60);
    expect(await harness.workerFacts(worker.worker, "worker.saturated")).toEqual([]);
    await pass(harness, worker, 30);

    expect(await harness.workerFacts(worker.worker, "worker.saturated")).toEqual([{ slots: 2, sinceMs: 60_000 }]);
    expect(harness.engine.gauge().saturated).toEqual({ t1: 1 });
    expect(harness.countersNamed("worker_saturated_total")).toMatchObject([{ labels: { tenant: "t1" } }]);
    expect(readCondition((await harness.workerRow(worker.worker)).condition).saturatedAt).toBe(harness.now - 90_000 + 1_000);

    await worker.succeed();
    await pass(harness, worker, 2);
    expect(await harness.workerFacts(worker.worker, "worker.unsaturated")).toEqual([{ slots: 2 }]);
    expect(harness.engine.gauge().saturated).toEqual({});
    expect(readCondition((await harness.workerRow(worker.worker)).condition).saturatedAt).toBeNull();
  });

  it("[B34] a worker seen with a free slot in between is not reported as saturated", async () => {
    const { world: harness, worker } = await full();
    await pass(harness, worker, 40);
    await worker.succeed();
    await pass(harness, worker, 1);
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();

    await pass(harness, worker, 40);

    expect(await harness.workerFacts(worker.worker, "worker.saturated")).toEqual([]);
  });

  it("[B34] saturation ends in the worker's next session if it has a free slot there", async () => {
    const { world: harness, worker } = await full();
    await pass(harness, worker, 62);
    expect(harness.engine.gauge().saturated).toEqual({ t1: 1 });

    const again = await harness.joinWorker("w", { boot: worker.boot, running: [worker.lastDispatch], slots: 2 });
    await pass(harness, again, 2);

    expect(await harness.workerFacts(worker.worker, "worker.unsaturated")).toHaveLength(1);
  });

  it("[P10] unpinned tasks go to other workers while a worker is full, and tasks pinned to it wait for it", async () => {
    const cluster = new EngineCluster();
    const harness = await cluster.startEngine("r1");
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await cluster.passSeconds(1);
    await worker.ack();
    for (let passed = 0; passed < 8; passed++) {
      await cluster.passSeconds(9);
      await worker.heartbeat(null);
    }
    expect(harness.engine.gauge().saturated).toEqual({ t1: 1 });
    const pinned = await harness.startRun(buildChain(1));
    await cluster.pinFirstTask(harness, pinned, worker.worker);

    const spare = await harness.joinWorker("spare");
    const free = await harness.startRun(buildChain(1));
    await cluster.passSeconds(3);

    expect(spare.dispatchesSent).toMatchObject([{ run: free }]);
    expect(worker.dispatchesSent).toHaveLength(1);
    await spare.succeed();
    await worker.succeed();
    await cluster.passSeconds(2);
    expect(worker.lastDispatch.run).toBe(pinned);
    expect(spare.dispatchesSent).toHaveLength(1);
  });
});
