// The same session on a new socket: what it keeps, what is awaited anew, and when it must register instead. Full joins are in fence.test.ts.
import type { SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, Harness } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

/** A worker with one granted attempt. */
async function working(): Promise<{ world: Harness; worker: Crew; run: string }> {
  const world = await new Harness().start();
  const worker = await world.join("w");
  const run = await world.run(chain(1));
  await world.settle();
  return { world, worker, run };
}

const resume = (world: Harness, { session, boot }: Crew, unacked: { task: string; fence: number }[] = []): Promise<Crew> =>
  world.join("w", { session, boot, running: null, resumed: { unacked } });

describe("a resumed session", () => {
  it("[B25] keeps its attempts under their fences after its socket was gone, in a higher epoch, and says so in the log", async () => {
    const { world, worker, run } = await working();
    await worker.ack();
    await worker.leave();
    await world.advance(20_000);

    await resume(world, worker);

    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", fence: worker.last.fence, epoch: 2 }]);
    expect(await world.told(worker.worker, "worker.joined")).toMatchObject([{ epoch: 1 }, { epoch: 2, resumed: true }]);
    await worker.done({ out: 1 });
    expect((await world.detail(run)).run.phase).toBe("succeeded");
    expect(world.dispatches()).toHaveLength(1);
  });

  it("[B25] takes the place of its half-open socket without a reset, and old and new words count alike", async () => {
    const { world, worker, run } = await working();
    await worker.ack();

    await resume(world, worker);

    expect(world.effects.filter((effect): effect is SendReset => effect.type === "reset")).toEqual([]);
    await worker.done();
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B25] gets the whole ack deadline anew for a dispatch it has not acked, and loses it after that", async () => {
    const { world, worker, run } = await working();
    await world.advance(4_000);
    await worker.leave();
    await resume(world, worker, [worker.last]);

    await world.advance(4_000);
    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", fence: worker.last.fence, acked: false }]);
    const before = worker.last.fence;
    await world.advance(1_001);
    await world.settle();

    expect(worker.last.fence).toBeGreaterThan(before);
    expect(world.stops()).toMatchObject([{ fence: before }]);
  });

  it("[B25] keeps for good what it acks after the resume, also under the timers of the first try", async () => {
    const { world, worker, run } = await working();
    const { fence } = worker.last;
    await world.advance(4_000);
    await resume(world, worker, [worker.last]);
    await worker.ack();

    await world.advance(9_000);

    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "leased", fence, acked: true }]);
  });

  it("[B25] does not count as acked what was sent after the door looked", async () => {
    const { world, worker, run } = await working();
    const { fence } = worker.last;

    await resume(world, worker, []);
    await world.advance(5_001);
    await world.settle();

    expect((await world.detail(run)).tasks[0]?.fence).toBeGreaterThan(fence);
  });

  it("[B25] is told to stop a dispatch that was taken back while it had no socket, before anything is sent again", async () => {
    const { world, worker, run } = await working();
    await worker.leave();
    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });

    await resume(world, worker, [worker.last]);

    expect(world.stops()).toMatchObject([{ session: worker.session, task: worker.last.task, fence: worker.last.fence }]);
  });

  it("[B25] may flap: leave, resume, leave, resume in one turn end with the worker online and its work kept", async () => {
    const { world, worker, run } = await working();
    await worker.ack();
    const { tenant, worker: id, session, boot } = worker;
    const leave = { type: "worker.leave", tenant, worker: id, session, reason: "gone" } as const;
    const about = JSON.parse((await world.workerRow(id)).about) as never;
    const join = {
      type: "worker.join",
      tenant,
      worker: id,
      name: "w",
      boot,
      session,
      about,
      running: null,
      resumed: { unacked: [] },
    } as const;

    const said = await Promise.allSettled(world.askAll([leave, join, leave, join]));

    expect(said.map((one) => one.status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect((await world.workerRow(id)).phase).toBe("online");
    await worker.done();
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });
});

describe("a session that cannot be resumed", () => {
  const stale = { code: "E.SESSION.STALE_BINDING" };

  it("[B26] is refused when its worker is unknown or has another process by now", async () => {
    const { world, worker } = await working();

    await expect(resume(world, { ...worker, boot: "other" } as Crew)).rejects.toMatchObject(stale);
    await expect(
      world.join("nobody", { session: "s", boot: "b", running: null, resumed: { unacked: [] } }),
    ).rejects.toMatchObject(stale);
  });

  it("[B26] is refused when the worker has had another session since, live or gone, here or at another scheduler", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const first = await near.join("w");
    const second = await far.join("w", { boot: first.boot, session: "far" });

    await expect(resume(near, first)).rejects.toMatchObject(stale);
    await second.leave();
    await expect(resume(near, first)).rejects.toMatchObject(stale);

    expect((await near.workerRow(first.worker)).epoch).toBe(2);
  });

  it("[B26] is refused when its lease is over, before and after that was noticed", async () => {
    const { world, worker, run } = await working();
    await worker.ack();
    await worker.leave();
    for (let passed = 0; passed < 29; passed++) await world.advance(1_000);
    world.now += 1_500;

    await expect(resume(world, worker)).rejects.toMatchObject(stale);
    await world.advance(1_000);
    expect((await world.workerRow(worker.worker)).phase).toBe("lost");
    await expect(resume(world, worker)).rejects.toMatchObject(stale);

    expect((await world.detail(run)).tasks).toMatchObject([{ worker: null, phase: "ready" }]);
  });
});
