// Bugs of one scheduler that fuzzing found, each as a small test that shows it. Two schedulers on one store are in
// regressions-two-schedulers.test.ts; the general rules stand in life, place, fence and driver.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { answersOf, EngineCluster, outcomeOf } from "../harness/engine-cluster.ts";
import { overrideStore } from "../harness/override-store.ts";
import { buildChain, buildWorkflow, describeWorker, EngineHarness } from "../harness/engine-harness.ts";

/** Tasks side by side, none waiting for another. */
const buildFan = (count: number, node = {}) =>
  buildWorkflow(
    Array.from({ length: count }, () => node),
    [],
  );

/** A node of which one runs at a time, whatever run it belongs to. */
const singleKeyNode = { policy: { concurrency: { key: "printer", limit: 1 } } };

describe("ends of runs with more tasks than a sweep takes", () => {
  it("[E10] a failing run is closed only when none of its tasks is open", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildFan(35));
    await harness.settle();

    await worker.error("E.RUNNER.FAILURE");
    await harness.settle();

    const { run: row, tasks } = await harness.runDetail(run);
    expect(row.phase).toBe("failed");
    expect(tasks).toHaveLength(35);
    expect(tasks.filter((task) => task.endedAt === null)).toEqual([]);
  });

  it("[E10] the tasks of a failed run do not block their queue for the runs behind it", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildFan(35));
    await harness.settle();

    await worker.error("E.RUNNER.FAILURE");
    const next = await harness.startRun(buildChain(1));
    for (let second = 0; second < 5; second++) {
      await worker.heartbeat([]);
      await harness.advance(1_000);
    }

    expect(worker.lastDispatch.run).toBe(next);
  });

  it("[E10] passed deadlines of an ending run's tasks hold up neither its sweep nor the deadlines of other runs", async () => {
    const cluster = new EngineCluster();
    const harness = await cluster.startEngine("r1", { settings: { sweepTasksMax: 2, dueMax: 3 } });
    const run = await harness.startRun(buildFan(12, { policy: { queueTimeoutMs: 3_000 } }));
    const other = await harness.startRun(buildChain(1), { timeoutMs: 3_500 });

    cluster.skipTime(3_001);
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await cluster.passSeconds(5);

    expect(cluster.isSpinning).toBe(false);
    expect((await harness.runDetail(run)).run.phase).toBe("cancelled");
    expect((await harness.runDetail(other)).run.phase).toBe("failed");
  });
});

describe("keys and lines", () => {
  it("[K3] a task that its worker reports as cancelled passes its concurrency key to the next task", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    await harness.startRun(buildChain(1, singleKeyNode));
    const next = await harness.startRun(buildChain(1, singleKeyNode));
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);

    await harness.ask(worker.resultCommand(worker.lastDispatch, {}, "cancelled"));
    await harness.settle();

    expect(worker.lastDispatch.run).toBe(next);
  });

  it("[P4] an urgent task is dispatched even if more queues have work than one turn claims", async () => {
    const harness = await new EngineHarness({ settings: { claimLinesMax: 1 } }).start();
    const worker = await harness.joinWorker("w");
    for (let early = 0; early < 3; early++) await harness.startRun(buildChain(1, { type: "crowded" }));
    const urgent = await harness.startRun(buildChain(1, { type: "quiet" }), { priority: 0 });

    for (let late = 0; late < 12; late++) {
      await harness.startRun(buildChain(1, { type: "crowded" }));
      await worker.succeed();
      await harness.settle();
    }

    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toContain(urgent);
  });
});

describe("workers that change in the turn in which a task comes", () => {
  it("[P2] a worker lost in the turn in which a run starts is not given the run's task", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.succeed();
    for (let second = 0; second < 29; second++) await harness.advance(1_000);
    expect(await harness.facts("t1", `worker/${worker.worker}`)).not.toContain("worker.lost");

    harness.now += 2_000;
    const run = await harness.startRun(buildChain(1));

    expect(await harness.facts("t1", `worker/${worker.worker}`)).toContain("worker.lost");
    expect(worker.dispatchesSent).toHaveLength(1);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "ready" }]);
  });

  it("[P2] a worker drained in the turn in which a run starts is not given the run's task", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 2 });
    await harness.startRun(buildChain(1));
    await harness.settle();
    const drain: Command = { type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true };

    await Promise.all(harness.askAll([drain, harness.startCommand(buildChain(1))]));
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[P2] a worker that rejoins in the turn in which a run starts is given the run's task in the new session", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.succeed();
    const identity = { tenant: "t1", worker: worker.worker, name: "w", boot: worker.boot };
    const rejoin: Command = { type: "worker.join", ...identity, session: "w-back", about: describeWorker(), running: [] };

    await Promise.all(harness.askAll([rejoin, harness.startCommand(buildChain(1))]));
    await harness.settle();

    expect(harness.dispatches().map((sent) => sent.session)).toEqual([worker.session, "w-back"]);
  });
});

describe("runs that cannot be decided", () => {
  it("[U2] a lost worker that holds a task of a quarantined run does not make the engine loop", async () => {
    const cluster = new EngineCluster();
    const before = await cluster.startEngine("r1");
    await before.joinWorker("w");
    const poisoned = await before.startRun(buildChain(2));
    await before.settle();
    await cluster.corruptWorkflow(before, poisoned);
    await cluster.stopEngine(before);
    const after = await cluster.startEngine("r1");

    await cluster.passSeconds(70);

    expect(cluster.isSpinning).toBe(false);
    expect(await after.facts()).toContain("worker.lost");
    expect(after.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: `run/${poisoned}` } }]);

    const spare = await after.joinWorker("spare");
    const healthy = await after.startRun(buildChain(1));

    expect(spare.lastDispatch.run).toBe(healthy);
  });

  it("[U2] a quarantined run that waits for a key blocks neither the key nor the results of other runs", async () => {
    const cluster = new EngineCluster();
    const before = await cluster.startEngine("r1");
    const worker = await before.joinWorker("w", { slots: 3 });
    const holder = await before.startRun(buildChain(1, singleKeyNode));
    const poisoned = await before.startRun(buildChain(2, singleKeyNode));
    const behind = await before.startRun(buildChain(1, singleKeyNode));
    await before.settle();
    await cluster.corruptWorkflow(before, poisoned);
    await cluster.stopEngine(before);
    const after = await cluster.startEngine("r1");
    const back = await after.joinWorker("w", { slots: 3, boot: worker.boot, session: "w-back", running: [worker.lastDispatch] });

    const outcome = await outcomeOf(back.succeed({}, worker.lastDispatch));

    expect(outcome).toBe("done");
    expect((await after.runDetail(holder)).run.phase).toBe("succeeded");
    expect(back.lastDispatch.run).toBe(behind);
  });
});

describe("a store that goes away", () => {
  it("[U10] a turn during which the store connection is lost is retried and takes effect once", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    let isBroken = false;
    let failures = 0;
    const harness = await cluster.startEngine("r1", {
      wrap: (store) =>
        overrideStore(store, {
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
    const answer = harness.ask(harness.startCommand(buildChain(1)));
    const atFirst = await outcomeOf(answer);
    await cluster.passSeconds(5);

    expect(failures).toBe(1);
    expect(atFirst).toBe("silence");
    expect(await outcomeOf(answer)).toBe("done");
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
  });

  it("[U11] a command whose turn cannot be settled is answered when the engine stops", async () => {
    const cluster = new EngineCluster({ scriptedOutcome: () => "unknown-absent" });
    const harness = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { settle: () => Promise.reject(new Error("away")) }),
    });
    const answer = harness.ask(harness.startCommand(buildChain(1)));
    const atFirst = await outcomeOf(answer);

    await cluster.stopEngine(harness);

    expect(atFirst).toBe("silence");
    expect(await outcomeOf(answer)).toBe("E.STORE.UNKNOWN_OUTCOME");
    expect(answersOf(harness)).toHaveLength(1);
  });
});
