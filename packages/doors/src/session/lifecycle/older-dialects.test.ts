import { joinAnswer } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import {
  type FakeWorker,
  type FakeWorkerOptions,
  handshakePayload,
  handshakePayloadV1,
  olderRegisterPayload,
} from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "../connection/session-limits.ts";

const ackRequested = { ack: { request: true } };
const run = "0199c84e-a000-7000-8000-000000000001";
const task = `${run}.0`;
const result = (more: object = {}) => ({ run_id: run, task_id: task, status: "SUCCEEDED", result: {}, ...more });

let fixture: DoorsFixture;
beforeEach(async () => {
  fixture = await openDoorsFixture({ isAlone: true });
});
afterEach(() => fixture.stop());

describe("a worker of the first generation", () => {
  const open = async (options: FakeWorkerOptions = {}): Promise<{ worker: FakeWorker; session: string }> => {
    const worker = await fixture.connectWorker({ dialect: "first", ...options });
    worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await worker.nextFrame("control.ack");
    const accept = await worker.nextFrame("control.session.accept");
    return { worker, session: String(accept.payload["session_id"]) };
  };

  /** Shows by a numbered frame which generation it is; the frame takes number 1. */
  const decide = async ({ worker }: { worker: FakeWorker }): Promise<void> => {
    worker.sendWorkFrame("ext.vendor.demo.ready", {});
    expect((await fixture.engine.nextCommand("worker.describe")).about.dialect).toBe("first");
    await worker.nextFrame("control.ack");
  };

  it("[D27] a first-generation worker may repeat handshake and register until they are acked: nothing is done twice", async () => {
    const { engine } = fixture;
    engine.holdAnswers("worker.join");
    const worker = await fixture.connectWorker({ dialect: "first" });
    for (let n = 0; n < 2; n += 1)
      worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), { id: "control.handshake-0", ...ackRequested });
    await worker.nextFrame("control.ack");
    await worker.nextFrame("control.ack");
    for (let n = 0; n < 2; n += 1)
      worker.sendFrame("control.register", olderRegisterPayload(), { id: "control.register-1", ...ackRequested });
    await engine.nextCommand("worker.join");
    await worker.untilProcessed();
    expect(worker.frames).toHaveLength(2);
    engine.releaseAnswers("worker.join");
    await worker.nextFrame("control.session.accept");
    worker.sendFrame("control.register", olderRegisterPayload(), { id: "control.register-1", ...ackRequested });
    for (const id of ["control.handshake-0", "control.handshake-of-an-earlier-socket"])
      worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), { id, ...ackRequested });
    await worker.untilProcessed();

    expect(engine.commands.map((command) => command.type)).toEqual(["worker.join"]);
    const named = worker.frames.filter((frame) => frame.type === "control.ack").map((frame) => frame.payload["for"]);
    const last = ["control.handshake-0", "control.handshake-of-an-earlier-socket"];
    expect(named.slice(2)).toEqual(["control.register-1", "control.register-1", ...last]);
  });

  it("[D27] a first-generation worker updates its packages with another register, which is acked and not accepted again", async () => {
    const { worker } = await open();

    const again = worker.sendFrame("control.register", olderRegisterPayload({ packages: [] }), ackRequested);

    expect((await fixture.engine.nextCommand("worker.describe")).about.packages).toEqual([]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, for: again });
    expect(worker.frames.filter((frame) => frame.type === "control.session.accept")).toHaveLength(1);
  });

  it("[D27] a first-generation worker counts as a new process only when the counter in its frame ids starts again", async () => {
    await open();
    await open({ count: 40 });
    await open();

    const boots = fixture.engine.commands.flatMap((command) => (command.type === "worker.join" ? [command.boot] : []));
    expect(boots).toEqual([expect.any(String), null, expect.any(String)]);
    expect(boots[0]).not.toBe(boots[2]);
  });

  it("[D27] a first-generation worker gets neither cancel nor undrain, and a dispatch that was taken back is resent as a filler", async () => {
    const { engine, environment } = fixture;
    const opened = await open();
    await decide(opened);
    const { worker, session } = opened;
    engine.emitEffects(sampleDispatch(session, task, 7), sampleDispatch(session, `${run}.1`, 8));
    await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");

    const stop = { run, task, fence: 7, code: "E.TIMEOUT", reason: "not acked" };
    engine.emitEffects({ type: "stop", session, worker: "default/w-1", tenant: "default", ...stop });
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: false, reason: "by ann" });
    environment.advance(6_000);
    const filler = await worker.nextFrame("ext.vendor.astraflow.void");
    const repeat = await worker.nextFrame("biz.exec.dispatch");
    await worker.untilProcessed();

    expect(filler).toMatchObject({ session_seq: 1, payload: {} });
    expect(repeat).toMatchObject({ session_seq: 2, seq: 2, id: `${run}.1#8` });
    const types = worker.frames.map((frame) => frame.type).slice(4);
    expect(types.sort()).toEqual([...Array.from({ length: 3 }, () => "biz.exec.dispatch"), "ext.vendor.astraflow.void"]);
    worker.sendFrame("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0, recv_window: 64 });
    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: `${run}.1`, fence: 8 }]);
  });

  it("[D27] a first-generation worker may send results before its accept and number from 1 again after it: none is lost, and repeats are dropped", async () => {
    const { engine } = fixture;
    engine.holdAnswers("worker.join");
    const worker = await fixture.connectWorker({ dialect: "first" });
    worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await engine.nextCommand("worker.join");
    const sendResult = (n: number, number: number) =>
      worker.sendFrame("biz.exec.result", result({ task_id: `${run}.${n}` }), {
        id: `biz.exec.result-${n}`,
        session_seq: number,
        ...ackRequested,
      });
    sendResult(5, 1);
    sendResult(6, 2);
    await worker.untilProcessed();
    engine.releaseAnswers("worker.join");
    await worker.nextFrame("control.session.accept");

    // Not acked before it is stored itself, though a frame under its number was.
    engine.holdAnswers("task.result");
    sendResult(7, 1);
    await worker.untilProcessed();
    expect(worker.frames.map((frame) => frame.payload["for"])).not.toContain("biz.exec.result-7");
    engine.answerWith("task.result", () => ({ body: { of: "word", applied: true } }));
    engine.releaseAnswers("task.result");
    engine.stopHolding("task.result");
    for (const [n, number] of [
      [7, 1],
      [5, 1],
      [8, 2],
      [7, 1],
      [9, 3],
      [9, 3],
    ] as const)
      sendResult(n, number);
    await worker.untilProcessed();
    await worker.untilProcessed();

    const reportedTasks = engine.commands.flatMap((command) => (command.type === "task.result" ? [command.task] : []));
    expect(reportedTasks).toEqual([5, 6, 7, 8, 9].map((n) => `${run}.${n}`));
    const named = worker.frames.flatMap((frame) => (frame.type === "control.ack" ? [frame.payload["for"]] : []));
    expect(named).toEqual(expect.arrayContaining(["biz.exec.result-7", "biz.exec.result-8"]));
    expect(worker.frames.at(-1)?.payload).toMatchObject({ ack_seq: 3, ack_bitmap: 0 });
  });

  it("[D27] a first-generation worker's restarted numbers fill a gap left before its accept, and both frames of one number are processed", async () => {
    const { engine } = fixture;
    const { worker } = await open();
    const sendResult = (n: number, number: number) =>
      worker.sendFrame("biz.exec.result", result({ task_id: `${run}.${n}` }), {
        id: `biz.exec.result-${n}`,
        session_seq: number,
        ...ackRequested,
      });

    // Number 1 was given up while it was offline; number 2 was under way when the accept came.
    sendResult(4, 2);
    sendResult(5, 1);
    sendResult(6, 2);
    sendResult(7, 3);

    for (const n of [5, 4, 6, 7]) expect(await engine.nextCommand("task.result")).toMatchObject({ task: `${run}.${n}` });
  });

  it("[D27] the task of a first-generation worker's error is read from its details, otherwise from the dispatch named in corr", async () => {
    const { engine } = fixture;
    const { worker } = await open();

    worker.sendWorkFrame(
      "biz.exec.error",
      {
        code: "E.CMD.CONCURRENCY_VIOLATION",
        message: "held",
        context: { where: "worker.concurrency", details: { task_id: task } },
      },
      { corr: `${task}#9` },
    );
    expect(await engine.nextCommand("task.error")).toMatchObject({ task, fence: 9, code: "E.CMD.CONCURRENCY_VIOLATION" });
    worker.sendWorkFrame("biz.exec.error", { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task });
    expect(await engine.nextCommand("task.error")).toMatchObject({ task, fence: null });
  });

  it("[D27] a dispatch too large for a first-generation worker's socket is not sent: its attempt ends with E.FRAME.TOO_LARGE", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();

    engine.emitEffects(sampleDispatch(session, task, 7, { params: JSON.stringify({ text: "x".repeat(1_100_000) }) }));
    engine.emitEffects(sampleDispatch(session, `${run}.1`, 8, { params: JSON.stringify({ text: "é".repeat(530_000) }) }));

    for (const fence of [7, 8])
      expect(await engine.nextCommand("task.error")).toMatchObject({ fence, code: "E.FRAME.TOO_LARGE" });
    await decide({ worker });
    engine.emitEffects(sampleDispatch(session, `${run}.2`, 9));
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ session_seq: 1 });
  });

  it("[D27] a first-generation worker is reset when it adds a field to a heartbeat, and when it has no session after 15 s", async () => {
    const { worker } = await open();
    await decide({ worker });
    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, extra: "fine" });
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });

    const idle = await fixture.connectWorker({ dialect: "first" });
    idle.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    await idle.nextFrame("control.ack");
    idle.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
    await idle.untilProcessed();
    fixture.environment.advance(sessionLimits.registerTimeoutMs);
    expect((await idle.nextFrame("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D29] a first-generation worker is not reset when its join cannot be stored at the moment: the session door retries the join", async () => {
    const { engine, environment } = fixture;
    engine.answerWith("worker.join", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
    const worker = await fixture.connectWorker({ dialect: "first" });
    worker.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await engine.nextCommand("worker.join");
    await worker.untilProcessed();
    expect(worker.frames).toHaveLength(1);

    engine.answerWith("worker.join", () => ({ body: joinAnswer }));
    environment.advance(2_000);

    await engine.nextCommand("worker.join");
    await worker.nextFrame("control.session.accept");
  });
});

describe("a worker of protocol 1", () => {
  const open = async (options: FakeWorkerOptions = {}): Promise<{ worker: FakeWorker; session: string }> => {
    const worker = await fixture.connectWorker({ dialect: "v1", ...options });
    worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
    await worker.nextFrame("ack");
    worker.sendFrame("register", olderRegisterPayload(), ackRequested);
    const { session } = await fixture.engine.nextCommand("worker.join");
    await worker.nextFrame("ack");
    return { worker, session };
  };

  it("[D28] a protocol 1 worker may send handshake, register and heartbeat back to back, and each is acked by id, the handshake first", async () => {
    const worker = await fixture.connectWorker({ dialect: "v1" });

    const ids = [
      worker.sendFrame("handshake", handshakePayloadV1(), ackRequested),
      worker.sendFrame("register", olderRegisterPayload(), ackRequested),
      worker.sendFrame("heartbeat", { healthy: true, metrics: { inflight: 0 } }, ackRequested),
    ];
    for (let n = 0; n < 3; n += 1) await worker.nextFrame("ack");

    expect(new Set(worker.frames.map((frame) => frame.payload["for"]))).toEqual(new Set(ids));
    expect(worker.frames).toHaveLength(ids.length);
    expect(worker.frames[0]?.payload["for"]).toBe(ids[0]);
  });

  it("[D28] a protocol 1 frame with a repeated id and corr is acked again and has no effect", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, task, 7));
    await worker.nextFrame("cmd.dispatch");

    for (let n = 0; n < 2; n += 1) {
      worker.sendFrame("result", result(), { id: "result-9", corr: `${task}#7`, seq: 1, ...ackRequested });
      expect((await worker.nextFrame("ack")).payload).toEqual({ ok: true, for: "result-9" });
    }

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
    worker.sendFrame("result", result(), { id: "result-9", corr: `${task}#8`, seq: 1, ...ackRequested });
    await engine.nextCommand("task.result");
    expect(await engine.nextCommand("task.result")).toMatchObject({ fence: 8 });
  });

  it("[D28] a protocol 1 worker gets E.RESULT.SEQ_GAP only for a number that is known never to have been dispatched to it", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, task, 7), sampleDispatch(session, `${run}.1`, 8));
    await worker.nextFrame("cmd.dispatch");
    expect((await worker.nextFrame("cmd.dispatch")).seq).toBe(2);

    const wrong = worker.sendFrame("result", result(), { corr: task, seq: 3, ...ackRequested });
    expect(await worker.nextFrame("error")).toMatchObject({ corr: wrong, payload: { code: "E.RESULT.SEQ_GAP" } });
    worker.sendFrame("result", result({ task_id: `${run}.1` }), { corr: `${run}.1`, seq: 2, ...ackRequested });
    worker.sendFrame("result", result(), { corr: task, seq: 1, ...ackRequested });
    const before = { run_id: "before-this-process", task_id: "before-this-process.1" };
    worker.sendFrame("result", result(before), { corr: before.task_id, seq: 9, ...ackRequested });

    for (const named of [`${run}.1`, task, before.task_id])
      expect(await engine.nextCommand("task.result")).toMatchObject({ task: named });
  });

  it("[D28] a protocol 1 worker that does not ack a dispatch gets it again from 200 ms on, six times in all, then an error and a close", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, task, 7));
    const first = await worker.nextFrame("cmd.dispatch");

    environment.advance(300);
    expect(await worker.nextFrame("cmd.dispatch")).toMatchObject({ id: first.id, seq: first.seq, corr: first.corr });
    environment.advance(30_000);

    expect((await worker.nextFrame("error")).payload).toMatchObject({ code: "E.TIMEOUT" });
    expect((await worker.closed).code).toBe(1011);
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(6);
    expect(await engine.nextCommand("worker.leave")).toMatchObject({ session });
  });

  it("[D28] the engine learns that a protocol 1 worker refuses the key of a dispatch that was sent to it twice", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    const refuse = (one: string, fence: number) =>
      worker.sendFrame(
        "error",
        { code: "E.CMD.CONCURRENCY_VIOLATION", message: "held" },
        { corr: `${one}#${fence}`, ...ackRequested },
      );
    engine.emitEffects(sampleDispatch(session, task, 7));
    await worker.nextFrame("cmd.dispatch");
    environment.advance(300);
    await worker.nextFrame("cmd.dispatch");

    refuse(task, 7);
    expect(await engine.nextCommand("task.error")).toMatchObject({ task, fence: 7, isRepeated: true });

    engine.emitEffects(sampleDispatch(session, `${run}.1`, 8));
    await worker.nextFrame("cmd.dispatch");
    refuse(`${run}.1`, 8);
    expect(await engine.nextCommand("task.error")).not.toHaveProperty("isRepeated");
  });

  it("[D28] a dispatch is not resent to a protocol 1 worker once it was acked or taken back", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, task, 7), sampleDispatch(session, `${run}.1`, 8));
    await worker.nextFrame("cmd.dispatch");
    await worker.nextFrame("cmd.dispatch");
    worker.sendFrame("ack", { ok: true, for: `${task}#7` }, { ack: { for: `${task}#7` } });
    await engine.nextCommand("task.ack");

    const stop = { run, task: `${run}.1`, fence: 8, code: "E.TIMEOUT", reason: "not acked" };
    engine.emitEffects({ type: "stop", session, worker: "default/w-1", tenant: "default", ...stop });
    environment.advance(20_000);
    await worker.untilProcessed();

    expect(worker.frames.filter((frame) => frame.type !== "ack")).toHaveLength(2);
  });

  it("[D28] a protocol 1 worker's error or command.error is acked once the engine has answered", async () => {
    const { engine } = fixture;
    const { worker } = await open();
    engine.holdAnswers("task.error");

    for (const type of ["error", "command.error"]) {
      const id = worker.sendFrame(type, { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task, ...ackRequested });
      await engine.nextCommand("task.error");
      await worker.untilProcessed();
      expect(worker.frames.map((frame) => frame.payload["for"])).not.toContain(id);
      engine.releaseAnswers("task.error");
      expect((await worker.nextFrame("ack")).payload).toEqual({ ok: true, for: id });
    }
  });

  it("[D28] a protocol 1 worker may send error or command.error, is sent cmd.drain, and gets an error frame with the reason before a close", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();

    for (const type of ["error", "command.error"])
      worker.sendFrame(type, { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task, ...ackRequested });
    for (let n = 0; n < 2; n += 1)
      expect(await engine.nextCommand("task.error")).toMatchObject({ task, code: "E.RUNNER.FAILURE" });
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    expect((await worker.nextFrame("cmd.drain")).payload).toEqual({ reason: "by ann" });
    engine.emitEffects({ type: "reset", session, worker: "default/w-1", code: "E.AUTH.INVALID_TOKEN", reason: "kicked by ann" });
    expect((await worker.nextFrame("error")).payload).toEqual({ code: "E.AUTH.INVALID_TOKEN", message: "kicked by ann" });
    expect(await worker.closed).toEqual({ code: 1011, reason: "kicked by ann" });

    const stranger = await fixture.connectWorker({ dialect: "v1" });
    stranger.sendFrame("handshake", handshakePayloadV1({ auth: { mode: "token", token: "wrong" } }), ackRequested);
    expect((await stranger.nextFrame("error")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    expect((await stranger.closed).code).toBe(1011);
  });

  it("[D28] protocol 1 has no vendor frames: one from the worker is refused, one for the worker is logged and dropped", async () => {
    const { worker, session } = await open();

    const id = worker.sendFrame("ext.vendor.acme.hello", {}, ackRequested);
    expect((await worker.nextFrame("ack")).payload).toMatchObject({ ok: false, for: id });
    fixture.engine.emitEffects({
      type: "tell",
      session,
      worker: "default/w-1",
      tenant: "default",
      frame: { type: "ext.vendor.acme.hello", id: "x-1", corr: null, payload: "{}" },
    });
    await worker.untilProcessed();

    expect(fixture.environment.logRecords).toContainEqual(expect.objectContaining({ event: "session.untold", id: "x-1" }));
    expect(worker.frames.at(-1)?.type).toBe("ack");
  });
});
