// Attempts of which nothing is reported, at workers that cannot list what they hold: they are sent again, and taken back if that is not acked.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const older = { dialect: "first", running: null, features: [] } as const;
const seconds = (count: number): number => count * 1_000;
/** The lease of an older dialect, the grace, and the two seconds of a recheck. */
const askedAfter = 105 + 60 + 2;

/** Heartbeats as the worker's dialect sends them, and nothing else. */
async function passTimeWithHeartbeats(harness: EngineHarness, worker: TestWorker, span: number): Promise<void> {
  for (let passed = 0; passed < span; passed++) {
    await harness.advance(seconds(1));
    if (passed % 10 === 9) await worker.heartbeat(null);
  }
}

async function startAckedTask(about: object = older, settings: object = {}) {
  const harness = await new EngineHarness({ settings }).start();
  const worker = await harness.joinWorker("w", { ...about, boot: "b1" });
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  await worker.ack();
  return { harness, worker, run };
}

describe("an attempt that nobody reports about", () => {
  it("[B92] an attempt without any report for the lease and a grace is sent again as the same dispatch, and its ack starts the period anew", async () => {
    const { harness, worker } = await startAckedTask();
    const [first] = worker.dispatchesSent;
    await passTimeWithHeartbeats(harness, worker, askedAfter - 2);
    expect(worker.dispatchesSent).toHaveLength(1);

    await passTimeWithHeartbeats(harness, worker, 4);
    expect(worker.dispatchesSent).toEqual([first, first]);
    await worker.ack();

    await passTimeWithHeartbeats(harness, worker, askedAfter - 4);
    expect(worker.dispatchesSent).toHaveLength(2);
    await passTimeWithHeartbeats(harness, worker, 6);
    expect(worker.dispatchesSent).toHaveLength(3);
  });

  it("[B92] a silent attempt whose repeated dispatch is not acked is queued again under a new fence", async () => {
    const { harness, worker, run } = await startAckedTask();
    const [first] = worker.dispatchesSent;

    await passTimeWithHeartbeats(harness, worker, askedAfter + 8);

    expect(worker.lastDispatch.fence).toBeGreaterThan(first?.fence ?? 0);
    expect(await harness.facts("t1", `run/${run}`)).toContain("task.requeued");
    await worker.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B92] a silent attempt that the worker answers as still running stays bound, and its outcome counts", async () => {
    const { harness, worker, run } = await startAckedTask();
    const [first] = worker.dispatchesSent;
    await passTimeWithHeartbeats(harness, worker, askedAfter + 2);

    await worker.error("E.CMD.CONCURRENCY_VIOLATION");
    await passTimeWithHeartbeats(harness, worker, 60);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", fence: first?.fence, attempt: 1 }]);
    await worker.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B92] feedback starts the period of an attempt anew", async () => {
    const { harness, worker } = await startAckedTask();
    await passTimeWithHeartbeats(harness, worker, 120);
    const { tenant, worker: id, session, lastDispatch } = worker;
    const { task, fence } = lastDispatch;
    await harness.ask({ type: "task.feedback", tenant, worker: id, session, task, fence, data: { stage: "half" } });

    await passTimeWithHeartbeats(harness, worker, 120);

    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[B92] a worker that announced lists and whose heartbeats have none is asked as one that cannot list its attempts", async () => {
    const { harness, worker } = await startAckedTask({});

    await passTimeWithHeartbeats(harness, worker, 30 + 60 + 4);

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B92] a v2 worker that does not list its attempts is asked after its own lease and the grace, one that does never", async () => {
    const { harness, worker } = await startAckedTask({ features: ["fence", "cancel"] });
    await passTimeWithHeartbeats(harness, worker, 30 + 60 - 1);
    expect(worker.dispatchesSent).toHaveLength(1);
    await passTimeWithHeartbeats(harness, worker, 5);
    expect(worker.dispatchesSent).toHaveLength(2);

    const listing = await startAckedTask({});
    for (let beats = 0; beats < 30; beats++) {
      await listing.harness.advance(seconds(10));
      await listing.worker.heartbeat(listing.worker.dispatchesSent);
    }
    expect(listing.worker.dispatchesSent).toHaveLength(1);
  });
});

describe("the general limit of an attempt", () => {
  const dayMs = 24 * 3_600_000;

  it("[E6] an attempt whose node sets no limit ends with E.TIMEOUT after 24 hours", async () => {
    const { harness, worker, run } = await startAckedTask({}, { leaseMs: 10 * dayMs });
    await harness.advance(seconds(2));
    await harness.advance(dayMs - seconds(3));
    expect((await harness.runDetail(run)).run.phase).toBe("running");

    await harness.advance(seconds(2));

    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "{}")).toMatchObject({ code: "E.TIMEOUT" });
    expect(harness.stopsSent()).toMatchObject([{ task: worker.lastDispatch.task }]);
  });

  it("[E6] the general limit is stored with the ack of an attempt that lives longer than a second, and not with its grant", async () => {
    const { harness, run } = await startAckedTask();
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", due: null }]);
    const granted = harness.now;

    await harness.advance(seconds(1));

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", acked: true, due: granted + dayMs }]);
  });

  it("[E6] the limit of a node overrides the general one, and the general one holds over a new session", async () => {
    const harness = await new EngineHarness({ settings: { attemptTimeoutMs: seconds(20) } }).start();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const own = await harness.startRun(buildChain(1, { policy: { timeoutMs: seconds(60) } }));
    const general = await harness.startRun(buildChain(1));
    await harness.settle();
    for (const dispatch of worker.dispatchesSent) await worker.ack(dispatch);
    const again = await harness.joinWorker("w", { slots: 2, running: worker.dispatchesSent });
    for (let passed = 0; passed < 25; passed++) {
      await again.heartbeat(worker.dispatchesSent);
      await harness.advance(seconds(1));
    }

    expect((await harness.runDetail(own)).run.phase).toBe("running");
    expect(JSON.parse((await harness.runDetail(general)).run.error ?? "{}")).toMatchObject({ code: "E.TIMEOUT" });
  });
});
