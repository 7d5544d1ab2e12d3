// Workers that run short, that are full, that say they are not well: what they get, what the log and the numbers say, what any replica
// can read of it. The words of the condition column are in core/condition.test.ts.
import { readCondition, type SendDrain } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, Harness } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

const drains = (world: Harness): [boolean, string][] =>
  world.effects.filter((effect): effect is SendDrain => effect.type === "drain").map(({ on, reason }) => [on, reason]);

const drain = (world: Harness, { worker }: Crew, on: boolean) =>
  world.ask({ type: "worker.drain", tenant: "t1", by: "me", worker, on });

async function started(): Promise<{ world: Harness; worker: Crew }> {
  const world = await new Harness().start();
  return { world, worker: await world.join("w") };
}

describe("a worker short of memory or disk", () => {
  it("[B32] gets nothing new from the threshold on, hears that it drains, and gets work again 5 points below", async () => {
    const { world, worker } = await started();

    await worker.beat([], true, { memPct: 89.9, diskPct: 94 });
    expect(drains(world)).toEqual([]);
    await worker.beat([], true, { memPct: 90, diskPct: 10 });
    const run = await world.run(chain(1));
    await worker.beat([], true, { memPct: 86, diskPct: 10 });
    await world.settle();
    expect(worker.sent).toEqual([]);
    expect(drains(world)).toEqual([[true, "short of memory"]]);

    await worker.beat([], true, { memPct: 85, diskPct: 10 });
    await world.settle();

    expect(worker.sent).toMatchObject([{ run }]);
    expect(drains(world)).toEqual([
      [true, "short of memory"],
      [false, "room again"],
    ]);
    expect(await world.told(worker.worker, "worker.strained")).toEqual([
      { memPct: 90, diskPct: 10, limit: { memPct: 90, diskPct: 95 } },
    ]);
    expect(await world.told(worker.worker, "worker.relieved")).toEqual([{ memPct: 85, diskPct: 10 }]);
  });

  it("[B39] is news for the scheduler's log, as one that is late, full or well again is", async () => {
    const { world, worker } = await started();
    const news = () => world.effects.flatMap((effect) => (effect.type === "worker" ? [[effect.event, effect.isRecovery]] : []));

    await worker.beat([], true, { memPct: 95, diskPct: 10 });
    await worker.beat([], true, { memPct: 10, diskPct: 10 });
    for (let second = 0; second < 11; second++) await world.advance(1_000);
    await worker.beat([], true);

    expect(news()).toEqual([
      ["worker.strained", false],
      ["worker.relieved", true],
      ["worker.liveness", false],
      ["worker.liveness", true],
    ]);
  });

  it("[P9] gets no task that comes in the same turn as the beat that says so", async () => {
    const { world, worker } = await started();
    const beat = {
      type: "worker.beat",
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      healthy: true,
      held: [],
      diskPct: 95,
    } as const;

    await Promise.all(world.askAll([beat, world.order(chain(1))]));
    await world.settle();

    expect(worker.sent).toEqual([]);
    expect(drains(world)).toEqual([[true, "short of disk"]]);
  });

  it("[B32] judges each of the two by itself: disk just below its threshold does not prolong a lack of memory", async () => {
    const { world, worker } = await started();

    await worker.beat([], true, { memPct: 95, diskPct: 94 });
    await worker.beat([], true, { memPct: 20, diskPct: 94 });

    expect(drains(world).map(([on]) => on)).toEqual([true, false]);
  });

  it("[B32] that no longer says how much it uses stays as it was", async () => {
    const { world, worker } = await started();
    await worker.beat([], true, { memPct: 95 });

    await worker.beat([]);

    expect(drains(world)).toHaveLength(1);
    expect(readCondition((await world.workerRow(worker.worker)).condition).strain).toBe("memory");
  });

  it("[B32] does not undo an operator's drain when it is relieved, nor the other way round", async () => {
    const { world, worker } = await started();
    await drain(world, worker, true);
    await worker.beat([], true, { memPct: 95 });
    await worker.beat([], true, { memPct: 10 });
    expect(drains(world)).toEqual([[true, "asked by me"]]);

    await worker.beat([], true, { memPct: 95 });
    await drain(world, worker, false);
    expect(drains(world)).toEqual([[true, "asked by me"]]);
    const run = await world.run(chain(1));
    await world.settle();
    expect(worker.sent).toEqual([]);
    await worker.beat([], true, { memPct: 10 });
    await world.settle();

    expect(drains(world).map(([on]) => on)).toEqual([true, false]);
    expect(worker.sent).toMatchObject([{ run }]);
  });

  it("[B32] hears an undrain asked of another scheduler only when it is relieved too", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const worker = await near.join("w");
    await drain(far, worker, true);
    await stage.pass(1);
    await worker.beat([], true, { memPct: 95 });

    await drain(far, worker, false);
    await stage.pass(1);
    expect(drains(near).map(([on]) => on)).toEqual([true]);
    await worker.beat([], true, { memPct: 10 });

    expect(drains(near).map(([on]) => on)).toEqual([true, false]);
  });

  it("[B32] is still short of it in its next session, and not as another process", async () => {
    const { world, worker } = await started();
    await worker.beat([], true, { memPct: 95 });

    const again = await world.join("w", { boot: worker.boot });
    expect(world.joined).toMatchObject({ draining: true });
    await world.run(chain(1));
    await world.settle();
    expect(again.sent).toEqual([]);
    const restarted = await world.join("w", { boot: "new" });
    await world.settle();

    expect(world.joined).toMatchObject({ draining: false });
    expect(restarted.sent).toHaveLength(1);
  });

  it("[B32] is judged by its tenant's own thresholds", async () => {
    const world = await new Harness({ settings: { tenants: { t2: { drainMemPct: 50 } } } }).start();
    const [one, two] = [await world.join("w"), await world.join("w", { tenant: "t2" })];

    await one.beat([], true, { memPct: 60 });
    await two.beat([], true, { memPct: 60 });

    expect(await world.told(one.worker, "worker.strained")).toEqual([]);
    expect(await world.told(two.worker, "worker.strained")).toMatchObject([{ memPct: 60, limit: { memPct: 50 } }]);
  });
});

describe("what a worker says of itself", () => {
  it("[B33] is in its row after each beat, for every replica to read", async () => {
    const { world, worker } = await started();
    await world.advance(3_000);

    await worker.beat([], false, { memPct: 95, vitals: '{"metrics":{"mem_pct":95}}' });

    expect(readCondition((await world.workerRow(worker.worker)).condition)).toEqual({
      healthy: false,
      strain: "memory",
      saturatedAt: null,
      vitals: { metrics: { mem_pct: 95 } },
      beatAt: world.now,
      session: worker.session,
      formerBoots: [],
      clones: [],
    });
  });

  it("[E16] counts beats of workers that are not well, and how late each beat was after its period", async () => {
    const { world, worker } = await started();
    await world.advance(8_000);
    await worker.beat([], false);
    await world.advance(12_500);
    await worker.beat([]);

    expect(world.counted("heartbeat_degraded_total")).toMatchObject([{ labels: { tenant: "t1", worker: "w" }, values: [1] }]);
    expect(world.counted("heartbeat_latency_ms").map(({ labels, values }) => [labels, values])).toEqual([
      [{ tenant: "t1" }, [0]],
      [{ tenant: "t1" }, [2_500]],
    ]);
  });
});

describe("a worker without a free slot", () => {
  async function full(slots = 1): Promise<{ world: Harness; worker: Crew }> {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots });
    for (let run = 0; run < slots; run++) await world.run(chain(1));
    await world.settle();
    for (const one of worker.sent) await worker.ack(one);
    return { world, worker };
  }
  async function pass(world: Harness, worker: Crew, span: number): Promise<void> {
    for (let passed = 1; passed <= span; passed++) {
      await world.advance(1_000);
      if (passed % 10 === 0) await worker.beat(null);
    }
  }

  it("[B34] is said to be saturated after 60 s, once, and unsaturated when a slot is free again", async () => {
    const { world, worker } = await full(2);
    await pass(world, worker, 60);
    expect(await world.told(worker.worker, "worker.saturated")).toEqual([]);
    await pass(world, worker, 30);

    expect(await world.told(worker.worker, "worker.saturated")).toEqual([{ slots: 2, sinceMs: 60_000 }]);
    expect(world.engine.gauge().saturated).toEqual({ t1: 1 });
    expect(world.counted("worker_saturated_total")).toMatchObject([{ labels: { tenant: "t1" } }]);
    expect(readCondition((await world.workerRow(worker.worker)).condition).saturatedAt).toBe(world.now - 90_000 + 1_000);

    await worker.done();
    await pass(world, worker, 2);
    expect(await world.told(worker.worker, "worker.unsaturated")).toEqual([{ slots: 2 }]);
    expect(world.engine.gauge().saturated).toEqual({});
    expect(readCondition((await world.workerRow(worker.worker)).condition).saturatedAt).toBeNull();
  });

  it("[B34] is not saturated when a look has found a free slot in between", async () => {
    const { world, worker } = await full();
    await pass(world, worker, 40);
    await worker.done();
    await pass(world, worker, 1);
    await world.run(chain(1));
    await world.settle();
    await worker.ack();

    await pass(world, worker, 40);

    expect(await world.told(worker.worker, "worker.saturated")).toEqual([]);
  });

  it("[B34] ends its episode in its next session, when it has a free slot there", async () => {
    const { world, worker } = await full();
    await pass(world, worker, 62);
    expect(world.engine.gauge().saturated).toEqual({ t1: 1 });

    const again = await world.join("w", { boot: worker.boot, running: [worker.last], slots: 2 });
    await pass(world, again, 2);

    expect(await world.told(worker.worker, "worker.unsaturated")).toHaveLength(1);
  });

  it("[P10] leaves work without a pin to any other that has room, and keeps pinned work waiting for itself", async () => {
    const stage = new Stage();
    const world = await stage.boot("r1");
    const worker = await world.join("w");
    await world.run(chain(1));
    await stage.pass(1);
    await worker.ack();
    for (let passed = 0; passed < 8; passed++) {
      await stage.pass(9);
      await worker.beat(null);
    }
    expect(world.engine.gauge().saturated).toEqual({ t1: 1 });
    const pinned = await world.run(chain(1));
    await stage.pin(world, pinned, worker.worker);

    const spare = await world.join("spare");
    const free = await world.run(chain(1));
    await stage.pass(3);

    expect(spare.sent).toMatchObject([{ run: free }]);
    expect(worker.sent).toHaveLength(1);
    await spare.done();
    await worker.done();
    await stage.pass(2);
    expect(worker.last.run).toBe(pinned);
    expect(spare.sent).toHaveLength(1);
  });
});
