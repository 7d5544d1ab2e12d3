// Placement, lines, keys, priorities and fairness through the real driver.
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness } from "../harness/engine-harness.ts";

describe("placement", () => {
  it("[P1] the engine never gives a worker more tasks than its slots, and fills a slot the moment it is free", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 2 });
    for (let run = 0; run < 5; run++) await harness.startRun(buildChain(1));
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(2);

    await worker.succeed({}, worker.dispatchesSent[0]);

    expect(worker.dispatchesSent).toHaveLength(3);
  });

  it("[P2] the engine gives no task to a worker that is draining, unhealthy, of another tenant or without the package", async () => {
    const harness = await new EngineHarness().start();
    const draining = await harness.joinWorker("draining");
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: draining.worker, on: true });
    const sick = await harness.joinWorker("sick");
    await sick.heartbeat([], false);
    await harness.joinWorker("foreign", { tenant: "t2" });
    await harness.joinWorker("bare", { packages: [] });
    await harness.joinWorker("broken", { packages: [{ name: "test", version: "1.0.0", status: "failed" }] });

    await harness.startRun(buildChain(1));
    await harness.settle();
    expect(harness.dispatches()).toHaveLength(0);
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: draining.worker, on: false });
    await harness.settle();

    expect(harness.dispatches().map((one) => one.worker)).toEqual([draining.worker]);
  });

  it("[P3] the engine routes tasks by pool and tags", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("plain");
    const gpu = await harness.joinWorker("gpu", { pool: "gpu", tags: { zone: "b" } });

    await harness.startRun(buildChain(1, { policy: { pool: "gpu", tags: { zone: "b" } } }));
    await harness.settle();

    expect(harness.dispatches().map((one) => one.worker)).toEqual([gpu.worker]);
  });

  it("[P4] the engine grants tasks with lower priority numbers first, and equal ones in the order they became ready", async () => {
    const harness = await new EngineHarness().start();
    const [late, first, second, urgent] = [
      await harness.startRun(buildChain(1), { priority: 9 }),
      await harness.startRun(buildChain(1)),
      await harness.startRun(buildChain(1)),
      await harness.startRun(buildChain(1), { priority: 0 }),
    ];
    const worker = await harness.joinWorker("w");
    await harness.settle();

    for (let task = 0; task < 3; task++) await worker.succeed();

    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toEqual([urgent, first, second, late]);
  });

  it("[P5] a successor that just became ready does not overtake tasks that are queued already", async () => {
    const harness = await new EngineHarness().start();
    const one = await harness.startRun(buildChain(2));
    const two = await harness.startRun(buildChain(2));
    const worker = await harness.joinWorker("w");
    await harness.settle();

    for (let task = 0; task < 3; task++) await worker.succeed();

    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toEqual([one, two, one, two]);
  });

  it("[P6] the engine spreads tasks evenly over the workers that can run them", async () => {
    const harness = await new EngineHarness().start();
    for (const name of ["a", "b", "c"]) await harness.joinWorker(name, { slots: 4 });

    await Promise.all(harness.askAll(Array.from({ length: 6 }, () => harness.startCommand(buildChain(1)))));
    await harness.settle();

    expect(["t1/a", "t1/b", "t1/c"].map((worker) => harness.dispatches(worker).length)).toEqual([2, 2, 2]);
  });

  it("[P7] the engine keeps to a worker's own limit for one node type", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 5, perNodeLimits: { "test.heavy": 1 } });

    await harness.startRun(buildWorkflow([{ type: "test.heavy" }, { type: "test.heavy" }, { type: "test.light" }], []));
    await harness.settle();

    expect(worker.dispatchesSent.map((dispatch) => dispatch.nodeType).sort()).toEqual(["test.heavy", "test.light"]);
  });

  it("[P8] a worker that gets a package while connected is given the waiting task of that package", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { packages: [] });
    await harness.startRun(buildChain(1));
    await harness.settle();
    expect(harness.dispatches()).toHaveLength(0);

    const { describeWorker: about } = await import("../harness/engine-harness.ts");
    await harness.ask({ type: "worker.describe", tenant: "t1", worker: worker.worker, session: worker.session, about: about() });
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[P4] tasks of several queues are granted in the order they became ready, whichever run is the older", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const older = await harness.startRun(buildWorkflow([{ type: "test.a" }, { type: "test.b" }], [[0, 1]]));
    await harness.settle();
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });
    const younger = await harness.startRun(buildChain(1, { type: "test.c" }));
    await worker.succeed({});
    await harness.settle();

    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: false });
    await harness.settle();
    expect(worker.lastDispatch.run).toBe(younger);
    await worker.succeed({});
    await harness.settle();

    expect(worker.lastDispatch.run).toBe(older);
  });
});

describe("concurrency keys", () => {
  const single = { policy: { concurrency: { key: "printer", limit: 1 } } };

  it("[K1] no more tasks of a concurrency key run than its limit, across runs and workers, and the next is granted in the same turn", async () => {
    const harness = await new EngineHarness().start();
    const a = await harness.joinWorker("a", { slots: 3 });
    const b = await harness.joinWorker("b", { slots: 3 });
    for (let run = 0; run < 3; run++) await harness.startRun(buildChain(1, single));
    await harness.settle();
    expect(harness.dispatches()).toHaveLength(1);
    const turns = harness.engine.gauge().turns;

    const holder = harness.dispatches()[0]?.worker === a.worker ? a : b;
    await holder.succeed();

    expect(harness.dispatches()).toHaveLength(2);
    expect(harness.engine.gauge().turns).toBe(turns + 1);
  });

  it("[K1] the limit that the last task of a concurrency key names counts: raised it lets more in, lowered it takes effect as holders leave", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 9 });
    const startWith = (limit: number) => harness.startRun(buildChain(1, { policy: { concurrency: { key: "db", limit } } }));
    await startWith(1);
    await startWith(3);
    await startWith(3);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(3);
    await startWith(2);
    await startWith(2);
    const [first, second] = worker.dispatchesSent;
    await worker.succeed({}, first);
    await harness.settle();
    expect((await harness.store.page({ page: "key", tenant: "t1", key: "db" })).key).toMatchObject({ limit: 3 });
    await worker.succeed({}, second);
    await harness.settle();
    // Of the five one has ended with its place passed on, then another.
    expect(worker.dispatchesSent).toHaveLength(5);

    for (const dispatch of worker.dispatchesSent.slice(2)) await worker.succeed({}, dispatch);
    await startWith(2);
    await startWith(2);
    await startWith(2);
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(7);
    expect((await harness.store.page({ page: "key", tenant: "t1", key: "db" })).key).toMatchObject({ limit: 2 });
    await worker.succeed({}, worker.dispatchesSent[5]);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(8);
  });

  it("[K6] tasks of a concurrency key with a higher limit run side by side on one worker, each dispatched with a key of its own", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const pair = { policy: { concurrency: { key: "pair", limit: 2 } } };
    for (let run = 0; run < 3; run++) await harness.startRun(buildChain(1, pair));
    await harness.startRun(buildChain(1, single));
    await harness.settle();

    const keys = worker.dispatchesSent.map((dispatch) => dispatch.concurrencyKey);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(3);
    expect(keys).toContain("printer");
  });

  it("[K2] equal concurrency keys of two tenants are independent", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("a");
    await harness.joinWorker("b", { tenant: "t2" });

    await harness.startRun(buildChain(1, single));
    await harness.startRun(buildChain(1, single), { tenant: "t2" });
    await harness.settle();

    expect(harness.dispatches()).toHaveLength(2);
  });

  it("[K3] a concurrency key passes to the next task when its holder is cancelled, fails, times out or waits for a retry", async () => {
    for (const end of ["cancel", "fail", "timeout", "retry"] as const) {
      const harness = await new EngineHarness().start();
      const worker = await harness.joinWorker("w", { slots: 3 });
      const policy = {
        ...single.policy,
        ...(end === "timeout" ? { timeoutMs: 1_000 } : {}),
        ...(end === "retry" ? { retry: { maxAttempts: 2, backoffMs: 60_000 } } : {}),
      };
      const first = await harness.startRun(buildChain(1, { policy }));
      const second = await harness.startRun(buildChain(1, { policy }));
      await harness.settle();
      await worker.ack();

      if (end === "cancel") await harness.ask({ type: "run.cancel", tenant: "t1", by: "x", run: first, reason: "x" });
      if (end === "fail" || end === "retry") await worker.error("E.RUNNER.FAILURE");
      if (end === "timeout") await harness.advance(1_001);
      await harness.settle();

      expect([end, worker.dispatchesSent.map((dispatch) => dispatch.run)]).toEqual([end, [first, second]]);
    }
  });

  it("[K4] a task keeps its concurrency key over a lost attempt and is queued again before another task gets the key", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const first = await harness.startRun(buildChain(1, single));
    await harness.startRun(buildChain(1, single));
    await harness.settle();

    await harness.advance(5_001);

    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toEqual([first, first]);
  });

  it("[K5] a concurrency key passes over cancelled tasks that waited for it", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    await harness.startRun(buildChain(1, single));
    const waiting = await harness.startRun(buildChain(1, single));
    const last = await harness.startRun(buildChain(1, single));
    await harness.settle();

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "x", run: waiting, reason: "x" });
    await worker.succeed();

    expect(worker.lastDispatch.run).toBe(last);
  });
});

describe("tenants", () => {
  it("[T1] the engine takes commands of tenants in turn, so a flood from one does not make the other wait", async () => {
    const harness = await new EngineHarness({ settings: { turnCommandsMax: 8 } }).start();
    const answered: string[] = [];
    const flood = Array.from({ length: 200 }, () => harness.startCommand(buildChain(1), { tenant: "loud" }));

    const all = [
      ...harness.askAll(flood).map((one) => one.then(() => answered.push("loud"))),
      harness.startRun(buildChain(1), { tenant: "quiet" }).then(() => answered.push("quiet")),
    ];
    await Promise.all(all);

    // The first turn had begun when it came; it is in the second.
    expect(answered.indexOf("quiet")).toBeLessThan(16);
  });

  it("[T2] the engine refuses more commands than may wait with E.OVERLOADED, and loses none it accepted", async () => {
    const harness = await new EngineHarness({ settings: { inboxMax: 10 } }).start();

    const all = await Promise.allSettled(harness.askAll(Array.from({ length: 30 }, () => harness.startCommand(buildChain(1)))));

    const taken = all.filter((one) => one.status === "fulfilled").length;
    const refused = all.filter(
      (one) => one.status === "rejected" && (one.reason as { code: string }).code === "E.OVERLOADED",
    ).length;
    expect(taken + refused).toBe(30);
    expect(refused).toBeGreaterThan(0);
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 100 })).items).toHaveLength(taken);
  });
});
