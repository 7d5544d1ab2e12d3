import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type House, openHouse } from "../testing/house.ts";
import { sessionLimits } from "./limits.ts";

const asks = { ack: { request: true } };

describe("heartbeats, silence and drains", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse();
  });
  afterEach(() => house.stop());

  it("[D39] pass on what a heartbeat says of memory, disk and the rest, bounded", async () => {
    const worker = await house.worker();
    const metrics = { inflight: 1, mem_pct: 91.5, disk_pct: 12, outbox: 3 };

    worker.say("control.heartbeat", { healthy: false, metrics, packages: { hash: "h-1" } }, asks);
    expect(await house.engine.next("worker.beat")).toEqual({
      type: "worker.beat",
      tenant: "default",
      worker: "default/w-1",
      session: expect.any(String),
      healthy: false,
      held: null,
      memPct: 91.5,
      diskPct: 12,
      vitals: JSON.stringify({ healthy: false, metrics, packages: "h-1" }),
    });
    worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0, note: "x".repeat(5_000) } }, asks);
    const long = await house.engine.next("worker.beat");

    expect(Object.keys(long)).not.toContain("vitals");
    expect(Object.keys(long)).not.toContain("memPct");
  });

  it("[D39] describe the worker anew when a heartbeat lists other packages than are known, and only then", async () => {
    const worker = await house.worker();
    const beat = (installed: object[]) =>
      worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, packages: { installed } }, asks);

    beat([{ name: "demo", version: "1.0.0", status: "installed" }]);
    await worker.next("control.ack");
    expect(house.engine.commands.filter((command) => command.type === "worker.describe")).toEqual([]);
    const id = beat([{ name: "demo", version: "2.0.0", status: "installed" }]);

    expect((await house.engine.next("worker.describe")).about.packages).toEqual([
      { name: "demo", version: "2.0.0", status: "installed" },
    ]);
    expect((await worker.next("control.ack")).payload).toMatchObject({ for: id });
  });

  it("[D40] end a session of which nothing was heard for three lease lengths, pongs or not", async () => {
    const worker = await house.worker();
    const idleMs = 30_000 * sessionLimits.idleLeasesMax;

    for (let at = 0; at < idleMs; at += 15_000) {
      house.outside.advance(15_000);
      await worker.settle();
    }
    expect(worker.frames).toHaveLength(3);
    house.outside.advance(sessionLimits.sweepMs);

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D41] take a drain back with a frame where the worker announced undrain", async () => {
    const worker = await house.worker({ features: ["undrain"] });
    const { session } = await house.engine.next("worker.join");

    house.engine.say({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    house.engine.say({ type: "drain", session, worker: "default/w-1", on: false, reason: "by bob" });

    expect((await worker.next("control.undrain")).payload).toEqual({ reason: "by bob" });
    expect(worker.frames.slice(3).map((frame) => frame.type)).toEqual(["control.drain", "control.undrain"]);
    await worker.settle();
    expect(worker.socket.readyState).toBe(worker.socket.OPEN);
  });

  it("[A262] ask a worker that announced undrain to say that it heard of a drain or its end, and tell the engine once", async () => {
    const { engine } = house;
    const worker = await house.worker({ features: ["undrain"] });
    const { session } = await engine.next("worker.join");
    const ack = (id: string) => worker.say("control.ack", { ok: true, for: id }, { ack: { for: id } });

    engine.say({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    const drain = await worker.next("control.drain");
    engine.say({ type: "drain", session, worker: "default/w-1", on: false, reason: "by ann" });
    const undrain = await worker.next("control.undrain");
    engine.say({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    const second = await worker.next("control.drain");
    expect([drain.ack, undrain.ack]).toEqual([{ request: true }, { request: true }]);
    for (const id of [drain.id, drain.id, "control.drain-99", undrain.id, second.id]) ack(id);
    await worker.settle();

    const heard = engine.commands.filter(({ type }) => type === "worker.heard");
    const word = { type: "worker.heard", tenant: "default", worker: "default/w-1", session };
    expect(heard).toEqual([
      { ...word, on: true, isToldAgain: true },
      { ...word, on: false, isToldAgain: false },
      { ...word, on: true, isToldAgain: false },
    ]);
  });

  it("[A262] ask no other worker: it would not answer", async () => {
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");

    house.engine.say({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });

    expect((await worker.next("control.drain")).ack).toBeUndefined();
  });

  it("[D42] name tenant, sender, type, id, corr, number and code of the frame in the log line of what it caused", async () => {
    const worker = await house.worker();

    const id = worker.work("biz.exec.result", { run_id: "r", task_id: "r.0", status: "DONE", result: {} }, { corr: "r.0#7" });
    await worker.next("control.ack");

    expect(house.outside.lines).toContainEqual(
      expect.objectContaining({
        level: "warn",
        event: "session.misfit",
        tenant: "default",
        sender: { id: "w-1" },
        type: "biz.exec.result",
        id,
        corr: "r.0#7",
        seq: 0,
        code: "E.FRAME.INVALID",
      }),
    );
  });

  it("[D42] count package operations that workers report", async () => {
    const worker = await house.worker();

    worker.work("biz.pkg.event", { name: "demo", version: "1.0.0", status: "failed" });
    await worker.next("control.ack");

    expect(house.metrics.text()).toMatch(/pkg_ops_total\{tenant="default",op="install",status="failed"\} 1/);
  });
});
