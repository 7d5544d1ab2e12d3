// What an older session of a worker may still say at a scheduler that has not heard of the newer one: nothing that counts. One
// scheduler, where the older session has lost its seat, is in fence.test.ts; mail, which makes the older one end soon, in mail.test.ts.
import { describe, expect, it } from "vitest";
import { type Crew, chain, type Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";

/** A worker with one acked attempt moves from `near`, which reads no mail and so keeps its seat, to `far`. */
async function movedWorker(): Promise<{ stage: Stage; near: Harness; far: Harness; old: Crew; moved: Crew; run: string }> {
  const stage = new Stage({ mode: "weak" });
  const near = await stage.boot("r1", {
    wrap: (store) => passThrough(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
  });
  const far = await stage.boot("r2");
  const old = await near.join("w");
  const run = await near.run(chain(1));
  await near.settle();
  await old.ack();
  const moved = await far.join("w", { boot: old.boot, running: old.sent });
  return { stage, near, far, old, moved, run };
}

describe("an older session of a worker at another scheduler", () => {
  it("[B15] has its result refused as stale, and the attempt stays with the newer session", async () => {
    const { far, old, moved, run } = await movedWorker();

    await expect(old.done({ out: 1 })).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.detail(run)).tasks).toMatchObject([{ phase: "leased", epoch: 2 }]);
    await moved.done({ out: 2 }, old.last);
    expect((await far.detail(run)).tasks).toMatchObject([{ phase: "succeeded", result: JSON.stringify({ out: 2 }) }]);
  });

  it("[B15] has its error refused as stale, and no attempt is counted as failed", async () => {
    const { far, old, run } = await movedWorker();

    await expect(old.error("E.RUNNER.FAILURE")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.detail(run)).tasks).toMatchObject([{ phase: "leased", failures: 0 }]);
  });

  it("[B15] cannot renew the lease: the worker is lost when its newer session falls silent", async () => {
    const { stage, near, far, old } = await movedWorker();
    const seconds = far.settings.leaseMs / 1_000;

    for (let passed = 0; passed < seconds + 3; passed += 5) {
      await expect(old.beat(old.sent)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
      await stage.pass(5);
    }

    expect(await far.facts("t1", `worker/${old.worker}`)).toContain("worker.lost");
    expect(near.effects.filter((effect) => effect.type === "answer" && effect.body?.of === "worker")).toEqual([]);
  });

  it("[B15] cannot take an attempt from the newer session by not naming it", async () => {
    const { stage, far, old, run } = await movedWorker();
    await stage.pass(far.settings.ackDeadlineMs / 1_000 + 1);

    await expect(old.beat([])).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.detail(run)).tasks).toMatchObject([{ phase: "leased", worker: old.worker, epoch: 2 }]);
  });

  it("[B15] says nothing about the newer one by its end: the worker stays online", async () => {
    const { stage, far, old, moved } = await movedWorker();

    await old.leave();
    await stage.pass(1);

    expect(await far.facts("t1", `worker/${old.worker}`)).not.toContain("worker.left");
    await moved.done({}, old.last);
    const next = await far.run(chain(1));
    await stage.pass(1);
    expect(moved.sent).toMatchObject([{ run: next }]);
  });
});
