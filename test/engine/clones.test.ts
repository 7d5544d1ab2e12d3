// Two processes with one instance id, and an operator's hand on a session: who keeps it, who is sent away, and what a connected worker is told.
import type { SendReset, SendVendorFrame } from "@astraflow/engine";
import { readCondition } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";

const resets = (world: Harness): SendReset[] => world.effects.filter((effect): effect is SendReset => effect.type === "reset");
const tells = (world: Harness): SendVendorFrame[] =>
  world.effects.filter((effect): effect is SendVendorFrame => effect.type === "tell");
const denied = { code: "E.SESSION.DENIED" };

describe("two processes with one instance id", () => {
  it("[B35] do not take the session from each other: the newest keeps it, the other is refused with the way out", async () => {
    const world = await new Harness().start();
    await world.join("w", { boot: "old" });
    const newest = await world.join("w", { boot: "new" });
    const run = await world.run(chain(1));
    await world.settle();

    for (let tries = 0; tries < 3; tries++)
      await expect(world.join("w", { boot: "old" })).rejects.toMatchObject({
        ...denied,
        message: expect.stringMatching(/has been live for 0 s; give this one its own id/) as string,
      });

    expect(resets(world)).toHaveLength(1);
    await newest.done();
    expect((await world.detail(run)).run.phase).toBe("succeeded");
    expect((await world.workerRow(newest.worker)).epoch).toBe(2);
  });

  it("[B35] are told of once in the log and once to the operator, and counted every time", async () => {
    const world = await new Harness().start();
    await world.join("w", { boot: "old" });
    await world.join("w", { boot: "new" });

    for (let tries = 0; tries < 3; tries++) await expect(world.join("w", { boot: "old" })).rejects.toMatchObject(denied);

    expect(await world.told("t1/w", "worker.cloned")).toMatchObject([{ boot: "old", live: "new" }]);
    expect(world.problems).toMatchObject([{ code: "E.SESSION.DENIED", details: { tenant: "t1", worker: "w" } }]);
    expect(world.counted("worker_cloned_total")).toHaveLength(3);
  });

  it("[B35] are found out by any replica", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    await near.join("w", { boot: "old" });
    await near.join("w", { boot: "new" });

    await expect(far.join("w", { boot: "old" })).rejects.toMatchObject(denied);
  });

  it("[B35] may follow each other: a former one returns once the present session is gone", async () => {
    const world = await new Harness().start();
    await world.join("w", { boot: "one" });
    const two = await world.join("w", { boot: "two" });
    await expect(world.join("w", { boot: "one" })).rejects.toMatchObject(denied);
    await two.leave();

    await world.join("w", { boot: "one" });

    await expect(world.join("w", { boot: "two" })).rejects.toMatchObject(denied);
    expect(readCondition((await world.workerRow("t1/w")).condition)).toMatchObject({ formerBoots: ["two"], clones: ["two"] });
  });

  it("[B35] are not seen in a process that joins again, nor in one that was restarted", async () => {
    const world = await new Harness().start();
    for (const boot of ["a", "a", "b", "b", "c"]) await world.join("w", { boot });

    expect(await world.facts("t1", "worker/t1/w")).not.toContain("worker.cloned");
  });
});

const kick = (world: Harness, worker: string, tenant = "t1") =>
  world.ask({ type: "worker.kick", tenant, by: "me", worker, reason: "its token leaked" });

describe("a kick", () => {
  async function working(): Promise<{ world: Harness; worker: Crew; run: string }> {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(1));
    await world.settle();
    await worker.ack();
    return { world, worker, run };
  }

  it("[B36] ends the session with E.AUTH.INVALID_TOKEN, and the worker may come back to what it held", async () => {
    const { world, worker, run } = await working();

    expect(await kick(world, worker.worker)).toEqual({ of: "worker", worker: worker.worker, draining: false, at: world.now });

    expect(resets(world)).toMatchObject([
      { session: worker.session, code: "E.AUTH.INVALID_TOKEN", reason: "kicked by me: its token leaked" },
    ]);
    expect(await world.told(worker.worker, "worker.kicked")).toEqual([{ by: "me", reason: "its token leaked" }]);
    expect((await world.workerRow(worker.worker)).phase).toBe("away");
    await expect(worker.beat(null)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    const again = await world.join("w", { boot: worker.boot, running: [worker.last] });
    await again.done({}, worker.last);
    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 1 }]);
  });

  it("[B36] cannot be undone by resuming the session, also when its socket was gone before", async () => {
    for (const isGone of [false, true]) {
      const { world, worker } = await working();
      if (isGone) await worker.leave();

      await kick(world, worker.worker);

      const resume = { session: worker.session, boot: worker.boot, running: null, resumed: { unacked: [] } };
      await expect(world.join("w", resume)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
      expect(await world.told(worker.worker, "worker.kicked")).toHaveLength(1);
    }
  });

  it("[B36] leaves its attempts to the lease: they go back into line when the worker stays away", async () => {
    const { world, worker, run } = await working();
    await kick(world, worker.worker);
    for (let passed = 0; passed < 32; passed++) await world.advance(1_000);

    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "ready", worker: null }]);
  });

  it("[B36] reaches the socket at another scheduler", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const worker = await near.join("w");

    await kick(far, worker.worker);
    await stage.pass(1);

    expect(resets(near)).toMatchObject([{ session: worker.session, code: "E.AUTH.INVALID_TOKEN" }]);
    await near.join("w", { boot: worker.boot });
    await stage.pass(1);
    expect(resets(near)).toHaveLength(1);
  });

  it("[B36] of a worker that joins in the same turn ends that very session", async () => {
    const world = await new Harness().start();
    const { worker, session, boot } = await world.join("w");
    const about = JSON.parse((await world.workerRow(worker)).about) as never;
    const again = { type: "worker.join", tenant: "t1", worker, name: "w", boot, session: "s2", about, running: [] } as const;
    const order = { type: "worker.kick", tenant: "t1", by: "me", worker, reason: "x" } as const;

    await Promise.all(world.askAll([again, order]));

    expect(resets(world)).toMatchObject([
      { session, code: "E.SESSION.SUPERSEDED" },
      { session: "s2", code: "E.AUTH.INVALID_TOKEN", reason: "kicked by me: x" },
    ]);
  });

  it("[B36] of an unknown or foreign worker is answered alike", async () => {
    const { world, worker } = await working();

    for (const [id, tenant] of [
      ["t1/nobody", "t1"],
      [worker.worker, "t2"],
    ] as const)
      await expect(kick(world, id, tenant)).rejects.toMatchObject({ code: "E.NOT_FOUND" });
    expect(resets(world)).toEqual([]);
  });
});

const frame = { type: "ext.vendor.acme.ping", id: "f1", corr: null, payload: '{"n":1}' };
const tell = (world: Harness, worker: string, tenant = "t1") =>
  world.ask({ type: "worker.tell", tenant, by: "me", worker, frame });

describe("a vendor's frame for a worker", () => {
  it("[B37] goes to its session as it is, and leaves no trace in rows or log", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const [row, facts] = [await world.workerRow(worker.worker), await world.facts()];

    expect(await tell(world, worker.worker)).toEqual({ of: "word", applied: true });

    expect(tells(world)).toEqual([{ type: "tell", session: worker.session, worker: worker.worker, tenant: "t1", frame }]);
    expect([await world.workerRow(worker.worker), await world.facts()]).toEqual([row, facts]);
  });

  it("[B37] reaches the socket at another scheduler, and no later session", async () => {
    const stage = new Stage({ mode: "weak" });
    let isDeaf = false;
    const near = await stage.boot("r1", {
      wrap: (store) => passThrough(store, { begin: (want) => store.begin(isDeaf ? { ...want, mail: 0 } : want) }),
    });
    const far = await stage.boot("r2");
    const worker = await near.join("w");

    await tell(far, worker.worker);
    await stage.pass(1);
    expect(tells(near)).toMatchObject([{ session: worker.session, frame }]);

    isDeaf = true;
    await tell(far, worker.worker);
    await near.join("w", { boot: worker.boot });
    isDeaf = false;
    await stage.pass(2);
    expect(tells(near)).toHaveLength(1);
  });

  it("[B37] for a worker that is not connected is refused with that reason, and for an unknown or foreign one as missing", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    await worker.leave();

    await expect(tell(world, worker.worker)).rejects.toMatchObject({
      code: "E.SESSION.UNKNOWN",
      message: "E.SESSION.UNKNOWN: worker w is not connected; nothing was sent to it",
    });
    await expect(tell(world, "t1/nobody")).rejects.toMatchObject({ code: "E.NOT_FOUND" });
    await expect(tell(world, worker.worker, "t2")).rejects.toMatchObject({ code: "E.NOT_FOUND" });
  });
});
