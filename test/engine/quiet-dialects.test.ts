// Workers that have no boot id, cannot report what they run and beat slowly (the first generation and v1): what they keep over a join, how
// they are asked about it, and whose outcome counts.
import { describe, expect, it } from "vitest";
import { type Crew, chain, graph, Harness } from "./harness.ts";

const quiet = { dialect: "first", running: null, features: [] } as const;
const seconds = (count: number): number => count * 1_000;

async function pass(world: Harness, span: number): Promise<void> {
  for (let passed = 0; passed < span; passed++) await world.advance(seconds(1));
}

/** A quiet worker that has acked one attempt. */
async function working(slots = 1): Promise<{ world: Harness; worker: Crew; run: string }> {
  const world = await new Harness().start();
  const worker = await world.join("w", { ...quiet, boot: "b1", slots });
  const run = await world.run(chain(1));
  await world.settle();
  await worker.ack();
  return { world, worker, run };
}

const back = (world: Harness, boot: string | null = null, slots = 1): Promise<Crew> => world.join("w", { ...quiet, boot, slots });

describe("a worker that cannot report", () => {
  it("[B27] keeps its attempts over a new handshake of the same process while its lease lasts", async () => {
    const { world, worker, run } = await working();
    await worker.leave();
    await pass(world, 60);

    const again = await back(world);

    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", fence: worker.last.fence, boot: "b1" }]);
    await again.done({}, worker.last);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B27] gets a boot of its own at its first join, and keeps that", async () => {
    const world = await new Harness().start();
    await back(world);
    const { boot } = await world.workerRow("t1/w");

    await back(world);

    expect(boot).not.toBe("");
    expect((await world.workerRow("t1/w")).boot).toBe(boot);
  });

  it("[B27] loses them at once when it is a new process", async () => {
    const { world, worker, run } = await working();

    await back(world, "b2");
    await world.settle();

    expect((await world.detail(run)).tasks[0]?.fence).toBeGreaterThan(worker.sent[0]?.fence ?? 0);
    expect(await world.facts("t1", `run/${run}`)).toContain("task.requeued");
  });

  it("[B27] has lost them when its lease is over", async () => {
    const { world, worker, run } = await working();
    await worker.leave();
    await pass(world, 110);
    expect((await world.workerRow(worker.worker)).phase).toBe("lost");

    const again = await back(world);
    await world.settle();

    expect(again.last.fence).toBeGreaterThan(worker.last.fence);
    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", attempt: 2 }]);
  });

  it("[B27] delivers a result that names no dispatch for what its process holds, and for nothing else", async () => {
    const { world, worker, run } = await working();
    const other = await world.join("v", { ...quiet, boot: "b9" });
    const word = {
      type: "task.result",
      tenant: "t1",
      task: worker.last.task,
      fence: null,
      status: "succeeded",
      result: "{}",
      error: null,
      durationMs: null,
    } as const;

    await expect(world.ask({ ...word, worker: other.worker, session: other.session })).rejects.toMatchObject({
      code: "E.SESSION.STALE_BINDING",
    });
    await world.ask({ ...word, worker: worker.worker, session: worker.session });

    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });
});

describe("the question whether it still runs", () => {
  it("[B28] is the same dispatch again, 2 s after the join, and only for what has not ended", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { ...quiet, boot: "b1", slots: 2 });
    await world.run(graph([{}, {}], []));
    await world.settle();
    const [one, two] = worker.sent as [Crew["last"], Crew["last"]];
    await worker.ack(one);
    await worker.ack(two);
    const again = await back(world, null, 2);
    await again.done({}, one);
    await world.advance(1_999);
    expect(again.sent).toEqual([]);

    await world.advance(1);

    expect(again.sent).toEqual([two]);
    await again.ack(two);
    await pass(world, 30);
    expect(again.sent).toEqual([two]);
  });

  it("[B28] wakes the engine by itself", async () => {
    const { world } = await working();
    await back(world);
    await world.settle();

    expect(world.wakeAt).toBeLessThanOrEqual(world.now + 2_000);
  });

  it("[B28] answered with still running, keeps the binding for as long as the worker beats", async () => {
    const { world, worker, run } = await working();
    const again = await back(world);
    await pass(world, 2);
    await again.error("E.CMD.CONCURRENCY_VIOLATION");

    for (let beats = 0; beats < 5; beats++) {
      await pass(world, 34);
      await again.beat(null);
    }

    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", fence: worker.last.fence, attempt: 1 }]);
    await again.done({}, worker.last);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B28] left without an ack, takes the attempt back after the ack deadline", async () => {
    const { world, worker } = await working();
    const again = await back(world);
    await pass(world, 2);
    expect(again.last).toEqual(worker.last);

    await pass(world, 6);

    expect(again.last.fence).toBeGreaterThan(worker.last.fence);
  });

  it("[B28] is asked in batches, so that a turn stays small", async () => {
    const world = await new Harness({ settings: { dueMax: 3 } }).start();
    const worker = await world.join("w", { ...quiet, boot: "b1", slots: 8 });
    await world.run(
      graph(
        Array.from({ length: 8 }, () => ({})),
        [],
      ),
    );
    await world.settle();
    for (const one of worker.sent) await worker.ack(one);
    const again = await back(world, null, 8);
    const turns = world.engine.gauge().turns;

    await world.advance(2_000);
    expect(again.sent).toHaveLength(3);
    await world.settle();
    await world.settle();

    expect(new Set(again.sent.map((one) => one.id)).size).toBe(8);
    expect(world.engine.gauge().turns - turns).toBe(3);
  });

  it("[B28] is asked of no other worker: those that report have said what they run", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    await world.run(chain(1));
    await world.settle();
    await worker.ack();

    const again = await world.join("w", { boot: worker.boot, running: worker.sent });
    await pass(world, 5);

    expect(again.sent).toEqual([]);
  });
});

describe("an attempt that was taken back and still runs where the task is granted again", () => {
  /** The worker fell silent for longer than its lease, came back as the same process, and was granted the same task again. */
  async function grantedAgain(): Promise<{ world: Harness; run: string; again: Crew; older: Crew["last"] }> {
    const { world, worker, run } = await working();
    const older = worker.last;
    await pass(world, 110);
    const again = await back(world);
    await world.settle();
    return { world, run, again, older };
  }

  it("[B29] brings the outcome of the newer one, once the worker has said that it still runs there", async () => {
    const { world, run, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    await pass(world, 60);

    await again.done({ out: 7 }, older);

    expect((await world.detail(run)).tasks).toMatchObject([
      { phase: "succeeded", fence: again.last.fence, result: JSON.stringify({ out: 7 }) },
    ]);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
    expect(await again.done({ out: 7 }, older)).toEqual({ of: "word", applied: false });
  });

  it("[B29] brings it also when both words come in one turn", async () => {
    const { world, run, again, older } = await grantedAgain();
    const { tenant, worker, session } = again;
    const code = "E.CMD.CONCURRENCY_VIOLATION";
    const { task, fence } = again.last;

    await Promise.all(
      world.askAll([
        { type: "task.error", tenant, worker, session, task, fence, code, message: "still" },
        again.resultCommand(older, { out: 7 }),
      ]),
    );

    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B29] counts for nothing before the worker has said so, and the newer one runs", async () => {
    const { world, run, again, older } = await grantedAgain();

    await expect(again.done({ out: 7 }, older)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    await again.done({ out: 8 });
    expect((await world.detail(run)).tasks).toMatchObject([{ result: JSON.stringify({ out: 8 }) }]);
  });

  it("[B29] counts over a further handshake of the same process too, before it is asked again", async () => {
    const { world, run, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    const third = await back(world);

    await third.done({ out: 7 }, older);

    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B29] counts for nothing under a fence that was never granted", async () => {
    const { again } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");

    const ahead = { task: again.last.task, fence: again.last.fence + 1 };

    await expect(again.done({}, ahead)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[B29] counts for nothing from another process, nor from a worker that knows fences", async () => {
    const { world, again, older } = await grantedAgain();
    await again.error("E.CMD.CONCURRENCY_VIOLATION");
    const restarted = await back(world, "b2");
    await world.settle();
    await expect(restarted.done({}, older)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const modern = await new Harness().start();
    const worker = await modern.join("w");
    await modern.run(chain(1));
    await modern.settle();
    const first = worker.last;
    await pass(modern, 6);
    expect(worker.last.fence).toBeGreaterThan(first.fence);
    await worker.error("E.CMD.CONCURRENCY_VIOLATION");
    await expect(worker.done({}, first)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});
