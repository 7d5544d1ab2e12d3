// What the engine reports besides its answers: counts for the metrics, facts for the log, and acks worth storing.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

async function startGrantedTask() {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w");
  const run = await harness.startRun(buildChain(2));
  await harness.settle();
  return { world: harness, worker, run };
}

const countersNamed = (harness: EngineHarness, name: string) =>
  harness.effects.filter((effect) => effect.type === "count" && effect.name === name);

describe("what the engine tells", () => {
  it("[E13] the engine counts the latency of results by tenant and node type, once per turn", async () => {
    const { world: harness, worker } = await startGrantedTask();

    harness.now += 40;
    await worker.succeed({ out: 1 });

    expect(countersNamed(harness, "result_latency_ms")).toEqual([
      { type: "count", name: "result_latency_ms", labels: { tenant: "t1", node_type: "test.step" }, values: [40] },
    ]);
  });

  it("[E13] the engine counts tasks sent again by reason, missed heartbeats by worker, and stale and duplicate results", async () => {
    const { world: harness, worker } = await startGrantedTask();
    const old = worker.lastDispatch;

    await harness.advance(5_001);
    await expect(worker.succeed({}, old)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await worker.succeed({ out: 1 });
    await expect(worker.succeed({ out: 2 }, worker.dispatchesSent[1])).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    for (let second = 0; second < 11; second++) await harness.advance(1_000);

    expect(countersNamed(harness, "cmd_retry_total")[0]).toMatchObject({ labels: { reason: "E.TIMEOUT" }, values: [1] });
    expect(countersNamed(harness, "stale_words_total")).toHaveLength(1);
    expect(countersNamed(harness, "duplicate_results_total")).toHaveLength(1);
    expect(countersNamed(harness, "ws_heartbeat_miss_total")[0]).toMatchObject({ labels: { tenant: "t1", worker: "w" } });
  });

  it("[E14] the log records the life of a run in order and without gaps, and the engine reports the new end of the log", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await harness.ask({
      type: "task.feedback",
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      task: worker.lastDispatch.task,
      fence: worker.lastDispatch.fence,
      data: { stage: "half", progress: 0.5 },
    });
    await worker.succeed({ out: 1 });
    await worker.succeed({ out: 2 });

    const page = await harness.store.events({ tenant: "t1", after: 0, subject: `run/${run}`, limit: 100 });

    expect(page.items.map((item) => item.type)).toEqual([
      "run.created",
      "task.ready",
      "run.started",
      "task.granted",
      "task.feedback",
      "task.succeeded",
      "task.granted",
      "task.succeeded",
      "run.succeeded",
    ]);
    expect(page.items[4]?.data).toMatchObject({ stage: "half", progress: 0.5 });
    const grew = harness.effects.filter((effect) => effect.type === "log");
    expect(grew.at(-1)).toMatchObject({ head: page.head });
  });

  it("[E17] feedback that arrives after the result is logged as late, for one minute and only under the fence that ended the task", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const { task, fence } = worker.lastDispatch;
    const sendFeedback = (of: number, message: string) =>
      harness.ask({
        type: "task.feedback",
        tenant: "t1",
        worker: worker.worker,
        session: worker.session,
        task,
        fence: of,
        data: { message },
      });
    await worker.succeed({ out: 1 });

    expect(await sendFeedback(fence, "overtaken")).toMatchObject({ applied: true });
    await expect(sendFeedback(fence - 1, "of an older attempt")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await harness.advance(60_001);
    expect(await sendFeedback(fence, "too late")).toMatchObject({ applied: false });

    const { items } = await harness.store.events({ tenant: "t1", after: 0, subject: `run/${run}`, limit: 100 });
    const feedback = items.filter(({ type }) => type === "task.feedback").map(({ data }) => data);
    expect(feedback).toEqual([{ task, fence, message: "overtaken", isLate: true }]);
    expect((await harness.runDetail(run)).tasks[0]?.phase).toBe("succeeded");
  });

  it("[E15] the engine stores the ack of an attempt that runs longer than a second, and of no other", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.ack();
    expect((await harness.runDetail(run)).tasks[0]?.acked).toBe(false);

    await harness.advance(1_001);
    expect((await harness.runDetail(run)).tasks[0]?.acked).toBe(true);
    await worker.succeed({ out: 1 });
    await worker.ack();
    await worker.succeed({ out: 2 });

    expect((await harness.runDetail(run)).tasks[1]?.acked).toBe(false);
  });
});
