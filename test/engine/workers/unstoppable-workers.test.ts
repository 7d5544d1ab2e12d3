// Workers that cannot stop an attempt: what they go on running after it was cancelled, timed out or taken back keeps its slot.
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, type HarnessOptions, type TestWorker } from "../harness/engine-harness.ts";

const unstoppable = { dialect: "first", running: null, features: [] } as const;
const seconds = (count: number): number => count * 1_000;

async function passTime(harness: EngineHarness, span: number): Promise<void> {
  for (let passed = 0; passed < span; passed++) await harness.advance(seconds(1));
}

interface Started {
  readonly harness: EngineHarness;
  readonly worker: TestWorker;
  readonly run: string;
}

/** A worker with one slot that runs an acked attempt, and a run that waits for the slot. */
async function startHeldTask(options: HarnessOptions = {}, about: object = unstoppable, node: object = {}): Promise<Started> {
  const harness = await new EngineHarness(options).start();
  const worker = await harness.joinWorker("w", { ...about, boot: "b1" });
  const run = await harness.startRun(buildChain(1, node));
  await harness.settle();
  await worker.ack();
  await harness.startRun(buildChain(1));
  await harness.settle();
  return { harness, worker, run };
}

const cancel = (harness: EngineHarness, run: string) =>
  harness.ask({ type: "run.cancel", tenant: "t1", by: "tester", run, reason: "enough" });

describe("a worker that cannot stop an attempt", () => {
  it("[B90] a cancelled attempt keeps its slot at a worker that cannot stop it until its late outcome arrives", async () => {
    const { harness, worker, run } = await startHeldTask();
    const held = worker.lastDispatch;

    await cancel(harness, run);
    await passTime(harness, 20);
    expect((await harness.runDetail(run)).run.phase).toBe("cancelled");
    expect(worker.dispatchesSent).toHaveLength(1);

    await worker.succeed({}, held);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a cancelled attempt frees its slot at once at a worker that can stop it", async () => {
    const { harness, worker, run } = await startHeldTask({}, {});

    await cancel(harness, run);
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a late error frees the slot of a cancelled attempt as a late result does, feedback does not", async () => {
    const { harness, worker, run } = await startHeldTask();
    const held = worker.lastDispatch;
    await cancel(harness, run);
    const { tenant, worker: id, session } = worker;
    const feedback = {
      type: "task.feedback",
      tenant,
      worker: id,
      session,
      task: held.task,
      fence: held.fence,
      data: {},
    } as const;
    await harness.ask(feedback);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);

    await worker.error("E.RUNNER.FAILURE", "late", held);
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] an attempt that ran out of time keeps its slot at a worker that cannot stop it, also from its own retry", async () => {
    const node = { policy: { timeoutMs: 10_000, retry: { maxAttempts: 2, backoffMs: 0 } } };
    const { harness, worker, run } = await startHeldTask({}, unstoppable, node);
    const held = worker.lastDispatch;

    await passTime(harness, 20);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "ready", failures: 1 }]);
    expect(worker.dispatchesSent).toHaveLength(1);

    await expect(worker.succeed({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a cancelled attempt that the worker never acked frees its slot when its ack deadline has passed", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { ...unstoppable, boot: "b1" });
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await harness.startRun(buildChain(1));
    await cancel(harness, run);
    await passTime(harness, 4);
    expect(worker.dispatchesSent).toHaveLength(1);

    await passTime(harness, 2);

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a cancelled attempt whose ack arrives after the cancel keeps its slot", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { ...unstoppable, boot: "b1" });
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await harness.startRun(buildChain(1));
    const held = worker.lastDispatch;
    await cancel(harness, run);
    await worker.ack(held);

    await passTime(harness, 20);

    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[B90] the slot of a cancelled attempt stays taken over a new session of the same process, for one lease", async () => {
    const { harness, worker, run } = await startHeldTask();
    await cancel(harness, run);
    await worker.disconnect();
    const again = await harness.joinWorker("w", { ...unstoppable, boot: null });
    for (let beats = 0; beats < 3; beats++) {
      await passTime(harness, 34);
      await again.heartbeat(null);
    }
    expect(again.dispatchesSent).toEqual([]);

    await passTime(harness, 4);

    expect(again.dispatchesSent).toHaveLength(1);
  });

  it("[B90] the slot of a cancelled attempt stays taken in a resumed session for as long as the attempt runs", async () => {
    const { harness, worker, run } = await startHeldTask();
    const held = worker.lastDispatch;
    await cancel(harness, run);
    const { session } = worker;
    const resumed = await harness.joinWorker("w", { ...unstoppable, boot: "b1", session, resumed: { unacked: [] } });
    for (let beats = 0; beats < 6; beats++) {
      await passTime(harness, 34);
      await resumed.heartbeat(null);
    }
    expect(resumed.dispatchesSent).toHaveLength(1);

    await resumed.succeed({}, held);
    await harness.settle();

    expect(resumed.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a new process of the worker has all its slots", async () => {
    const { harness, run } = await startHeldTask();
    await cancel(harness, run);

    const restarted = await harness.joinWorker("w", { ...unstoppable, boot: "b2" });
    await harness.settle();

    expect(restarted.dispatchesSent).toHaveLength(1);
  });

  it("[B90] the slot of a cancelled attempt whose outcome never arrives is free again after a limit", async () => {
    const { harness, worker, run } = await startHeldTask({ settings: { unstoppedSlotMs: 60_000 } });
    await cancel(harness, run);
    await passTime(harness, 30);
    await worker.heartbeat(null);
    await passTime(harness, 29);
    expect(worker.dispatchesSent).toHaveLength(1);

    await passTime(harness, 2);

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a heartbeat that counts fewer handlers than could not be stopped frees their slots", async () => {
    const { harness, worker, run } = await startHeldTask();
    await cancel(harness, run);
    await worker.heartbeat(null, true, { inflight: 1 });
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);

    await worker.heartbeat(null, true, { inflight: 0 });
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B90] a limit for a node type counts cancelled attempts that still run", async () => {
    const harness = await new EngineHarness().start();
    const about = { ...unstoppable, boot: "b1", slots: 4, perNodeLimits: { "test.step": 1 } };
    const worker = await harness.joinWorker("w", about);
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();
    const held = worker.lastDispatch;
    await harness.startRun(buildWorkflow([{}, {}], []));

    await cancel(harness, run);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);

    await worker.succeed({}, held);
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(2);
  });
});
