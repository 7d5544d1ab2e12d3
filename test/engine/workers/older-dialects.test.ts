// Workers that have no boot id, cannot report what they run and beat slowly (the first generation and v1): what they keep over a join, how
// they are asked about it, and whose outcome counts.
import { type LedgerFact, LedgerFold } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const olderDialect = { dialect: "first", running: null, features: [] } as const;
const seconds = (count: number): number => count * 1_000;

async function passTime(harness: EngineHarness, span: number): Promise<void> {
  for (let passed = 0; passed < span; passed++) await harness.advance(seconds(1));
}

/** A quiet worker that has acked one attempt. */
async function startGrantedTask(slots = 1): Promise<{ world: EngineHarness; worker: TestWorker; run: string }> {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w", { ...olderDialect, boot: "b1", slots });
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  await worker.ack();
  return { world: harness, worker, run };
}

const rejoin = (harness: EngineHarness, boot: string | null = null, slots = 1): Promise<TestWorker> =>
  harness.joinWorker("w", { ...olderDialect, boot, slots });

describe("a worker that cannot report", () => {
  it("[B27] a worker that cannot report what it runs keeps its attempts over a new handshake of the same process while its lease lasts", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.disconnect();
    await passTime(harness, 60);

    const again = await rejoin(harness);

    expect((await harness.runDetail(run)).tasks).toMatchObject([
      { phase: "leased", fence: worker.lastDispatch.fence, boot: "b1" },
    ]);
    await again.succeed({}, worker.lastDispatch);
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B27] a worker without a boot id gets one at its first join and keeps it", async () => {
    const harness = await new EngineHarness().start();
    await rejoin(harness);
    const { boot } = await harness.workerRow("t1/w");

    await rejoin(harness);

    expect(boot).not.toBe("");
    expect((await harness.workerRow("t1/w")).boot).toBe(boot);
  });

  it("[B27] a new process of an older-dialect worker loses the attempts of the last one at once", async () => {
    const { world: harness, worker, run } = await startGrantedTask();

    await rejoin(harness, "b2");
    await harness.settle();

    expect((await harness.runDetail(run)).tasks[0]?.fence).toBeGreaterThan(worker.dispatchesSent[0]?.fence ?? 0);
    expect(await harness.facts("t1", `run/${run}`)).toContain("task.requeued");
  });

  it("[B27] every join of a worker that shows no process counts as a delivery, so a task that ends its process every time fails", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 3 } }).start();
    const join = () => harness.joinWorker("w", { ...olderDialect, dialect: "basic", boot: null, mayBeNewProcess: true });
    const worker = await join();
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();

    for (const deliveries of [2, 3]) {
      await join();
      expect((await harness.runDetail(run)).tasks).toMatchObject([
        { phase: "leased", fence: worker.lastDispatch.fence, deliveries },
      ]);
    }
    await join();

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "failed" }]);
    expect(JSON.parse((await harness.runDetail(run)).tasks[0]?.error ?? "")).toMatchObject({
      code: "E.WORKER.LOST",
      details: { deliveries: 3 },
    });
  });

  it("[B27] a worker that cannot report what it runs loses its attempts when its lease ends", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.disconnect();
    await passTime(harness, 110);
    expect((await harness.workerRow(worker.worker)).phase).toBe("lost");

    const again = await rejoin(harness);
    await harness.settle();

    expect(again.lastDispatch.fence).toBeGreaterThan(worker.lastDispatch.fence);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", attempt: 2 }]);
  });

  it("[B27] a result that names no dispatch counts only for an attempt its process holds", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const other = await harness.joinWorker("v", { ...olderDialect, boot: "b9" });
    const word = {
      type: "task.result",
      tenant: "t1",
      task: worker.lastDispatch.task,
      fence: null,
      status: "succeeded",
      result: "{}",
      error: null,
      durationMs: null,
    } as const;

    await expect(harness.ask({ ...word, worker: other.worker, session: other.session })).rejects.toMatchObject({
      code: "E.SESSION.STALE_BINDING",
    });
    await harness.ask({ ...word, worker: worker.worker, session: worker.session });

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });
});

describe("the question whether it still runs", () => {
  it("[B28] an older worker gets its open dispatches again 2 s after the join, unless they have ended", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { ...olderDialect, boot: "b1", slots: 2 });
    await harness.startRun(buildWorkflow([{}, {}], []));
    await harness.settle();
    const [one, two] = worker.dispatchesSent as [TestWorker["lastDispatch"], TestWorker["lastDispatch"]];
    await worker.ack(one);
    await worker.ack(two);
    const again = await rejoin(harness, null, 2);
    await again.succeed({}, one);
    await harness.advance(1_999);
    expect(again.dispatchesSent).toEqual([]);

    await harness.advance(1);

    expect(again.dispatchesSent).toEqual([two]);
    await again.ack(two);
    await passTime(harness, 30);
    expect(again.dispatchesSent).toEqual([two]);
  });

  it("[B28] the recheck of an older worker's attempts wakes the engine by itself", async () => {
    const { world: harness } = await startGrantedTask();
    await rejoin(harness);
    await harness.settle();

    expect(harness.wakeAt).toBeLessThanOrEqual(harness.now + 2_000);
  });

  it("[B28] a recheck answered with 'still running' keeps the attempt bound while the worker sends heartbeats", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const again = await rejoin(harness);
    await passTime(harness, 2);
    await again.error("E.CMD.CONCURRENCY_VIOLATION");

    for (let beats = 0; beats < 5; beats++) {
      await passTime(harness, 34);
      await again.heartbeat(null);
    }

    expect((await harness.runDetail(run)).tasks).toMatchObject([
      { phase: "leased", fence: worker.lastDispatch.fence, attempt: 1 },
    ]);
    await again.succeed({}, worker.lastDispatch);
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B94] an outcome that a worker has lost and produces again after a recheck is its second attempt, and the ledger counts it as repeated", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const again = await rejoin(harness);
    await passTime(harness, 2);
    await again.ack();

    await again.succeed({ out: 1 }, worker.lastDispatch);

    const { tasks } = await harness.runDetail(run);
    expect(tasks).toMatchObject([{ phase: "succeeded", fence: worker.lastDispatch.fence, attempt: 2 }]);
    const facts = (await harness.store.events({ tenant: "t1", after: 0, limit: 100 })).items;
    const ledger = new LedgerFold(null).add(facts as unknown as LedgerFact[]).finish().figures;
    expect(ledger).toMatchObject({ accepted: 1, finished: 1, attempts: 2, repeated: 1, twice: 0 });
  });

  it("[B28] a recheck without an ack takes the attempt back after the ack deadline", async () => {
    const { world: harness, worker } = await startGrantedTask();
    const again = await rejoin(harness);
    await passTime(harness, 2);
    expect(again.lastDispatch).toEqual(worker.lastDispatch);

    await passTime(harness, 6);

    expect(again.lastDispatch.fence).toBeGreaterThan(worker.lastDispatch.fence);
  });

  it("[B28] recheck dispatches after a join are sent in batches", async () => {
    const harness = await new EngineHarness({ settings: { dueMax: 3 } }).start();
    const worker = await harness.joinWorker("w", { ...olderDialect, boot: "b1", slots: 8 });
    await harness.startRun(
      buildWorkflow(
        Array.from({ length: 8 }, () => ({})),
        [],
      ),
    );
    await harness.settle();
    for (const one of worker.dispatchesSent) await worker.ack(one);
    const again = await rejoin(harness, null, 8);
    const turns = harness.engine.gauge().turns;

    await harness.advance(2_000);
    expect(again.dispatchesSent).toHaveLength(3);
    await harness.settle();
    await harness.settle();

    expect(new Set(again.dispatchesSent.map((one) => one.id)).size).toBe(8);
    expect(harness.engine.gauge().turns - turns).toBe(3);
  });

  it("[B28] a v2 worker that names neither its process nor its attempts keeps them over a join and is sent their dispatches again", async () => {
    const harness = await new EngineHarness().start();
    const silent = { features: [], running: null } as const;
    const worker = await harness.joinWorker("w", { ...silent, boot: "b1" });
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();

    const again = await harness.joinWorker("w", { ...silent, boot: null });
    await passTime(harness, 3);

    expect(again.dispatchesSent).toEqual(worker.dispatchesSent);
  });

  it("[B28] workers that report what they run get no recheck", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();

    const again = await harness.joinWorker("w", { boot: worker.boot, running: worker.dispatchesSent });
    await passTime(harness, 5);

    expect(again.dispatchesSent).toEqual([]);
  });
});

describe("an attempt that was taken back and still runs where the task is granted again", () => {
  /** The worker fell silent for longer than its lease, came back as the same process, and was granted the same task again. */
  async function grantedAgain(): Promise<{
    world: EngineHarness;
    run: string;
    again: TestWorker;
    older: TestWorker["lastDispatch"];
  }> {
    const { world: harness, worker, run } = await startGrantedTask();
    const older = worker.lastDispatch;
    await passTime(harness, 110);
    const again = await rejoin(harness);
    await harness.settle();
    return { world: harness, run, again, older };
  }

  it("[B29] the outcome of a taken-back attempt counts for the newer one once the worker has reported that it still runs", async () => {
    const { world: harness, run, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    await passTime(harness, 60);

    await again.succeed({ out: 7 }, older);

    expect((await harness.runDetail(run)).tasks).toMatchObject([
      { phase: "succeeded", fence: again.lastDispatch.fence, result: JSON.stringify({ out: 7 }) },
    ]);
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    expect(await again.succeed({ out: 7 }, older)).toEqual({ of: "word", applied: false });
  });

  it("[B29] the outcome of a taken-back attempt also counts if it arrives in the same turn as the report that it still runs", async () => {
    const { world: harness, run, again, older } = await grantedAgain();
    const { tenant, worker, session } = again;
    const code = "E.CMD.CONCURRENCY_VIOLATION";
    const { task, fence } = again.lastDispatch;

    await Promise.all(
      harness.askAll([
        { type: "task.error", tenant, worker, session, task, fence, code, message: "still" },
        again.resultCommand(older, { out: 7 }),
      ]),
    );

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B29] the outcome of a taken-back attempt is refused before the worker has reported that it still runs", async () => {
    const { world: harness, run, again, older } = await grantedAgain();

    await expect(again.succeed({ out: 7 }, older)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    await again.succeed({ out: 8 });
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ result: JSON.stringify({ out: 8 }) }]);
  });

  it("[B29] the outcome of a taken-back attempt also counts after another handshake of the same process", async () => {
    const { world: harness, run, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    const third = await rejoin(harness);

    await third.succeed({ out: 7 }, older);

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B29] an outcome under a fence that was never granted is refused", async () => {
    const { again } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");

    const ahead = { task: again.lastDispatch.task, fence: again.lastDispatch.fence + 1 };

    await expect(again.succeed({}, ahead)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[B29] the outcome of a taken-back attempt is refused from another process and from a worker that knows fences", async () => {
    const { world: harness, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    const restarted = await rejoin(harness, "b2");
    await harness.settle();
    await expect(restarted.succeed({}, older)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const modern = await new EngineHarness().start();
    const worker = await modern.joinWorker("w");
    await modern.startRun(buildChain(1));
    await modern.settle();
    const first = worker.lastDispatch;
    await passTime(modern, 6);
    expect(worker.lastDispatch.fence).toBeGreaterThan(first.fence);
    await worker.error("E.CMD.CONCURRENCY_VIOLATION");
    await expect(worker.succeed({}, first)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});
