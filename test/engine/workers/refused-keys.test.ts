// A worker refuses a dispatch with E.CMD.CONCURRENCY_VIOLATION: when that means that the task still runs there, and when another task holds the key.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const older = { dialect: "first", running: null, features: [] } as const;
const violation = "E.CMD.CONCURRENCY_VIOLATION";
const seconds = (count: number): number => count * 1_000;

async function passTime(harness: EngineHarness, span: number, worker?: TestWorker): Promise<void> {
  for (let passed = 0; passed < span; passed++) {
    await harness.advance(seconds(1));
    if (passed % 30 === 29) await worker?.heartbeat(null);
  }
}

async function startGrantedTask(settings: object = {}, about: object = older) {
  const harness = await new EngineHarness({ settings }).start();
  const worker = await harness.joinWorker("w", { ...about, boot: "b1" });
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  await worker.ack();
  return { harness, worker, run };
}

const requeuedFacts = async (harness: EngineHarness, run: string) => {
  const page = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, subject: `run/${run}` });
  return page.items.filter(({ type }) => type === "task.requeued").map(({ data }) => data);
};

describe("a concurrency key that is taken at the worker", () => {
  it("[B91] a task refused at its first dispatch goes back to its queue after a pause, and its log names the worker and the key", async () => {
    const { harness, worker, run } = await startGrantedTask();
    const first = worker.lastDispatch;

    await worker.error(violation, "key k is held");

    const { tasks } = await harness.runDetail(run);
    expect(tasks).toMatchObject([{ phase: "parked", worker: null, failures: 0, deliveries: 0, due: harness.now + 1_000 }]);
    expect(tasks[0]?.fence).toBeGreaterThan(first.fence);
    expect(await requeuedFacts(harness, run)).toMatchObject([{ code: violation, delayMs: 1_000, from: "t1/w" }]);
    const [{ reason } = { reason: "" }] = await requeuedFacts(harness, run);
    expect(reason).toBe("worker w refused it: another task holds its concurrency key there (key k is held)");
    await passTime(harness, 1);
    expect(worker.lastDispatch.fence).toBeGreaterThan(first.fence);
    await worker.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B91] a task that is refused again and again waits twice as long each time, at most a minute, and is never failed by the count", async () => {
    const { harness, worker, run } = await startGrantedTask();

    const expected = [1, 2, 4, 8, 16, 32, 60, 60, 60];
    for (const pause of expected) {
      await worker.error(violation);
      await worker.heartbeat(null);
      await passTime(harness, pause);
    }

    const pauses = (await requeuedFacts(harness, run)).map(({ delayMs }) => delayMs);
    expect(pauses).toEqual(expected.map(seconds));
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", failures: 0, deliveries: 1 }]);
  });

  it("[B91] a task that is refused for longer than an attempt may take fails with E.DISPATCH.UNAVAILABLE", async () => {
    const { harness, worker, run } = await startGrantedTask({ attemptTimeoutMs: seconds(100) });

    // 1 + 2 + ... + 64 s of pauses: none of them is as long as an attempt may be, all together are.
    for (const pause of [1, 2, 4, 8, 16, 32, 60]) {
      await worker.error(violation);
      await passTime(harness, pause, worker);
    }
    await worker.error(violation);

    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "{}")).toMatchObject({
      code: "E.DISPATCH.UNAVAILABLE",
      details: { refusals: 8, refusedForMs: seconds(123) },
    });
  });

  it("[B91] a task that one worker refused may be given to another one after its pause", async () => {
    const { harness, worker, run } = await startGrantedTask();
    const other = await harness.joinWorker("v", { ...older, boot: "b9" });
    await worker.error(violation);
    await worker.heartbeat(null, false);

    await passTime(harness, 2);

    expect(other.dispatchesSent).toHaveLength(1);
    await other.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B19] a refusal of a dispatch that the door had to send more than once means that the task runs there", async () => {
    const { harness, worker, run } = await startGrantedTask();
    const { task, fence } = worker.lastDispatch;
    const { tenant, worker: id, session } = worker;

    await harness.ask({
      type: "task.error",
      tenant,
      worker: id,
      session,
      task,
      fence,
      code: violation,
      message: "held",
      isRepeated: true,
    });

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", fence }]);
  });

  it("[B19] a worker that was given the task before and has reported the end of that attempt refuses for another task", async () => {
    const { harness, worker, run } = await startGrantedTask();
    const before = worker.lastDispatch;
    await harness.ask({ type: "run.retry", tenant: "t1", by: "tester", run, node: before.node, reason: "again" });
    await expect(worker.succeed({}, before)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await harness.settle();
    expect(worker.lastDispatch.fence).toBeGreaterThan(before.fence);

    await worker.error(violation);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "parked" }]);
  });
});
