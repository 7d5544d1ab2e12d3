import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import type { FakeWorker } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const sentTo = (worker: FakeWorker) => worker.frames.slice(3).map((frame) => [frame.type, frame.seq]);

describe("frames that are not acknowledged", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  const open = async (features: readonly string[] = ["fence", "cancel", "held"]) => {
    const worker = await fixture.openSession({ features });
    const { session } = await fixture.engine.nextCommand("worker.join");
    return { worker, session };
  };
  const stop = (session: string, task: string) =>
    ({
      type: "stop",
      session,
      worker: "default/w-1",
      tenant: "default",
      run: "r",
      task,
      fence: 7,
      code: "E.DISPATCH.UNAVAILABLE",
      reason: "not acked in time",
    }) as const;

  it("[D33] an unacked frame is resent after about 5 s under the same number and id, and no sooner", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 7));
    const first = await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");
    worker.sendFrame("control.ack", { ok: true, ack_seq: -1, ack_bitmap: 2 });
    await engine.nextCommand("task.ack");

    environment.advance(3_999);
    await worker.untilProcessed();
    expect(sentTo(worker)).toHaveLength(2);
    environment.advance(2_001);

    const { ts, ...again } = await worker.nextFrame("biz.exec.dispatch");
    expect(again).toEqual({ ...first, ts: undefined });
    await worker.untilProcessed();
    expect(sentTo(worker)).toHaveLength(3);
    expect(fixture.metrics.render()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 1');
  });

  it("[D33] an unacked frame ends the socket after six sends but not the session: on the next socket it is sent again", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7));
    await worker.nextFrame("biz.exec.dispatch");
    const beat = () => worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });

    for (let s = 0; s < 180 && worker.socket.readyState === worker.socket.OPEN; s += 5) {
      environment.advance(5_000);
      beat();
      // With the last send the socket ends, and what waits on it with it; that it does is asserted below.
      await Promise.allSettled([worker.untilProcessed()]);
    }
    expect((await worker.closed).code).toBe(1006);
    expect(sentTo(worker).filter(([type]) => type === "biz.exec.dispatch")).toHaveLength(6);
    await engine.nextCommand("worker.leave");

    const back = await fixture.connectWorker();
    back.sendFrame("control.resume", { session_id: session, session_token: "session-token-0", last_seen_seq: -1 }, ackRequested);
    expect(await back.nextFrame("biz.exec.dispatch")).toMatchObject({ seq: 0, id: "r.0#7" });
  });

  it("[D34] an unacked dispatch that was taken back is resent as an empty filler, and its cancel follows under a later number", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 7));
    await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");

    engine.emitEffects(stop(session, "r.0"));
    expect((await worker.nextFrame("biz.exec.cancel")).seq).toBe(2);
    environment.advance(7_000);
    expect(await worker.nextFrame("ext.vendor.astraflow.void")).toMatchObject({ seq: 0, payload: {} });
    expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(1);
    worker.sendFrame("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });

    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: "r.1", fence: 7 }]);
  });

  it("[D34] an unacked batch is resent without the dispatch that was taken back", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open(["batch", "fence"]);
    engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    const whole = await worker.nextFrame("biz.exec.dispatch.batch");

    engine.emitEffects(stop(session, "r.1"));
    environment.advance(6_000);
    const rest = await worker.nextFrame("biz.exec.dispatch.batch");

    expect([rest.seq, rest.id]).toEqual([whole.seq, whole.id]);
    expect((rest.payload["items"] as { task_id: string }[]).map((item) => item.task_id)).toEqual(["r.0", "r.2"]);
  });

  it("[D34] an unacked dispatch is still resent when an older attempt of the same task is taken back", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open([]);
    engine.emitEffects(sampleDispatch(session, "r.0", 8));
    await worker.nextFrame("biz.exec.dispatch");

    engine.emitEffects(stop(session, "r.0"));
    environment.advance(6_000);

    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ seq: 0, id: "r.0#8" });
  });

  it("[D34] a dispatch that is taken back before it was sent uses no number and is never sent", async () => {
    await fixture.stop();
    fixture = await openDoorsFixture({ limits: { sendWindow: 1 } });
    const { engine } = fixture;
    const { worker, session } = await open([]);
    engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    await worker.nextFrame("biz.exec.dispatch");

    engine.emitEffects(stop(session, "r.1"));
    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ seq: 1, id: "r.2#7" });
  });
});

describe("windows", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const windowsOf = (worker: FakeWorker) => {
    const accept = worker.frames.find((frame) => frame.type === "control.session.accept")?.payload;
    return [accept?.["send_window"], accept?.["recv_window"]];
  };

  it("[D35] a session's windows are 64 frames, 1,024 for workers that announced wide, and a tenant's own setting overrides both", async () => {
    fixture = await openDoorsFixture({ tenants: { other: { sendWindow: 5, recvWindow: 7 } } });
    const plain = await fixture.openSession({ instance: "w-1" });
    const wide = await fixture.openSession({ instance: "w-2", features: ["wide"] });
    const other = await fixture.connectWorker({ tenant: "other" });
    other.sendFrame("control.handshake", { ...handshakeOf("secret-b") }, ackRequested);
    other.sendFrame("control.register", { ...registerOf(["wide"]) }, ackRequested);
    await other.nextFrame("control.session.accept");

    expect([windowsOf(plain), windowsOf(wide), windowsOf(other)]).toEqual([
      [64, 64],
      [1_024, 1_024],
      [5, 7],
    ]);
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(...Array.from({ length: 70 }, (_, n) => sampleDispatch(session, `r.${n}`, 7)));
    for (let n = 0; n < 64; n += 1) await plain.nextFrame("biz.exec.dispatch");
    await plain.untilProcessed();
    expect(plain.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(64);
  });

  it("[D35] a session's send window holds 8 MiB, however few frames that is", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    const params = JSON.stringify({ text: "x".repeat(3_000_000) });
    fixture.engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(session, `r.${n}`, 7, { params })));

    await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");
    for (let n = 0; n < 20; n += 1) await worker.untilProcessed();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(2);
    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(2);
  });
});

const handshakeOf = (token: string) => ({
  protocol: 2,
  auth: { mode: "token", token },
  worker: { worker_name: "w", worker_instance_id: "w-1", version: "1", hostname: "box" },
});
const registerOf = (features: readonly string[]) => ({
  capabilities: { concurrency: { max_parallel: 4 }, features },
  boot_id: "b",
  running: [],
});
