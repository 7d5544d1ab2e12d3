import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { sessionLimits } from "./session-limits.ts";

const ackRequested = { ack: { request: true } };

describe("heartbeats, silence and drains", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  it("[D39] the session door passes on the memory, disk and other metrics of a heartbeat, up to a size limit", async () => {
    const worker = await fixture.openSession();
    const metrics = { inflight: 1, mem_pct: 91.5, disk_pct: 12, outbox: 3 };

    worker.sendFrame("control.heartbeat", { healthy: false, metrics, packages: { hash: "h-1" } }, ackRequested);
    expect(await fixture.engine.nextCommand("worker.beat")).toEqual({
      type: "worker.beat",
      tenant: "default",
      worker: "default/w-1",
      session: expect.any(String),
      healthy: false,
      held: null,
      memPct: 91.5,
      diskPct: 12,
      inflight: 1,
      vitals: JSON.stringify({ healthy: false, metrics, packages: "h-1" }),
    });
    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0, note: "x".repeat(5_000) } }, ackRequested);
    const long = await fixture.engine.nextCommand("worker.beat");

    expect(Object.keys(long)).not.toContain("vitals");
    expect(Object.keys(long)).not.toContain("memPct");
  });

  it("[D1055] the session door stores the resources that a heartbeat listed, as many as fit, with later heartbeats that name them by their digest", async () => {
    const worker = await fixture.openSession();
    const items = Array.from({ length: 64 }, (_, at) => ({
      resource_id: `page ${at} ${"x".repeat(80)}`,
      type: "page",
      size_bytes: at,
    }));
    const beat = async (resources: object) => {
      worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, resources }, ackRequested);
      const { vitals = "" } = await fixture.engine.nextCommand("worker.beat");
      await worker.nextFrame("control.ack");
      return JSON.parse(vitals) as { metrics: object; resources: { hash: string; count?: number; items?: object[] } };
    };

    const listed = await beat({ hash: "h1", count: 2, items: items.slice(0, 2) });
    const named = await beat({ hash: "h1" });
    const other = await beat({ hash: "h2" });
    const many = await beat({ hash: "h3", count: 64, items });

    expect(listed.resources).toEqual({ hash: "h1", count: 2, items: items.slice(0, 2) });
    expect(named.resources).toEqual(listed.resources);
    expect(other.resources).toEqual({ hash: "h2", items: [] });
    expect(many).toMatchObject({ metrics: { inflight: 0 }, resources: { hash: "h3", count: 64 } });
    expect(many.resources.items).toEqual(items.slice(-(many.resources.items?.length ?? 0)));
    expect(many.resources.items?.length).toBeGreaterThan(8);
  });

  it("[D39] the session door describes a worker anew when a heartbeat lists packages other than the known ones, and only then", async () => {
    const worker = await fixture.openSession();
    const beat = (installed: object[]) =>
      worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, packages: { installed } }, ackRequested);

    beat([{ name: "demo", version: "1.0.0", status: "installed" }]);
    await worker.nextFrame("control.ack");
    expect(fixture.engine.commands.filter((command) => command.type === "worker.describe")).toEqual([]);
    const id = beat([{ name: "demo", version: "2.0.0", status: "installed" }]);

    expect((await fixture.engine.nextCommand("worker.describe")).about.packages).toEqual([
      { name: "demo", version: "2.0.0", status: "installed" },
    ]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ for: id });
  });

  it("[D40] the session door ends a session that sent no frame for three lease lengths, even if it answers pings", async () => {
    const worker = await fixture.openSession();
    const idleMs = 30_000 * sessionLimits.idleLeasesMax;

    for (let at = 0; at < idleMs; at += 15_000) {
      fixture.environment.advance(15_000);
      await worker.untilProcessed();
    }
    expect(worker.frames).toHaveLength(3);
    fixture.environment.advance(sessionLimits.sweepMs);

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D41] the session door ends a drain with a frame if the worker announced undrain", async () => {
    const worker = await fixture.openSession({ features: ["undrain"] });
    const { session } = await fixture.engine.nextCommand("worker.join");

    fixture.engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    fixture.engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: false, reason: "by bob" });

    expect((await worker.nextFrame("control.undrain")).payload).toEqual({ reason: "by bob" });
    expect(worker.frames.slice(3).map((frame) => frame.type)).toEqual(["control.drain", "control.undrain"]);
    await worker.untilProcessed();
    expect(worker.socket.readyState).toBe(worker.socket.OPEN);
  });

  it("[A262] the session door asks a worker that announced undrain to ack each drain and undrain, and reports each ack to the engine once", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession({ features: ["undrain"] });
    const { session } = await engine.nextCommand("worker.join");
    const ack = (id: string) => worker.sendFrame("control.ack", { ok: true, for: id }, { ack: { for: id } });

    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    const drain = await worker.nextFrame("control.drain");
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: false, reason: "by ann" });
    const undrain = await worker.nextFrame("control.undrain");
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    const second = await worker.nextFrame("control.drain");
    expect([drain.ack, undrain.ack]).toEqual([{ request: true }, { request: true }]);
    for (const id of [drain.id, drain.id, "control.drain-99", undrain.id, second.id]) ack(id);
    await worker.untilProcessed();

    const commands = engine.commands.filter(({ type }) => type === "worker.heard");
    const command = { type: "worker.heard", tenant: "default", worker: "default/w-1", session };
    expect(commands).toEqual([
      { ...command, on: true, isAnotherUnacked: true },
      { ...command, on: false, isAnotherUnacked: false },
      { ...command, on: true, isAnotherUnacked: false },
    ]);
  });

  it("[A262] the session door asks for no ack of a drain from a worker that did not announce undrain", async () => {
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");

    fixture.engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });

    expect((await worker.nextFrame("control.drain")).ack).toBeUndefined();
  });

  it("[D42] the session door logs tenant, sender, type, id, corr, seq and code of the frame that caused a log line", async () => {
    const worker = await fixture.openSession();

    const id = worker.sendWorkFrame(
      "biz.exec.result",
      { run_id: "r", task_id: "r.0", status: "DONE", result: {} },
      { corr: "r.0#7" },
    );
    await worker.nextFrame("control.ack");

    expect(fixture.environment.logRecords).toContainEqual(
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

  it("[D42] the session door counts the package operations that workers report", async () => {
    const worker = await fixture.openSession();

    worker.sendWorkFrame("biz.pkg.event", { name: "demo", version: "1.0.0", status: "failed" });
    await worker.nextFrame("control.ack");

    expect(fixture.metrics.render()).toMatch(/pkg_ops_total\{tenant="default",op="install",status="failed"\} 1/);
  });
});
