import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { joinAnswer } from "../testing/fake-engine.ts";
import { type FakeWorker, type FakeWorkerOptions, handshake, handshakeV1, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";
import { sessionLimits } from "./limits.ts";

const asks = { ack: { request: true } };
const run = "0199c84e-a000-7000-8000-000000000001";
const task = `${run}.0`;
const result = (more: object = {}) => ({ run_id: run, task_id: task, status: "SUCCEEDED", result: {}, ...more });

let house: House;
beforeEach(async () => {
  house = await openHouse({ isAlone: true });
});
afterEach(() => house.stop());

describe("a worker of the first generation", () => {
  const open = async (options: FakeWorkerOptions = {}): Promise<{ worker: FakeWorker; session: string }> => {
    const worker = await house.dial({ dialect: "first", ...options });
    worker.say("control.handshake", handshake({ protocol: 1 }), asks);
    await worker.next("control.ack");
    worker.say("control.register", olderRegister(), asks);
    await worker.next("control.ack");
    const accept = await worker.next("control.session.accept");
    return { worker, session: String(accept.payload["session_id"]) };
  };

  it("[D27] may repeat handshake and register until they are acked: nothing is done twice", async () => {
    const { engine } = house;
    engine.hold("worker.join");
    const worker = await house.dial({ dialect: "first" });
    for (let n = 0; n < 2; n += 1)
      worker.say("control.handshake", handshake({ protocol: 1 }), { id: "control.handshake-0", ...asks });
    await worker.next("control.ack");
    await worker.next("control.ack");
    for (let n = 0; n < 2; n += 1) worker.say("control.register", olderRegister(), { id: "control.register-1", ...asks });
    await engine.next("worker.join");
    await worker.settle();
    expect(worker.frames).toHaveLength(2);
    engine.release("worker.join");
    await worker.next("control.session.accept");
    worker.say("control.register", olderRegister(), { id: "control.register-1", ...asks });
    for (const id of ["control.handshake-0", "control.handshake-of-an-earlier-socket"])
      worker.say("control.handshake", handshake({ protocol: 1 }), { id, ...asks });
    await worker.settle();

    expect(engine.commands.map((command) => command.type)).toEqual(["worker.join"]);
    const named = worker.frames.filter((frame) => frame.type === "control.ack").map((frame) => frame.payload["for"]);
    const last = ["control.handshake-0", "control.handshake-of-an-earlier-socket"];
    expect(named.slice(2)).toEqual(["control.register-1", "control.register-1", ...last]);
  });

  it("[D27] refreshes its inventory with another register, which is acked and not accepted again", async () => {
    const { worker } = await open();

    const again = worker.say("control.register", olderRegister({ packages: [] }), asks);

    expect((await house.engine.next("worker.describe")).about.packages).toEqual([]);
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: true, for: again });
    expect(worker.frames.filter((frame) => frame.type === "control.session.accept")).toHaveLength(1);
  });

  it("[D27] counts as a new process only when the counter in its frame ids starts again", async () => {
    await open();
    await open({ count: 40 });
    await open();

    const boots = house.engine.commands.flatMap((command) => (command.type === "worker.join" ? [command.boot] : []));
    expect(boots).toEqual([expect.any(String), null, expect.any(String)]);
    expect(boots[0]).not.toBe(boots[2]);
  });

  it("[D27] gets neither cancel nor undrain, its taken-back dispatch becomes a filler, and a resume is never possible", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, task, 7), dispatchTo(session, `${run}.1`, 8));
    await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");

    const stop = { run, task, fence: 7, code: "E.TIMEOUT", reason: "not acked" };
    engine.say({ type: "stop", session, worker: "default/w-1", tenant: "default", ...stop });
    engine.say({ type: "drain", session, worker: "default/w-1", on: false, reason: "by ann" });
    outside.advance(6_000);
    const filler = await worker.next("ext.vendor.astraflow.void");
    const repeat = await worker.next("biz.exec.dispatch");
    await worker.settle();

    expect(filler).toMatchObject({ session_seq: 1, payload: {} });
    expect(repeat).toMatchObject({ session_seq: 2, seq: 2, id: `${run}.1#8` });
    const types = worker.frames.map((frame) => frame.type).slice(3);
    expect(types.sort()).toEqual([...Array.from({ length: 3 }, () => "biz.exec.dispatch"), "ext.vendor.astraflow.void"]);
    worker.say("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0, recv_window: 64 });
    expect((await engine.next("task.ack")).held).toEqual([{ task: `${run}.1`, fence: 8 }]);
  });

  it("[D27] may speak before its accept and count anew after it: no word is lost, and a repeat is still a repeat", async () => {
    const { engine } = house;
    engine.hold("worker.join");
    const worker = await house.dial({ dialect: "first" });
    worker.say("control.handshake", handshake({ protocol: 1 }), asks);
    await worker.next("control.ack");
    worker.say("control.register", olderRegister(), asks);
    await engine.next("worker.join");
    const said = (n: number, number: number) =>
      worker.say("biz.exec.result", result({ task_id: `${run}.${n}` }), {
        id: `biz.exec.result-${n}`,
        session_seq: number,
        ...asks,
      });
    said(5, 1);
    said(6, 2);
    await worker.settle();
    engine.release("worker.join");
    await worker.next("control.session.accept");

    // Not acked before its own word is stored, though a frame under its number was.
    engine.hold("task.result");
    said(7, 1);
    await worker.settle();
    expect(worker.frames.map((frame) => frame.payload["for"])).not.toContain("biz.exec.result-7");
    engine.answer("task.result", () => ({ body: { of: "word", applied: true } }));
    engine.release("task.result");
    engine.unhold("task.result");
    for (const [n, number] of [
      [7, 1],
      [5, 1],
      [8, 2],
      [7, 1],
      [9, 3],
      [9, 3],
    ] as const)
      said(n, number);
    await worker.settle();
    await worker.settle();

    const heard = engine.commands.flatMap((command) => (command.type === "task.result" ? [command.task] : []));
    expect(heard).toEqual([5, 6, 7, 8, 9].map((n) => `${run}.${n}`));
    const named = worker.frames.flatMap((frame) => (frame.type === "control.ack" ? [frame.payload["for"]] : []));
    expect(named).toEqual(expect.arrayContaining(["biz.exec.result-7", "biz.exec.result-8"]));
    expect(worker.frames.at(-1)?.payload).toMatchObject({ ack_seq: 3, ack_bitmap: 0 });
  });

  it("[D27] fills a hole left before its accept with what it counts anew, and hears both frames of a number", async () => {
    const { engine } = house;
    const { worker } = await open();
    const said = (n: number, number: number) =>
      worker.say("biz.exec.result", result({ task_id: `${run}.${n}` }), {
        id: `biz.exec.result-${n}`,
        session_seq: number,
        ...asks,
      });

    // Number 1 was given up while it was offline; number 2 was under way when the accept came.
    said(4, 2);
    said(5, 1);
    said(6, 2);
    said(7, 3);

    for (const n of [5, 4, 6, 7]) expect(await engine.next("task.result")).toMatchObject({ task: `${run}.${n}` });
  });

  it("[D27] names the task of an error in its details, else in the dispatch it points back to", async () => {
    const { engine } = house;
    const { worker } = await open();

    worker.work(
      "biz.exec.error",
      {
        code: "E.CMD.CONCURRENCY_VIOLATION",
        message: "held",
        context: { where: "worker.concurrency", details: { task_id: task } },
      },
      { corr: `${task}#9` },
    );
    expect(await engine.next("task.error")).toMatchObject({ task, fence: 9, code: "E.CMD.CONCURRENCY_VIOLATION" });
    worker.work("biz.exec.error", { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task });
    expect(await engine.next("task.error")).toMatchObject({ task, fence: null });
  });

  it("[D27] is not sent what its socket would break on: the attempt ends with E.FRAME.TOO_LARGE instead", async () => {
    const { engine } = house;
    const { worker, session } = await open();

    engine.say(dispatchTo(session, task, 7, { params: JSON.stringify({ text: "x".repeat(1_100_000) }) }));
    engine.say(dispatchTo(session, `${run}.1`, 8, { params: JSON.stringify({ text: "é".repeat(530_000) }) }));

    for (const fence of [7, 8]) expect(await engine.next("task.error")).toMatchObject({ fence, code: "E.FRAME.TOO_LARGE" });
    engine.say(dispatchTo(session, `${run}.2`, 9));
    expect(await worker.next("biz.exec.dispatch")).toMatchObject({ session_seq: 1 });
  });

  it("[D27] is refused when it adds a field to a frame, and when it has no session after 15 s", async () => {
    const { worker } = await open();
    worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, mood: "fine" });
    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });

    const idle = await house.dial({ dialect: "first" });
    idle.say("control.handshake", handshake({ protocol: 1 }), asks);
    await idle.next("control.ack");
    idle.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
    await idle.settle();
    house.outside.advance(sessionLimits.registerMs);
    expect((await idle.next("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D29] is not reset because its join could not be stored at this moment: the door tries again in its stead", async () => {
    const { engine, outside } = house;
    engine.answer("worker.join", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
    const worker = await house.dial({ dialect: "first" });
    worker.say("control.handshake", handshake({ protocol: 1 }), asks);
    await worker.next("control.ack");
    worker.say("control.register", olderRegister(), asks);
    await engine.next("worker.join");
    await worker.settle();
    expect(worker.frames).toHaveLength(1);

    engine.answer("worker.join", () => ({ body: joinAnswer }));
    outside.advance(2_000);

    await engine.next("worker.join");
    await worker.next("control.session.accept");
  });
});

describe("a worker of protocol 1", () => {
  const open = async (options: FakeWorkerOptions = {}): Promise<{ worker: FakeWorker; session: string }> => {
    const worker = await house.dial({ dialect: "v1", ...options });
    worker.say("handshake", handshakeV1(), asks);
    await worker.next("ack");
    worker.say("register", olderRegister(), asks);
    const { session } = await house.engine.next("worker.join");
    await worker.next("ack");
    return { worker, session };
  };

  it("[D28] may say handshake, register and heartbeat back to back, and is acked by id in that order", async () => {
    const worker = await house.dial({ dialect: "v1" });

    const ids = [
      worker.say("handshake", handshakeV1(), asks),
      worker.say("register", olderRegister(), asks),
      worker.say("heartbeat", { healthy: true, metrics: { inflight: 0 } }, asks),
    ];
    for (let n = 0; n < 3; n += 1) await worker.next("ack");

    expect(new Set(worker.frames.map((frame) => frame.payload["for"]))).toEqual(new Set(ids));
    expect(worker.frames).toHaveLength(ids.length);
    expect(worker.frames[0]?.payload["for"]).toBe(ids[0]);
  });

  it("[D28] is acked again for a repeated id and corr, which does nothing", async () => {
    const { engine } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, task, 7));
    await worker.next("cmd.dispatch");

    for (let n = 0; n < 2; n += 1) {
      worker.say("result", result(), { id: "result-9", corr: `${task}#7`, seq: 1, ...asks });
      expect((await worker.next("ack")).payload).toEqual({ ok: true, for: "result-9" });
    }

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
    worker.say("result", result(), { id: "result-9", corr: `${task}#8`, seq: 1, ...asks });
    await engine.next("task.result");
    expect(await engine.next("task.result")).toMatchObject({ fence: 8 });
  });

  it("[D28] hears E.RESULT.SEQ_GAP only for a number that was never dispatched to it", async () => {
    const { engine } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, task, 7), dispatchTo(session, `${run}.1`, 8));
    await worker.next("cmd.dispatch");
    expect((await worker.next("cmd.dispatch")).seq).toBe(2);

    const wrong = worker.say("result", result(), { corr: task, seq: 3, ...asks });
    expect(await worker.next("error")).toMatchObject({ corr: wrong, payload: { code: "E.RESULT.SEQ_GAP" } });
    worker.say("result", result({ task_id: `${run}.1` }), { corr: `${run}.1`, seq: 2, ...asks });
    worker.say("result", result(), { corr: task, seq: 1, ...asks });
    worker.say("result", result({ run_id: "r-before-this-process" }), { corr: "r.1", seq: 9, ...asks });

    for (const named of [`${run}.1`, task, task]) expect(await engine.next("task.result")).toMatchObject({ task: named });
  });

  it("[D28] is repeated to from 200 ms on until it acks, six times in all, and then told and closed", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, task, 7));
    const first = await worker.next("cmd.dispatch");

    outside.advance(300);
    expect(await worker.next("cmd.dispatch")).toMatchObject({ id: first.id, seq: first.seq, corr: first.corr });
    outside.advance(30_000);

    expect((await worker.next("error")).payload).toMatchObject({ code: "E.TIMEOUT" });
    expect((await worker.closed).code).toBe(1011);
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(6);
    expect(await engine.next("worker.leave")).toMatchObject({ session });
  });

  it("[D28] is not repeated to once it has acked, or once the dispatch was taken back", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, task, 7), dispatchTo(session, `${run}.1`, 8));
    await worker.next("cmd.dispatch");
    await worker.next("cmd.dispatch");
    worker.say("ack", { ok: true, for: `${task}#7` }, { ack: { for: `${task}#7` } });
    await engine.next("task.ack");

    const stop = { run, task: `${run}.1`, fence: 8, code: "E.TIMEOUT", reason: "not acked" };
    engine.say({ type: "stop", session, worker: "default/w-1", tenant: "default", ...stop });
    outside.advance(20_000);
    await worker.settle();

    expect(worker.frames.filter((frame) => frame.type !== "ack")).toHaveLength(2);
  });

  it("[D28] hears that its error arrived, however it spells it, once the engine has answered", async () => {
    const { engine } = house;
    const { worker } = await open();
    engine.hold("task.error");

    for (const type of ["error", "command.error"]) {
      const id = worker.say(type, { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task, ...asks });
      await engine.next("task.error");
      await worker.settle();
      expect(worker.frames.map((frame) => frame.payload["for"])).not.toContain(id);
      engine.release("task.error");
      expect((await worker.next("ack")).payload).toEqual({ ok: true, for: id });
    }
  });

  it("[D28] spells an error either way, drains, and is told of refusals in an error before the close", async () => {
    const { engine } = house;
    const { worker, session } = await open();

    for (const type of ["error", "command.error"])
      worker.say(type, { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: task, ...asks });
    for (let n = 0; n < 2; n += 1) expect(await engine.next("task.error")).toMatchObject({ task, code: "E.RUNNER.FAILURE" });
    engine.say({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    expect((await worker.next("cmd.drain")).payload).toEqual({ reason: "by ann" });
    engine.say({ type: "reset", session, worker: "default/w-1", code: "E.AUTH.INVALID_TOKEN", reason: "kicked by ann" });
    expect((await worker.next("error")).payload).toEqual({ code: "E.AUTH.INVALID_TOKEN", message: "kicked by ann" });
    expect(await worker.closed).toEqual({ code: 1011, reason: "kicked by ann" });

    const stranger = await house.dial({ dialect: "v1" });
    stranger.say("handshake", handshakeV1({ auth: { mode: "token", token: "wrong" } }), asks);
    expect((await stranger.next("error")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    expect((await stranger.closed).code).toBe(1011);
  });

  it("[D28] has no frames of vendors: one of its own is refused, one for it is logged and dropped", async () => {
    const { worker, session } = await open();

    const id = worker.say("ext.vendor.acme.hello", {}, asks);
    expect((await worker.next("ack")).payload).toMatchObject({ ok: false, for: id });
    house.engine.say({
      type: "tell",
      session,
      worker: "default/w-1",
      tenant: "default",
      frame: { type: "ext.vendor.acme.hello", id: "x-1", corr: null, payload: "{}" },
    });
    await worker.settle();

    expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.untold", id: "x-1" }));
    expect(worker.frames.at(-1)?.type).toBe("ack");
  });
});
