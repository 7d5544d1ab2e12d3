// Words for workers whose socket another scheduler holds: stop, drain and reset travel as mail, and a heartbeat makes good what no mail
// brought. What one scheduler says to its own sockets is in life, fence and place.
import type { ChangeSet, SendDrain, SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { chain, type Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";

const resets = (world: Harness): SendReset[] => world.effects.filter((effect): effect is SendReset => effect.type === "reset");
const drains = (world: Harness): SendDrain[] => world.effects.filter((effect): effect is SendDrain => effect.type === "drain");

async function twoSchedulers() {
  const stage = new Stage({ mode: "weak" });
  const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
  const worker = await near.join("w");
  return { stage, near, far, worker };
}

describe("words for another scheduler's sockets", () => {
  it("[U13] a cancel reaches the worker at once, through whichever scheduler it came, and its slot serves the next", async () => {
    const { stage, near, far, worker } = await twoSchedulers();
    const run = await near.run(chain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await stage.pass(1);

    expect(near.stops()).toMatchObject([{ session: worker.session, task: worker.sent[0]?.task, code: "E.RUNNER.CANCELLED" }]);
    const next = await far.run(chain(1));
    await stage.pass(2);
    expect(worker.sent.map((dispatch) => dispatch.run)).toEqual([run, next]);
  });

  it("[U13] a drain asked of another scheduler is told to the worker at once, and so is its end", async () => {
    const { stage, near, far, worker } = await twoSchedulers();

    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });
    await stage.pass(1);
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: false });
    await stage.pass(1);

    expect(drains(near).map(({ session, on }) => [session, on])).toEqual([
      [worker.session, true],
      [worker.session, false],
    ]);
  });

  it("[U13] a letter about a drain that has ended meanwhile changes nothing", async () => {
    const stage = new Stage({ mode: "weak" });
    let isDeaf = true;
    const near = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { begin: (want) => store.begin(isDeaf ? { ...want, mail: 0 } : want) }),
    });
    const far = await stage.boot("r2");
    const worker = await near.join("w");
    const drain = { type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker } as const;
    await far.ask({ ...drain, on: true });
    await near.ask({ ...drain, on: false });
    const back = await near.join("w", { boot: worker.boot });
    const before = drains(near).length;

    isDeaf = false;
    await stage.pass(1);

    expect(drains(near).slice(before)).toEqual([]);
    const run = await near.run(chain(1));
    await stage.pass(1);
    expect(back.sent).toMatchObject([{ run }]);
  });

  it("[U13] a worker that moves to another scheduler has its old session reset there, and only that one", async () => {
    const { stage, near, far, worker } = await twoSchedulers();

    const moved = await far.join("w", { boot: worker.boot });
    await stage.pass(1);

    expect(resets(near)).toMatchObject([{ session: worker.session, code: "E.SESSION.SUPERSEDED" }]);
    await stage.pass(2);
    const back = await near.join("w", { boot: worker.boot });
    await stage.pass(1);
    expect(resets(far)).toMatchObject([{ session: moved.session }]);
    expect(resets(near).map(({ session }) => session)).not.toContain(back.session);
  });

  it("[U13] mail that cannot be read is reported and dropped, and holds up nothing", async () => {
    const stage = new Stage({ mode: "weak" });
    const near = await stage.boot("r1");
    const far = await stage.boot("r2", {
      wrap: (store) =>
        passThrough(store, {
          async begin(want) {
            const tx = await store.begin(want);
            const spoil = (unit: ChangeSet): ChangeSet => ({
              ...unit,
              mail: unit.mail.map((mail) => ({ ...mail, body: "{ not json" })),
            });
            return {
              now: tx.now,
              nextDue: tx.nextDue,
              claimed: tx.claimed,
              due: tx.due,
              mail: tx.mail,
              row: (kind, id) => tx.row(kind, id),
              tasks: (list) => tx.tasks(list),
              peekWorker: (worker) => tx.peekWorker(worker),
              loadMore: (rows, lists, addresses) => tx.loadMore(rows, lists, addresses),
              commit: (turn, units) => tx.commit(turn, units.map(spoil)),
              abort: () => tx.abort(),
            };
          },
        }),
    });
    const worker = await near.join("w");
    const run = await near.run(chain(1));
    await near.settle();
    await worker.ack();

    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await stage.pass(3);

    expect(near.stops()).toEqual([]);
    expect(near.problems).toMatchObject([{ code: "E.INTERNAL" }]);
    expect((await near.detail(run)).run.phase).toBe("cancelled");
    await worker.beat(worker.sent);
    expect(near.stops()).toMatchObject([{ task: worker.sent[0]?.task }]);
  });
});

describe("without mail", () => {
  it("[U15] a grant to a worker that was drained elsewhere is not written; the worker is told, and gets nothing", async () => {
    const stage = new Stage({ mode: "weak" });
    const near = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const far = await stage.boot("r2");
    const worker = await near.join("w");
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });

    const run = await near.run(chain(1));
    await stage.pass(2);

    expect(worker.sent).toEqual([]);
    expect(drains(near)).toMatchObject([{ session: worker.session, on: true }]);
    expect((await near.detail(run)).tasks).toMatchObject([{ phase: "ready", fence: 0 }]);
    await far.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: false });
    await worker.beat([]);
    await stage.pass(2);
    expect(worker.sent).toMatchObject([{ run }]);
  });

  it("[U14] a heartbeat finds out that an attempt was ended elsewhere, stops it and frees its slot", async () => {
    const stage = new Stage({ mode: "weak" });
    const near = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
    });
    const far = await stage.boot("r2");
    const worker = await near.join("w");
    const run = await near.run(chain(1));
    await near.settle();
    await worker.ack();
    await far.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await stage.pass(1);
    expect(near.stops()).toEqual([]);

    await worker.beat(worker.sent);

    expect(near.stops()).toMatchObject([{ session: worker.session, task: worker.sent[0]?.task }]);
    const next = await near.run(chain(1));
    await stage.pass(2);
    expect(worker.last.run).toBe(next);
  });
});
