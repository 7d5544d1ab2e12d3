// A worker hands a task back with E.RUNNER.CANCELLED: who gets it next.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

/** It closes its socket without a sign when it leaves. */
const older = { dialect: "first", running: null, features: [] } as const;
const seconds = (count: number): number => count * 1_000;

async function startHandedBackTask(): Promise<{ harness: EngineHarness; worker: TestWorker; run: string }> {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w", { ...older, boot: "b1" });
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  await worker.ack();
  return { harness, worker, run };
}

describe("a task that its worker handed back", () => {
  it("[B93] a task does not go back to the worker that handed it back before a pause of 10 s", async () => {
    const { harness, worker, run } = await startHandedBackTask();

    await worker.error("E.RUNNER.CANCELLED", "leaving");
    for (let passed = 0; passed < 9; passed++) await harness.advance(seconds(1));
    expect(worker.dispatchesSent).toHaveLength(1);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "ready" }]);

    for (let passed = 0; passed < 3; passed++) await harness.advance(seconds(1));
    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B93] another worker gets a task that was handed back at once", async () => {
    const { harness, worker } = await startHandedBackTask();
    const other = await harness.joinWorker("v", { ...older, boot: "b9" });

    await worker.error("E.RUNNER.CANCELLED", "leaving");
    await harness.settle();

    expect(other.dispatchesSent).toHaveLength(1);
    expect(worker.dispatchesSent).toHaveLength(1);
  });

  it("[B93] a worker that joins anew may get the task that it handed back at once", async () => {
    const { harness, worker } = await startHandedBackTask();
    await worker.error("E.RUNNER.CANCELLED", "leaving");
    await harness.settle();

    const again = await harness.joinWorker("w", { ...older, boot: "b2" });
    await harness.settle();

    expect(again.dispatchesSent).toHaveLength(1);
  });

  it("[B93] a task that a worker handed back does not keep it from the tasks behind it", async () => {
    const { harness, worker } = await startHandedBackTask();
    await harness.startRun(buildChain(1));
    await harness.startRun(buildChain(1));
    const first = worker.lastDispatch;

    await worker.error("E.RUNNER.CANCELLED", "leaving");
    await harness.settle();
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(2);
    expect(worker.lastDispatch.task).not.toBe(first.task);
  });

  it("[B93] several tasks that a worker handed back, at the head of the queue, do not keep it from the one behind them", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { ...older, boot: "b1", slots: 2 });
    for (let run = 0; run < 2; run++) await harness.startRun(buildChain(1));
    await harness.settle();
    const both = worker.dispatchesSent;
    for (const dispatch of both) await worker.error("E.RUNNER.CANCELLED", "leaving", dispatch);
    await harness.settle();
    // Nothing else waits yet: the queue is read again when the next one comes, and begins with the two.
    for (let passed = 0; passed < 2; passed++) await harness.advance(seconds(1));
    await worker.heartbeat(null, false);
    const behind = await harness.startRun(buildChain(1));
    await harness.settle();

    await worker.heartbeat(null, true);
    await harness.settle();

    expect(worker.dispatchesSent.map(({ run }) => run)).toContain(behind);
    expect(worker.dispatchesSent).toHaveLength(3);
  });

  it("[B93] a worker that reports itself as unhealthy before it leaves needs no pause: while it is healthy it gets the task again", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();

    await worker.error("E.RUNNER.CANCELLED", "all slots are occupied");
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(2);
  });
});
