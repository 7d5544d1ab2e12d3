// Frames for workers whose socket another scheduler holds: stop, drain and reset are sent as mail, and a heartbeat repairs what no mail
// brought. What one scheduler sends to its own sockets is in life, fence and place.
import type { ChangeSet, SendDrain, SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, type EngineHarness } from "../harness/engine-harness.ts";
import { overrideStore } from "../harness/override-store.ts";

const resetsSent = (harness: EngineHarness): SendReset[] =>
  harness.effects.filter((effect): effect is SendReset => effect.type === "reset");
const drainsSent = (harness: EngineHarness): SendDrain[] =>
  harness.effects.filter((effect): effect is SendDrain => effect.type === "drain");

async function startTwoSchedulers() {
  const cluster = new EngineCluster({ mode: "weak" });
  const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
  const worker = await near.joinWorker("w");
  return { stage: cluster, near, far, worker };
}

describe("words for another scheduler's sockets", () => {
  it("[U13] a cancel given to another scheduler reaches the worker at once, and its slot serves the next task", async () => {
    const { stage: cluster, near, far, worker } = await startTwoSchedulers();
    const run = await near.startRun(buildChain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await cluster.passSeconds(1);

    expect(near.stopsSent()).toMatchObject([
      { session: worker.session, task: worker.dispatchesSent[0]?.task, code: "E.RUNNER.CANCELLED" },
    ]);
    const next = await far.startRun(buildChain(1));
    await cluster.passSeconds(2);
    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toEqual([run, next]);
  });

  it("[U13] a drain or undrain given to another scheduler reaches the worker at once", async () => {
    const { stage: cluster, near, far, worker } = await startTwoSchedulers();

    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });
    await cluster.passSeconds(1);
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: false });
    await cluster.passSeconds(1);

    expect(drainsSent(near).map(({ session, on }) => [session, on])).toEqual([
      [worker.session, true],
      [worker.session, false],
    ]);
  });

  it("[U13] mail about a drain that has ended has no effect", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    let isDeaf = true;
    const near = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { begin: (want) => store.begin(isDeaf ? { ...want, mail: 0 } : want) }),
    });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");
    const drain = { type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker } as const;
    await far.ask({ ...drain, on: true });
    await near.ask({ ...drain, on: false });
    const back = await near.joinWorker("w", { boot: worker.boot });
    const before = drainsSent(near).length;

    isDeaf = false;
    await cluster.passSeconds(1);

    expect(drainsSent(near).slice(before)).toEqual([]);
    const run = await near.startRun(buildChain(1));
    await cluster.passSeconds(1);
    expect(back.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[U13] a worker that moves to another scheduler has its old session reset at the first scheduler, and only that session", async () => {
    const { stage: cluster, near, far, worker } = await startTwoSchedulers();

    const moved = await far.joinWorker("w", { boot: worker.boot });
    await cluster.passSeconds(1);

    expect(resetsSent(near)).toMatchObject([{ session: worker.session, code: "E.SESSION.SUPERSEDED" }]);
    await cluster.passSeconds(2);
    const back = await near.joinWorker("w", { boot: worker.boot });
    await cluster.passSeconds(1);
    expect(resetsSent(far)).toMatchObject([{ session: moved.session }]);
    expect(resetsSent(near).map(({ session }) => session)).not.toContain(back.session);
  });

  it("[U13] mail that cannot be read is reported and dropped, and holds up nothing", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const near = await cluster.startEngine("r1");
    const far = await cluster.startEngine("r2", {
      wrap: (store) =>
        overrideStore(store, {
          async begin(want) {
            const tx = await store.begin(want);
            const spoil = (unit: ChangeSet): ChangeSet => ({
              ...unit,
              mail: unit.mail.map((mail) => ({ ...mail, body: "{ not json" })),
            });
            return {
              now: tx.now,
              nextDue: tx.nextDue,
              claimed: tx.claimed,
              due: tx.due,
              mail: tx.mail,
              row: (kind, id) => tx.row(kind, id),
              tasks: (list) => tx.tasks(list),
              peekWorker: (worker) => tx.peekWorker(worker),
              loadMore: (rows, lists, addresses) => tx.loadMore(rows, lists, addresses),
              commit: (turn, units) => tx.commit(turn, units.map(spoil)),
              abort: () => tx.abort(),
            };
          },
        }),
    });
    const worker = await near.joinWorker("w");
    const run = await near.startRun(buildChain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await cluster.passSeconds(3);

    expect(near.stopsSent()).toEqual([]);
    expect(near.problems).toMatchObject([{ code: "E.INTERNAL" }]);
    expect((await near.runDetail(run)).run.phase).toBe("cancelled");
    await worker.heartbeat(worker.dispatchesSent);
    expect(near.stopsSent()).toMatchObject([{ task: worker.dispatchesSent[0]?.task }]);
  });
});

describe("without mail", () => {
  it("[U15] a grant to a worker drained by another scheduler fails to commit and is not sent", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const near = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });

    const run = await near.startRun(buildChain(1));
    await cluster.passSeconds(2);

    expect(worker.dispatchesSent).toEqual([]);
    expect(drainsSent(near)).toMatchObject([{ session: worker.session, on: true }]);
    expect((await near.runDetail(run)).tasks).toMatchObject([{ phase: "ready", fence: 0 }]);
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: false });
    await worker.heartbeat([]);
    await cluster.passSeconds(2);
    expect(worker.dispatchesSent).toMatchObject([{ run }]);
  });

  it("[U14] a heartbeat shows that an attempt was ended by another scheduler, so that it is stopped and its slot is freed", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const near = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");
    const run = await near.startRun(buildChain(1));
    await near.settle();
    await worker.ack();
    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await cluster.passSeconds(1);
    expect(near.stopsSent()).toEqual([]);

    await worker.heartbeat(worker.dispatchesSent);

    expect(near.stopsSent()).toMatchObject([{ session: worker.session, task: worker.dispatchesSent[0]?.task }]);
    const next = await near.startRun(buildChain(1));
    await cluster.passSeconds(2);
    expect(worker.lastDispatch.run).toBe(next);
  });
});
