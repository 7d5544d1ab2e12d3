// Tasks that outlive their workers: several of them lost in a row, by time alone, and workers that return after their lease.
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

/** Longer than a lease, second by second: the scheduler itself was never away. */
async function passLease(harness: EngineHarness): Promise<void> {
  for (let second = 0; second <= harness.settings.leaseMs / 1_000 + 1; second++) await harness.advance(1_000);
}

/** A worker joins, gets the task, acks it if it says so, and is never heard of again. */
async function loseWorker(harness: EngineHarness, name: string, acks: boolean): Promise<TestWorker> {
  const worker = await harness.joinWorker(name);
  await harness.settle();
  if (acks) await worker.ack();
  await passLease(harness);
  return worker;
}

async function runState(harness: EngineHarness, run: string) {
  const { run: row, tasks } = await harness.runDetail(run);
  return { phase: row.phase, error: JSON.parse(row.error ?? "{}") as object, task: tasks[0] };
}

describe("a task whose workers are lost one after another", () => {
  it("[B700] a task that every worker acks and is lost with goes to the next one under a higher fence, until its deliveries are used up", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 3 } }).start();
    const run = await harness.startRun(buildChain(1));
    const fences: number[] = [];

    for (const name of ["w1", "w2", "w3"]) {
      expect(await runState(harness, run)).toMatchObject({ error: {}, task: { phase: "ready", deliveries: fences.length } });
      const worker = await loseWorker(harness, name, true);
      fences.push(worker.lastDispatch.fence);
    }

    expect(await runState(harness, run)).toMatchObject({
      phase: "failed",
      error: { code: "E.WORKER.LOST", details: { deliveries: 3 } },
      task: { phase: "failed", deliveries: 3 },
    });
    expect(fences).toEqual(fences.toSorted((a, b) => a - b));
    expect(new Set(fences).size).toBe(3);
  });

  it("[B700] a lost worker is counted whether or not the one before had acked, and a report of a worker begins the count anew", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 3 } }).start();
    const run = await harness.startRun(buildChain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }));

    await loseWorker(harness, "w1", true);
    await loseWorker(harness, "w2", true);
    const reporter = await harness.joinWorker("w3");
    await harness.settle();
    await reporter.error("E.RUNNER.FAILURE");
    await harness.settle();
    expect(await runState(harness, run)).toMatchObject({ phase: "running", task: { failures: 1, deliveries: 1 } });
  });

  it("[B4] the delivery limit of a node counts before the general one", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 5 } }).start();
    const run = await harness.startRun(buildChain(1, { policy: { maxDeliveries: 2 } }));

    await loseWorker(harness, "w1", true);
    expect(await runState(harness, run)).toMatchObject({ phase: "running" });
    await loseWorker(harness, "w2", true);

    expect(await runState(harness, run)).toMatchObject({ phase: "failed", error: { code: "E.WORKER.LOST" } });
  });
});

describe("a worker that returns", () => {
  it("[B26] a session cannot be resumed at the very instant at which its lease ends", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.settle();

    harness.now += harness.settings.leaseMs;
    const again = harness.joinWorker("w", { session: worker.session, resumed: { unacked: [] } });

    await expect(again).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[B26] a session is resumed a moment before its lease ends", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.settle();

    harness.now += harness.settings.leaseMs - 1;
    await harness.joinWorker("w", { session: worker.session, resumed: { unacked: [] } });

    expect(harness.lastJoinAnswer).toMatchObject({ of: "join" });
  });

  it("[B33] a new process inherits no vitals of the one before it, and a new session of the same process does", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { boot: "b1" });
    await worker.heartbeat([], true, { vitals: JSON.stringify({ load: 7 }) });
    const readVitals = async () =>
      (JSON.parse((await harness.workerRow("t1/w")).condition) as { vitals?: unknown }).vitals ?? null;
    const before = await readVitals();

    await harness.joinWorker("w", { boot: "b1" });
    expect(await readVitals()).toEqual(before);
    expect(before).not.toBeNull();
    await harness.joinWorker("w", { boot: "b2" });

    expect(await readVitals()).toBeNull();
  });

  it("[P2] a worker that reported itself as unhealthy stays so when its session is resumed, and gets no work", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await worker.heartbeat([], false);

    const resumed = await harness.joinWorker("w", { session: worker.session, resumed: { unacked: [] } });
    await harness.startRun(buildChain(1));
    await harness.settle();
    expect(resumed.dispatchesSent).toEqual([]);
    await resumed.heartbeat([], true);
    await harness.settle();

    expect(resumed.dispatchesSent).toHaveLength(1);
  });

  it("[B27] a worker that cannot report its attempts and was lost does not keep the one that could not be taken back yet", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const harness = await cluster.startEngine("r1");
    const older = { dialect: "first", running: null, features: [], boot: "b1" } as const;
    const worker = await harness.joinWorker("w", older);
    const run = await harness.startRun(buildChain(1));
    await cluster.passSeconds(1);
    await worker.ack();
    const before = worker.lastDispatch;

    const other = await cluster.holdRun(run);
    await cluster.passSeconds(harness.settings.quietLeaseMs / 1_000 + 5);
    expect((await harness.workerRow("t1/w")).phase).toBe("lost");
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", fence: before.fence }]);
    await other.abort();
    await harness.joinWorker("w", older);

    expect((await harness.runDetail(run)).tasks[0]?.fence).toBeGreaterThan(before.fence);
  });
});

describe("what a heartbeat lists", () => {
  async function startAckedTask() {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();
    return { harness, worker, held: worker.lastDispatch };
  }

  it("[B8] a heartbeat that crossed a fresh dispatch does not take it back, although it is acked by now", async () => {
    const { harness, worker, held } = await startAckedTask();

    await harness.advance(harness.settings.ackDeadlineMs - 1);
    await worker.heartbeat([]);
    await harness.settle();
    expect(worker.lastDispatch.fence).toBe(held.fence);
    await harness.advance(1);
    await worker.heartbeat([]);
    await harness.settle();

    expect(worker.lastDispatch.fence).toBeGreaterThan(held.fence);
  });

  it("[B8] a heartbeat that lists the task under another fence does not list the attempt", async () => {
    const { harness, worker, held } = await startAckedTask();
    await harness.advance(6_000);

    await worker.heartbeat([{ task: held.task, fence: held.fence - 1 }]);
    await harness.settle();

    expect(worker.lastDispatch.fence).toBeGreaterThan(held.fence);
    expect(harness.stopsSent()).toContainEqual(expect.objectContaining({ task: held.task, fence: held.fence - 1 }));
  });
});

describe("reports that wait while a deadline passes", () => {
  const beatsOf = ({ worker, session }: TestWorker, count: number) =>
    Array.from({ length: count }, () => {
      return { type: "worker.beat", tenant: "t1", worker, session, healthy: true, held: null } as const;
    });

  it("[B5] an ack that arrived long after its grant is applied before the deadline that passed while it waited", async () => {
    const harness = await new EngineHarness({ settings: { turnCommandsMax: 2 } }).start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await harness.advance(2_000);

    harness.now += harness.settings.ackDeadlineMs;
    await Promise.all(harness.askAll([...beatsOf(worker, 6), worker.ackCommand()]));
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[B5] a result that arrived in time is applied before the time limit of its attempt, which passed while it waited", async () => {
    const harness = await new EngineHarness({ settings: { turnCommandsMax: 2 } }).start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1, { policy: { timeoutMs: 10_000 } }));
    await harness.settle();
    await worker.ack();
    await harness.advance(9_000);

    harness.now += 1_500;
    await Promise.all(harness.askAll([...beatsOf(worker, 6), worker.resultCommand(worker.lastDispatch, { out: 1 })]));
    await harness.settle();

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });
});
