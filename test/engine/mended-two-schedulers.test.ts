// Bugs that showed only on a store that others share: rows that come on demand, roots in other hands, work and workers that move
// between schedulers. One scheduler alone is in mended-one.test.ts.
import { describe, expect, it } from "vitest";
import { about, chain, graph } from "./harness.ts";
import { hear, passThrough, Stage } from "./mended-stage.ts";

describe("rows that come on demand", () => {
  it("[U8] a worker that comes back keeps all it holds, although its join asks for one row after another", async () => {
    const slots = 12;
    const stage = new Stage({ mode: "weak" });
    const world = await stage.boot("r1");
    const worker = await world.join("w", { slots });
    const tasks = Array.from({ length: slots }, () => ({}));
    const run = await world.run(graph(tasks, []));
    await stage.pass(1);
    expect(worker.sent).toHaveLength(slots);
    const granted = (await world.detail(run)).tasks.map(({ id, fence }) => ({ id, fence }));

    const heard = await hear(world.join("w", { slots, boot: worker.boot, session: "w-back", running: worker.sent }));

    expect(heard).toBe("done");
    expect((await world.detail(run)).tasks).toMatchObject(granted.map((task) => ({ ...task, phase: "leased" })));
  });
});

const heard = (said: Promise<unknown>): Promise<string> =>
  said.then(
    () => "done",
    (refused: { code: string }) => refused.code,
  );

describe("two schedulers on one store", () => {
  it("[U9] work of a kind that one scheduler has never seen is served by it when the other took the order", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const worker = await far.join("w");

    const run = await near.run(chain(1));
    await stage.pass(5);

    expect(worker.sent).toMatchObject([{ run }]);
  });

  it("[U9] also when the hint that told of it was lost", async () => {
    const stage = new Stage({ mode: "weak" });
    const deaf = await stage.boot("r1", { wrap: (store) => passThrough(store, { onHint: () => undefined }) });
    const far = await stage.boot("r2");
    const worker = await deaf.join("w");

    const run = await far.run(chain(1));
    await stage.passIdle(5, worker);

    expect(worker.sent).toMatchObject([{ run }]);
  });

  it("[U9] a cancel through the other scheduler frees the slot of the worker here", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const worker = await near.join("w");
    const run = await near.run(chain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await worker.done({}, worker.last);
    const next = await near.run(chain(1));
    await stage.passIdle(20, worker);

    expect((await near.detail(run)).run.phase).toBe("cancelled");
    expect(worker.sent.map((dispatch) => dispatch.run)).toContain(next);
  });

  it("[U9] a worker that moved to the other scheduler gets its work there, and none from the first any more", async () => {
    const stage = new Stage({ mode: "weak" });
    const [first, second] = [await stage.boot("r1"), await stage.boot("r2")];
    const old = await first.join("w", { session: "w-old" });
    await first.run(chain(1));
    await first.settle();
    await old.done();

    const moved = await second.join("w", { boot: old.boot, session: "w-new" });
    const run = await first.run(chain(1));
    await first.settle();
    await old.leave();
    await stage.passIdle(60, moved);

    expect(old.sent).toHaveLength(1);
    expect(moved.sent.map((dispatch) => dispatch.run)).toContain(run);
  });

  it("[U9] a task at the head of its line that is busy when it is claimed is claimed again", async () => {
    const stage = new Stage({ mode: "weak" });
    const world = await stage.boot("r1");
    const run = await world.run(chain(1));
    const held = await stage.hold(run);
    const worker = await world.join("w");
    await stage.pass(1);
    expect(worker.sent).toEqual([]);

    await held.abort();
    await stage.passIdle(5, worker);

    expect(worker.sent).toMatchObject([{ run }]);
  });

  it("[U9] a join whose session ended while the store was away takes the worker from nobody", async () => {
    const stage = new Stage({ mode: "weak" });
    let isAway = false;
    const cut = await stage.boot("r1", {
      wrap: (store) =>
        passThrough(store, { begin: (want) => (isAway ? Promise.reject(new Error("no connection")) : store.begin(want)) }),
    });
    const near = await stage.boot("r2");
    isAway = true;
    const late = { tenant: "t1", worker: "t1/w", session: "w-late" } as const;
    const joining = heard(cut.ask({ ...late, type: "worker.join", name: "w", boot: "w-boot", about: about({}), running: [] }));
    const leaving = heard(cut.ask({ ...late, type: "worker.leave", reason: "socket closed" }));
    const worker = await near.join("w", { boot: "w-boot" });
    await near.run(chain(1));
    await stage.pass(1);
    await worker.ack();

    isAway = false;
    await stage.pass(2);

    expect(await Promise.all([joining, leaving])).toEqual(["E.SESSION.UNKNOWN", "done"]);
    expect(await worker.done({})).toMatchObject({ applied: true });
  });

  it("[U13] a drain through a scheduler that still has an old seat of the worker reaches the worker where it is", async () => {
    const stage = new Stage({ mode: "weak" });
    const old = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const now = await stage.boot("r2");
    const first = await old.join("w");
    const moved = await now.join("w", { boot: first.boot });

    await old.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: first.worker, on: true });
    await stage.pass(1);

    expect(now.effects).toContainEqual(expect.objectContaining({ type: "drain", session: moved.session, on: true }));
  });
});
