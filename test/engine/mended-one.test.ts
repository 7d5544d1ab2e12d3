// Bugs of one scheduler that bad weather found, each as the small story that shows it. Two schedulers on one store are in
// mended-two-schedulers.test.ts; the general rules stand in life, place, fence and driver.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { about, chain, graph, Harness } from "./harness.ts";
import { answersOf, hear, passThrough, Stage } from "./mended-stage.ts";

/** Tasks side by side, none waiting for another. */
const fan = (count: number, node = {}) =>
  graph(
    Array.from({ length: count }, () => node),
    [],
  );

/** A node of which one runs at a time, whatever run it belongs to. */
const single = { policy: { concurrency: { key: "printer", limit: 1 } } };

describe("ends of runs with more tasks than a sweep takes", () => {
  it("[E10] a failing run is closed only when none of its tasks is open", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await world.join("w");
    const run = await world.run(fan(35));
    await world.settle();

    await worker.error("E.RUNNER.FAILURE");
    await world.settle();

    const { run: row, tasks } = await world.detail(run);
    expect(row.phase).toBe("failed");
    expect(tasks).toHaveLength(35);
    expect(tasks.filter((task) => task.endedAt === null)).toEqual([]);
  });

  it("[E10] the tasks of a failed run do not block their line for the runs behind it", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await world.join("w");
    await world.run(fan(35));
    await world.settle();

    await worker.error("E.RUNNER.FAILURE");
    const next = await world.run(chain(1));
    for (let second = 0; second < 5; second++) {
      await worker.beat([]);
      await world.advance(1_000);
    }

    expect(worker.last.run).toBe(next);
  });

  it("[E10] passed deadlines of an ending run's tasks hold up neither its sweep nor the deadlines of other runs", async () => {
    const stage = new Stage();
    const world = await stage.boot("r1", { settings: { sweepTasksMax: 2, dueMax: 3 } });
    const run = await world.run(fan(12, { policy: { queueTimeoutMs: 3_000 } }));
    const other = await world.run(chain(1), { timeoutMs: 3_500 });

    stage.skip(3_001);
    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await stage.pass(5);

    expect(stage.isSpinning).toBe(false);
    expect((await world.detail(run)).run.phase).toBe("cancelled");
    expect((await world.detail(other)).run.phase).toBe("failed");
  });
});

describe("keys and lines", () => {
  it("[K3] a task that its worker reports as cancelled gives its key on", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    await world.run(chain(1, single));
    const next = await world.run(chain(1, single));
    await world.settle();
    expect(worker.sent).toHaveLength(1);

    await world.ask(worker.resultCommand(worker.last, {}, "cancelled"));
    await world.settle();

    expect(worker.last.run).toBe(next);
  });

  it("[P4] an urgent task is served although more lines have work than one turn asks for", async () => {
    const world = await new Harness({ settings: { claimLinesMax: 1 } }).start();
    const worker = await world.join("w");
    for (let early = 0; early < 3; early++) await world.run(chain(1, { type: "crowded" }));
    const urgent = await world.run(chain(1, { type: "quiet" }), { priority: 0 });

    for (let late = 0; late < 12; late++) {
      await world.run(chain(1, { type: "crowded" }));
      await worker.done();
      await world.settle();
    }

    expect(worker.sent.map((dispatch) => dispatch.run)).toContain(urgent);
  });
});

describe("workers that change in the turn in which a task comes", () => {
  it("[P2] a worker that is lost in the turn of an order is not given its task", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    await world.run(chain(1));
    await world.settle();
    await worker.done();
    for (let second = 0; second < 29; second++) await world.advance(1_000);
    expect(await world.facts("t1", `worker/${worker.worker}`)).not.toContain("worker.lost");

    world.now += 2_000;
    const run = await world.run(chain(1));

    expect(await world.facts("t1", `worker/${worker.worker}`)).toContain("worker.lost");
    expect(worker.sent).toHaveLength(1);
    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "ready" }]);
  });

  it("[P2] a worker that is told to drain in the turn of an order is not given its task", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 2 });
    await world.run(chain(1));
    await world.settle();
    const drain: Command = { type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true };

    await Promise.all(world.askAll([drain, world.order(chain(1))]));
    await world.settle();

    expect(worker.sent).toHaveLength(1);
  });

  it("[P2] a worker that comes back in the turn of an order is given its task in the new session", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    await world.run(chain(1));
    await world.settle();
    await worker.done();
    const identity = { tenant: "t1", worker: worker.worker, name: "w", boot: worker.boot };
    const rejoin: Command = { type: "worker.join", ...identity, session: "w-back", about: about(), running: [] };

    await Promise.all(world.askAll([rejoin, world.order(chain(1))]));
    await world.settle();

    expect(world.dispatches().map((sent) => sent.session)).toEqual([worker.session, "w-back"]);
  });
});

describe("runs that cannot be decided", () => {
  it("[U2] a lost worker that holds a task of such a run does not keep the engine turning", async () => {
    const stage = new Stage();
    const before = await stage.boot("r1");
    await before.join("w");
    const poisoned = await before.run(chain(2));
    await before.settle();
    await stage.poison(before, poisoned);
    await stage.stop(before);
    const after = await stage.boot("r1");

    await stage.pass(70);

    expect(stage.isSpinning).toBe(false);
    expect(await after.facts()).toContain("worker.lost");
    expect(after.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: `run/${poisoned}` } }]);

    const spare = await after.join("spare");
    const healthy = await after.run(chain(1));

    expect(spare.last.run).toBe(healthy);
  });

  it("[U2] such a run that waits for a key takes neither the key nor the results of healthy runs along", async () => {
    const stage = new Stage();
    const before = await stage.boot("r1");
    const worker = await before.join("w", { slots: 3 });
    const holder = await before.run(chain(1, single));
    const poisoned = await before.run(chain(2, single));
    const behind = await before.run(chain(1, single));
    await before.settle();
    await stage.poison(before, poisoned);
    await stage.stop(before);
    const after = await stage.boot("r1");
    const back = await after.join("w", { slots: 3, boot: worker.boot, session: "w-back", running: [worker.last] });

    const heard = await hear(back.done({}, worker.last));

    expect(heard).toBe("done");
    expect((await after.detail(holder)).run.phase).toBe("succeeded");
    expect(back.last.run).toBe(behind);
  });
});

describe("a store that goes away", () => {
  it("[U10] a turn that the store leaves in the middle is tried again and done once", async () => {
    const stage = new Stage({ mode: "weak" });
    let isBroken = false;
    let failures = 0;
    const world = await stage.boot("r1", {
      wrap: (store) =>
        passThrough(store, {
          begin: async (want) => {
            const tx = await store.begin(want);
            const load = tx.loadMore.bind(tx);
            tx.loadMore = async (rows, lists) => {
              if (!isBroken) return await load(rows, lists);
              failures++;
              isBroken = false;
              throw new Error("connection lost");
            };
            return tx;
          },
        }),
    });

    isBroken = true;
    const answer = world.ask(world.order(chain(1)));
    const atFirst = await hear(answer);
    await stage.pass(5);

    expect(failures).toBe(1);
    expect(atFirst).toBe("silence");
    expect(await hear(answer)).toBe("done");
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
  });

  it("[U11] a command whose turn cannot be settled is answered when the engine stops", async () => {
    const stage = new Stage({ script: () => "unknown-absent" });
    const world = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { settle: () => Promise.reject(new Error("away")) }),
    });
    const answer = world.ask(world.order(chain(1)));
    const atFirst = await hear(answer);

    await stage.stop(world);

    expect(atFirst).toBe("silence");
    expect(await hear(answer)).toBe("E.STORE.UNKNOWN_OUTCOME");
    expect(answersOf(world)).toHaveLength(1);
  });
});
