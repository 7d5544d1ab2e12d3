import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { registerPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "./session-limits.ts";

const big = (chars: number) => JSON.stringify({ text: "x".repeat(chars) });
const result = (task: string, text = "") => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: { text }, fence: 7 });

/** The reset is written to the log in the tick in which it is decided. */
async function resetLogged(fixture: DoorsFixture): Promise<void> {
  while (!fixture.environment.logRecords.some((connection) => connection.event === "session.reset"))
    await new Promise<void>((resolve) => setImmediate(resolve));
}

describe("pressure on one connection", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  it("[D18] the session door ends the socket of a worker that never reads, and keeps the bytes waiting for it bounded", async () => {
    fixture = await openDoorsFixture({ limits: { waitingBytesMax: 4_000_000, socketBytesSoft: 100_000 } });
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    worker.socket.pause();

    for (let n = 0; n < 60; n += 1) fixture.engine.emitEffects(sampleDispatch(session, `r.${n}`, 7, { params: big(100_000) }));
    await resetLogged(fixture);
    fixture.environment.advance(sessionLimits.closeMs);

    expect(await fixture.engine.nextCommand("worker.leave")).toMatchObject({ session });
    expect(fixture.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.reset", code: "E.OVERLOADED" }),
    );
    worker.socket.resume();
  }, 60_000);

  it("[D18] the session door terminates a worker that requests answers and never reads them", async () => {
    fixture = await openDoorsFixture({ limits: { socketBytesMax: 100_000, unnumberedMax: 100_000 } });
    const worker = await fixture.openSession();
    worker.socket.pause();
    let isGone = false;
    const gone = fixture.engine.nextCommand("worker.leave").then(() => {
      isGone = true;
    });

    while (!isGone) {
      for (let n = 0; n < 200; n += 1)
        worker.sendFrame("control.levitate", {}, { id: `${n}-${"i".repeat(1_000)}`, ack: { request: true } });
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await gone;

    expect(fixture.environment.logRecords).toContainEqual(expect.objectContaining({ event: "session.unread" }));
    expect(fixture.doors.connections).toBe(0);
  }, 60_000);

  it("[D18] the session door sends a long queue of work in full to a worker that reads, however little the socket takes at once", async () => {
    fixture = await openDoorsFixture({ limits: { socketBytesSoft: 50_000 } });
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");

    fixture.engine.emitEffects(
      ...Array.from({ length: 40 }, (_, n) => sampleDispatch(session, `r.${n}`, 7, { params: big(200_000) })),
    );

    for (let n = 0; n < 40; n += 1) expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(n);
  });

  it("[D5] the session door keeps no more dispatches in flight than the send window, and continues as acks arrive", async () => {
    fixture = await openDoorsFixture({ limits: { sendWindow: 2 } });
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");

    fixture.engine.emitEffects(...Array.from({ length: 5 }, (_, n) => sampleDispatch(session, `r.${n}`, 7)));
    await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");
    await worker.untilProcessed();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(2);
    worker.sendFrame("control.ack", { ok: true, ack_seq: 1, ack_bitmap: 0 });
    await worker.nextFrame("biz.exec.dispatch");
    expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(3);
  });

  it("[D9] the session door drops a frame beyond the receive window without an ack, and takes it when it is resent and there is room", async () => {
    fixture = await openDoorsFixture({ limits: { recvWindow: 3 } });
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.holdAnswers("task.result");

    for (let n = 0; n < 4; n += 1) worker.sendWorkFrame("biz.exec.result", result(`r.${n}`));
    await worker.untilProcessed();
    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(3);
    expect(fixture.metrics.render()).toContain('ws_frame_refused_total{tenant="default",code="E.SESSION.WINDOW"} 1');
    engine.releaseAnswers("task.result");
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 2, ack_bitmap: 0, recv_window: 3 });
    worker.sendFrame("biz.exec.result", result("r.3"), { seq: 3 });
    await worker.untilProcessed();
    engine.releaseAnswers("task.result");

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 3 });
  });

  it("[D18] the session door stops reading while too many bytes wait for the engine, and continues when they are answered", async () => {
    fixture = await openDoorsFixture({ limits: { unansweredBytesMax: 300_000 } });
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.holdAnswers("task.result");
    const results = () => engine.commands.filter((command) => command.type === "task.result").length;

    const other = await fixture.openSession({ instance: "w-2" });
    for (let n = 0; n < 20; n += 1) worker.sendWorkFrame("biz.exec.result", result(`r.${n}`, "x".repeat(100_000)));
    await engine.nextCommand("task.result");
    // Many round trips of another worker later, everything that is read at all has been read.
    for (let n = 0; n < 100; n += 1) await other.untilProcessed();
    expect(results()).toBeGreaterThanOrEqual(3);
    expect(results()).toBeLessThanOrEqual(5);
    // Pings of a worker that is not read stay unanswered; it must not take that for the end.
    const pinged = new Promise<void>((resolve) => worker.socket.once("ping", () => resolve()));
    fixture.environment.advance(sessionLimits.pingPausedMs);
    await pinged;
    while (results() < 20) {
      engine.releaseAnswers("task.result");
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    engine.releaseAnswers("task.result");

    expect((await worker.nextFrame("control.ack")).payload["ack_seq"]).toBeGreaterThanOrEqual(0);
    await worker.untilProcessed();
    expect(worker.frames.at(-1)?.payload).toMatchObject({ ack_seq: 19 });
  });

  it("[D18] the session door limits the heartbeats and unnumbered frames that wait for an answer", async () => {
    fixture = await openDoorsFixture({ limits: { unansweredHeartbeatsMax: 2, unnumberedMax: 3 } });
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.holdAnswers("worker.beat");
    engine.holdAnswers("task.result");

    for (let n = 0; n < 10; n += 1) worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
    await worker.untilProcessed();
    expect(engine.commands.filter((command) => command.type === "worker.beat")).toHaveLength(2);
    for (let n = 0; n < 4; n += 1) worker.sendFrame("biz.exec.result", result(`r.${n}`));
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });

    engine.holdAnswers("worker.describe");
    const chatty = await fixture.openSession({ instance: "w-2" });
    for (let n = 0; n < 4; n += 1) chatty.sendFrame("control.register", registerPayload());
    expect((await chatty.nextFrame("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });
  });

  it("[D18] the session door pings every 20 s, keeps a worker that answers and ends one that is silent for two periods", async () => {
    fixture = await openDoorsFixture();
    const alive = await fixture.openSession({ instance: "w-1" });
    const frozen = await fixture.openSession({ instance: "w-2" });
    frozen.socket.pause();
    const pinged = () => new Promise<void>((resolve) => alive.socket.once("ping", () => resolve()));

    for (let n = 0; n < 3; n += 1) {
      const ping = pinged();
      fixture.environment.advance(sessionLimits.pingMs);
      await ping;
      await alive.untilProcessed();
    }

    expect(await fixture.engine.nextCommand("worker.leave")).toMatchObject({ worker: "default/w-2" });
    expect(fixture.doors.connections).toBe(1);
    frozen.socket.resume();
  });

  it("[D18] the session door terminates a peer that does not answer its close frame", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();
    worker.socket.pause();
    worker.sendRaw("{");

    await fixture.engine.nextCommand("worker.leave");
    expect(fixture.doors.connections).toBe(1);
    fixture.environment.advance(sessionLimits.closeMs);
    while (fixture.doors.connections > 0) await new Promise<void>((resolve) => setImmediate(resolve));

    expect(fixture.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.reset", code: "E.FRAME.INVALID" }),
    );
    worker.socket.resume();
  });

  it("[A1] the session door counts connections and bytes by tenant", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(
      sampleDispatch(session, "r.0", 7),
      { type: "count", name: "cmd_retry_total", labels: { reason: "E.WORKER.LOST" }, values: [2] },
      { type: "count", name: "result_latency_ms", labels: { tenant: "default", node_type: "demo.noop" }, values: [12] },
    );
    await worker.nextFrame("biz.exec.dispatch");

    const text = fixture.metrics.render();
    expect(text).toContain('ws_conn_active{tenant="default"} 1');
    expect(text).toMatch(/ws_frame_bytes_total\{tenant="default",dir="in"\} [1-9]/);
    expect(text).toMatch(/ws_frame_bytes_total\{tenant="default",dir="out"\} [1-9]/);
    expect(text).toContain('cmd_dispatch_total{tenant="default",node_type="demo.noop"} 1');
    expect(text).toContain('cmd_retry_total{reason="E.WORKER.LOST"} 2');
    expect(text).toContain('result_latency_ms_bucket{tenant="default",node_type="demo.noop",le="25"} 1');
    worker.socket.close();
    await fixture.engine.nextCommand("worker.leave");
    expect(fixture.metrics.render()).toContain('ws_conn_active{tenant="default"} 0');
  });
});
