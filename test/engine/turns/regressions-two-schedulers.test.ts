// Bugs that showed only on a store that others share: rows that come on demand, roots in other hands, work and workers that move
// between schedulers. One scheduler alone is in regressions-one-scheduler.test.ts.
import { describe, expect, it } from "vitest";
import { EngineCluster, outcomeOf } from "../harness/engine-cluster.ts";
import { overrideStore } from "../harness/override-store.ts";
import { buildChain, buildWorkflow, describeWorker } from "../harness/engine-harness.ts";

describe("rows that come on demand", () => {
  it("[U8] a worker that rejoins keeps all its attempts, although its join loads their rows one after another", async () => {
    const slots = 12;
    const cluster = new EngineCluster({ mode: "weak" });
    const harness = await cluster.startEngine("r1");
    const worker = await harness.joinWorker("w", { slots });
    const tasks = Array.from({ length: slots }, () => ({}));
    const run = await harness.startRun(buildWorkflow(tasks, []));
    await cluster.passSeconds(1);
    expect(worker.dispatchesSent).toHaveLength(slots);
    const granted = (await harness.runDetail(run)).tasks.map(({ id, fence }) => ({ id, fence }));

    const outcome = await outcomeOf(
      harness.joinWorker("w", { slots, boot: worker.boot, session: "w-back", running: worker.dispatchesSent }),
    );

    expect(outcome).toBe("done");
    expect((await harness.runDetail(run)).tasks).toMatchObject(granted.map((task) => ({ ...task, phase: "leased" })));
  });
});

const faultCodeOrDone = (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => "done",
    (refused: { code: string }) => refused.code,
  );

describe("two schedulers on one store", () => {
  it("[U9] a scheduler serves work of an unknown route that the other scheduler accepted", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await far.joinWorker("w");

    const run = await near.startRun(buildChain(1));
    await cluster.passSeconds(5);

    expect(worker.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[U9] work of an unknown route is found by the other scheduler even if its hint was lost", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const deaf = await cluster.startEngine("r1", { wrap: (store) => overrideStore(store, { onHint: () => undefined }) });
    const far = await cluster.startEngine("r2");
    const worker = await deaf.joinWorker("w");

    const run = await far.startRun(buildChain(1));
    await cluster.passSecondsIdle(5, worker);

    expect(worker.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[U9] a cancel given to one scheduler frees the slot of a worker at the other scheduler", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await near.joinWorker("w");
    const run = await near.startRun(buildChain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await worker.succeed({}, worker.lastDispatch);
    const next = await near.startRun(buildChain(1));
    await cluster.passSecondsIdle(20, worker);

    expect((await near.runDetail(run)).run.phase).toBe("cancelled");
    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toContain(next);
  });

  it("[U9] a worker that moved to the other scheduler gets its tasks there, and no more from the first", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [first, second] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const old = await first.joinWorker("w", { session: "w-old" });
    await first.startRun(buildChain(1));
    await first.settle();
    await old.succeed();

    const moved = await second.joinWorker("w", { boot: old.boot, session: "w-new" });
    const run = await first.startRun(buildChain(1));
    await first.settle();
    await old.disconnect();
    await cluster.passSecondsIdle(60, moved);

    expect(old.dispatchesSent).toHaveLength(1);
    expect(moved.dispatchesSent.map((dispatch) => dispatch.run)).toContain(run);
  });

  it("[U9] a task at the head of its queue whose root is busy is claimed again", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const harness = await cluster.startEngine("r1");
    const run = await harness.startRun(buildChain(1));
    const held = await cluster.holdRun(run);
    const worker = await harness.joinWorker("w");
    await cluster.passSeconds(1);
    expect(worker.dispatchesSent).toEqual([]);

    await held.abort();
    await cluster.passSecondsIdle(5, worker);

    expect(worker.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[U9] a join whose session ended while the store was unreachable does not take the worker from its newer session", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    let isAway = false;
    const cut = await cluster.startEngine("r1", {
      wrap: (store) =>
        overrideStore(store, { begin: (want) => (isAway ? Promise.reject(new Error("no connection")) : store.begin(want)) }),
    });
    const near = await cluster.startEngine("r2");
    isAway = true;
    const late = { tenant: "t1", worker: "t1/w", session: "w-late" } as const;
    const joining = faultCodeOrDone(
      cut.ask({ ...late, type: "worker.join", name: "w", boot: "w-boot", about: describeWorker({}), running: [] }),
    );
    const leaving = faultCodeOrDone(cut.ask({ ...late, type: "worker.leave", reason: "socket closed" }));
    const worker = await near.joinWorker("w", { boot: "w-boot" });
    await near.startRun(buildChain(1));
    await cluster.passSeconds(1);
    await worker.ack();

    isAway = false;
    await cluster.passSeconds(2);

    expect(await Promise.all([joining, leaving])).toEqual(["E.SESSION.UNKNOWN", "done"]);
    expect(await worker.succeed({})).toMatchObject({ applied: true });
  });

  it("[U13] a drain given to a scheduler with a stale session of the worker reaches its present session", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const old = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const now = await cluster.startEngine("r2");
    const first = await old.joinWorker("w");
    const moved = await now.joinWorker("w", { boot: first.boot });

    await old.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: first.worker, on: true });
    await cluster.passSeconds(1);

    expect(now.effects).toContainEqual(expect.objectContaining({ type: "drain", session: moved.session, on: true }));
  });
});
