// What the engine tells besides its answers: counts for the metrics, facts for the log, and acks worth storing.
import { describe, expect, it } from "vitest";
import { chain, Harness } from "./harness.ts";

async function granted() {
  const world = await new Harness().start();
  const worker = await world.join("w");
  const run = await world.run(chain(2));
  await world.settle();
  return { world, worker, run };
}

const counts = (world: Harness, name: string) =>
  world.effects.filter((effect) => effect.type === "count" && effect.name === name);

describe("what the engine tells", () => {
  it("[E13] counts the latency of results by tenant and node type, once a turn", async () => {
    const { world, worker } = await granted();

    world.now += 40;
    await worker.done({ out: 1 });

    expect(counts(world, "result_latency_ms")).toEqual([
      { type: "count", name: "result_latency_ms", labels: { tenant: "t1", node_type: "test.step" }, values: [40] },
    ]);
  });

  it("[E13] counts tasks sent again by reason, missed heartbeats by worker, stale and duplicate words", async () => {
    const { world, worker } = await granted();
    const old = worker.last;

    await world.advance(5_001);
    await expect(worker.done({}, old)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await worker.done({ out: 1 });
    await expect(worker.done({ out: 2 }, worker.sent[1])).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    for (let second = 0; second < 11; second++) await world.advance(1_000);

    expect(counts(world, "cmd_retry_total")[0]).toMatchObject({ labels: { reason: "E.TIMEOUT" }, values: [1] });
    expect(counts(world, "stale_words_total")).toHaveLength(1);
    expect(counts(world, "duplicate_results_total")).toHaveLength(1);
    expect(counts(world, "ws_heartbeat_miss_total")[0]).toMatchObject({ labels: { tenant: "t1", worker: "w" } });
  });

  it("[E14] tells a run's life as facts, in order, without gaps, and says how far the log has grown", async () => {
    const { world, worker, run } = await granted();
    await world.ask({
      type: "task.feedback",
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      task: worker.last.task,
      fence: worker.last.fence,
      data: { stage: "half", progress: 0.5 },
    });
    await worker.done({ out: 1 });
    await worker.done({ out: 2 });

    const page = await world.store.events({ tenant: "t1", after: 0, subject: `run/${run}`, limit: 100 });

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
    const grew = world.effects.filter((effect) => effect.type === "log");
    expect(grew.at(-1)).toMatchObject({ head: page.head });
  });

  it("[E17] appends what a result has overtaken to the log, marked as late, for a minute and under the fence that ended the task", async () => {
    const { world, worker, run } = await granted();
    const { task, fence } = worker.last;
    const say = (of: number, message: string) =>
      world.ask({
        type: "task.feedback",
        tenant: "t1",
        worker: worker.worker,
        session: worker.session,
        task,
        fence: of,
        data: { message },
      });
    await worker.done({ out: 1 });

    expect(await say(fence, "overtaken")).toMatchObject({ applied: true });
    await expect(say(fence - 1, "of an older attempt")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await world.advance(60_001);
    expect(await say(fence, "too late")).toMatchObject({ applied: false });

    const { items } = await world.store.events({ tenant: "t1", after: 0, subject: `run/${run}`, limit: 100 });
    const told = items.filter(({ type }) => type === "task.feedback").map(({ data }) => data);
    expect(told).toEqual([{ task, fence, message: "overtaken", isLate: true }]);
    expect((await world.detail(run)).tasks[0]?.phase).toBe("succeeded");
  });

  it("[E15] stores the ack of an attempt that lives longer than a moment, and of no other", async () => {
    const { world, worker, run } = await granted();
    await worker.ack();
    expect((await world.detail(run)).tasks[0]?.acked).toBe(false);

    await world.advance(1_001);
    expect((await world.detail(run)).tasks[0]?.acked).toBe(true);
    await worker.done({ out: 1 });
    await worker.ack();
    await worker.done({ out: 2 });

    expect((await world.detail(run)).tasks[1]?.acked).toBe(false);
  });
});
