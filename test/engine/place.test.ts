// Placement, lines, keys, priorities and fairness through the real driver.
import { describe, expect, it } from "vitest";
import { chain, graph, Harness } from "./harness.ts";

describe("placement", () => {
  it("[P1] never gives a worker more than its slots, and fills a slot the moment it is free", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 2 });
    for (let run = 0; run < 5; run++) await world.run(chain(1));
    await world.settle();
    expect(worker.sent).toHaveLength(2);

    await worker.done({}, worker.sent[0]);

    expect(worker.sent).toHaveLength(3);
  });

  it("[P2] gives nothing to a worker that drains, is unhealthy, of another tenant or without the package", async () => {
    const world = await new Harness().start();
    const draining = await world.join("draining");
    await world.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: draining.worker, on: true });
    const sick = await world.join("sick");
    await sick.beat([], false);
    await world.join("foreign", { tenant: "t2" });
    await world.join("bare", { packages: [] });
    await world.join("broken", { packages: [{ name: "test", version: "1.0.0", status: "failed" }] });

    await world.run(chain(1));
    await world.settle();
    expect(world.dispatches()).toHaveLength(0);
    await world.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: draining.worker, on: false });
    await world.settle();

    expect(world.dispatches().map((one) => one.worker)).toEqual([draining.worker]);
  });

  it("[P3] routes by pool and tags", async () => {
    const world = await new Harness().start();
    await world.join("plain");
    const gpu = await world.join("gpu", { pool: "gpu", tags: { zone: "b" } });

    await world.run(chain(1, { policy: { pool: "gpu", tags: { zone: "b" } } }));
    await world.settle();

    expect(world.dispatches().map((one) => one.worker)).toEqual([gpu.worker]);
  });

  it("[P4] serves lower priority numbers first, and equal ones in the order they became ready", async () => {
    const world = await new Harness().start();
    const [late, first, second, urgent] = [
      await world.run(chain(1), { priority: 9 }),
      await world.run(chain(1)),
      await world.run(chain(1)),
      await world.run(chain(1), { priority: 0 }),
    ];
    const worker = await world.join("w");
    await world.settle();

    for (let task = 0; task < 3; task++) await worker.done();

    expect(worker.sent.map((dispatch) => dispatch.run)).toEqual([urgent, first, second, late]);
  });

  it("[P5] does not let a fresh successor overtake tasks that stand in line", async () => {
    const world = await new Harness().start();
    const one = await world.run(chain(2));
    const two = await world.run(chain(2));
    const worker = await world.join("w");
    await world.settle();

    for (let task = 0; task < 3; task++) await worker.done();

    expect(worker.sent.map((dispatch) => dispatch.run)).toEqual([one, two, one, two]);
  });

  it("[P6] spreads work over fitting workers", async () => {
    const world = await new Harness().start();
    for (const name of ["a", "b", "c"]) await world.join(name, { slots: 4 });

    await Promise.all(world.askAll(Array.from({ length: 6 }, () => world.order(chain(1)))));
    await world.settle();

    expect(["t1/a", "t1/b", "t1/c"].map((worker) => world.dispatches(worker).length)).toEqual([2, 2, 2]);
  });

  it("[P7] keeps a worker's own limit for one node type", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 5, perNodeLimits: { "test.heavy": 1 } });

    await world.run(graph([{ type: "test.heavy" }, { type: "test.heavy" }, { type: "test.light" }], []));
    await world.settle();

    expect(worker.sent.map((dispatch) => dispatch.nodeType).sort()).toEqual(["test.heavy", "test.light"]);
  });

  it("[P8] finds work for a worker that learns a package while connected", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { packages: [] });
    await world.run(chain(1));
    await world.settle();
    expect(world.dispatches()).toHaveLength(0);

    const { about } = await import("./harness.ts");
    await world.ask({ type: "worker.describe", tenant: "t1", worker: worker.worker, session: worker.session, about: about() });
    await world.settle();

    expect(worker.sent).toHaveLength(1);
  });
});

describe("concurrency keys", () => {
  const single = { policy: { concurrency: { key: "printer", limit: 1 } } };

  it("[K1] lets no more tasks of a key run than its limit, across runs and workers, and readies the next in the same turn", async () => {
    const world = await new Harness().start();
    const a = await world.join("a", { slots: 3 });
    const b = await world.join("b", { slots: 3 });
    for (let run = 0; run < 3; run++) await world.run(chain(1, single));
    await world.settle();
    expect(world.dispatches()).toHaveLength(1);
    const turns = world.engine.gauge().turns;

    const holder = world.dispatches()[0]?.worker === a.worker ? a : b;
    await holder.done();

    expect(world.dispatches()).toHaveLength(2);
    expect(world.engine.gauge().turns).toBe(turns + 1);
  });

  it("[K6] lets a key with room for more run side by side on one worker, and tells the worker a key of its own for each", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    const pair = { policy: { concurrency: { key: "pair", limit: 2 } } };
    for (let run = 0; run < 3; run++) await world.run(chain(1, pair));
    await world.run(chain(1, single));
    await world.settle();

    const keys = worker.sent.map((dispatch) => dispatch.concurrencyKey);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(3);
    expect(keys).toContain("printer");
  });

  it("[K2] keeps keys of two tenants apart", async () => {
    const world = await new Harness().start();
    await world.join("a");
    await world.join("b", { tenant: "t2" });

    await world.run(chain(1, single));
    await world.run(chain(1, single), { tenant: "t2" });
    await world.settle();

    expect(world.dispatches()).toHaveLength(2);
  });

  it("[K3] gives the key on when its holder is cancelled, fails, times out or waits for a retry", async () => {
    for (const end of ["cancel", "fail", "timeout", "retry"] as const) {
      const world = await new Harness().start();
      const worker = await world.join("w", { slots: 3 });
      const policy = {
        ...single.policy,
        ...(end === "timeout" ? { timeoutMs: 1_000 } : {}),
        ...(end === "retry" ? { retry: { maxAttempts: 2, backoffMs: 60_000 } } : {}),
      };
      const first = await world.run(chain(1, { policy }));
      const second = await world.run(chain(1, { policy }));
      await world.settle();
      await worker.ack();

      if (end === "cancel") await world.ask({ type: "run.cancel", tenant: "t1", by: "x", run: first, reason: "x" });
      if (end === "fail" || end === "retry") await worker.error("E.RUNNER.FAILURE");
      if (end === "timeout") await world.advance(1_001);
      await world.settle();

      expect([end, worker.sent.map((dispatch) => dispatch.run)]).toEqual([end, [first, second]]);
    }
  });

  it("[K4] keeps the key over a lost attempt: the task goes back into line before anyone else gets it", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    const first = await world.run(chain(1, single));
    await world.run(chain(1, single));
    await world.settle();

    await world.advance(5_001);

    expect(worker.sent.map((dispatch) => dispatch.run)).toEqual([first, first]);
  });

  it("[K5] cancels tasks that wait for a key, and the key moves past them", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    await world.run(chain(1, single));
    const waiting = await world.run(chain(1, single));
    const last = await world.run(chain(1, single));
    await world.settle();

    await world.ask({ type: "run.cancel", tenant: "t1", by: "x", run: waiting, reason: "x" });
    await worker.done();

    expect(worker.last.run).toBe(last);
  });
});

describe("tenants", () => {
  it("[T1] takes commands of tenants in turn, so a flood of one does not make the other wait", async () => {
    const world = await new Harness({ settings: { turnCommandsMax: 8 } }).start();
    const answered: string[] = [];
    const flood = Array.from({ length: 200 }, () => world.order(chain(1), { tenant: "loud" }));

    const all = [
      ...world.askAll(flood).map((one) => one.then(() => answered.push("loud"))),
      world.run(chain(1), { tenant: "quiet" }).then(() => answered.push("quiet")),
    ];
    await Promise.all(all);

    // The first turn had begun when it came; it is in the second.
    expect(answered.indexOf("quiet")).toBeLessThan(16);
  });

  it("[T2] refuses more commands than may wait with E.OVERLOADED, and loses none it took", async () => {
    const world = await new Harness({ settings: { inboxMax: 10 } }).start();

    const all = await Promise.allSettled(world.askAll(Array.from({ length: 30 }, () => world.order(chain(1)))));

    const taken = all.filter((one) => one.status === "fulfilled").length;
    const refused = all.filter(
      (one) => one.status === "rejected" && (one.reason as { code: string }).code === "E.OVERLOADED",
    ).length;
    expect(taken + refused).toBe(30);
    expect(refused).toBeGreaterThan(0);
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 100 })).items).toHaveLength(taken);
  });
});
