import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { joinAnswer } from "../testing/fake-engine.ts";
import type { FakeWorker } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";
import { asks, resumeScene } from "../testing/resume-scene.ts";
import { sessionLimits } from "./limits.ts";

const result = (task: string) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {}, fence: 7 });

const typesOf = (worker: FakeWorker) => worker.frames.map((frame) => frame.type);

describe("a session that outlives its socket", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse();
  });
  afterEach(() => house.stop());

  const { open, lose, ask } = resumeScene(() => house);

  it("[D22] goes on over a new socket: ack with the window, accept with a new token, the unacked again in order", async () => {
    const { engine } = house;
    const seat = await open();
    seat.worker.work("biz.exec.result", result("r.9"));
    await seat.worker.next("control.ack");
    engine.say(...[0, 1, 2].map((n) => dispatchTo(seat.session, `r.${n}`, 7)));
    for (let n = 0; n < 3; n += 1) await seat.worker.next("biz.exec.dispatch");
    seat.worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    await engine.next("task.ack");
    await lose(seat);

    const { worker, id } = await ask(seat, { last_seen_seq: 1, boot_id: "boot-1" });
    const join = await engine.next("worker.join");
    expect(join).toMatchObject({ session: seat.session, worker: "default/w-1", boot: "boot-1", running: null });
    expect(join.resumed).toEqual({
      unacked: [
        { task: "r.1", fence: 7 },
        { task: "r.2", fence: 7 },
      ],
    });
    expect((await worker.next("control.ack")).payload).toEqual({
      ok: true,
      for: id,
      ack_seq: 0,
      ack_bitmap: 0,
      recv_window: sessionLimits.recvWindow,
    });
    expect((await worker.next("control.session.accept")).payload).toMatchObject({
      session_id: seat.session,
      session_token: "session-token-1",
      resumed: true,
      lease_ms: 30_000,
      drain_mem_pct: 90,
      drain_disk_pct: 95,
      send_window: sessionLimits.sendWindow,
    });
    // Number 1 was seen, and its ack lost: it stays unacked and is not sent again at once.
    expect(await worker.next("biz.exec.dispatch")).toMatchObject({ seq: 2, id: "r.2#7" });

    worker.say("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });
    expect((await engine.next("task.ack")).held).toEqual([
      { task: "r.1", fence: 7 },
      { task: "r.2", fence: 7 },
    ]);
    worker.say("biz.exec.result", result("r.1"), { seq: 1, ...asks });
    expect(await engine.next("task.result")).toMatchObject({ task: "r.9" });
    expect(await engine.next("task.result")).toMatchObject({ task: "r.1", session: seat.session });
    engine.say(dispatchTo(seat.session, "r.3", 7));
    expect((await worker.next("biz.exec.dispatch")).seq).toBe(3);
    expect(house.metrics.text()).toContain('ws_session_resumed_total{tenant="default"} 1');
    expect(house.metrics.text()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 1');
  });

  it("[D22] acks on the new socket what was answered while there was none, and drops its repeat", async () => {
    const { engine } = house;
    engine.hold("task.result");
    const seat = await open();
    seat.worker.work("biz.exec.result", result("r.0"));
    await engine.next("task.result");
    await lose(seat);
    engine.release("task.result");

    const { worker } = await ask(seat, { last_seen_seq: -1 });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 0 });
    worker.say("biz.exec.result", result("r.0"), { seq: 0, ...asks });
    await worker.settle();

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
  });

  it("[D34] does not send again what the engine takes back in the turn of the resume", async () => {
    const { engine } = house;
    const seat = await open();
    engine.say(dispatchTo(seat.session, "r.0", 7), dispatchTo(seat.session, "r.1", 7));
    await seat.worker.next("biz.exec.dispatch");
    await lose(seat);
    engine.hold("worker.join");
    const { worker } = await ask(seat, { last_seen_seq: -1 });
    await engine.next("worker.join");

    engine.release("worker.join");
    const stop = { run: "r", task: "r.0", fence: 7, code: "E.SESSION.STALE_BINDING", reason: "no longer yours" };
    engine.say({ type: "stop", session: seat.session, worker: "default/w-1", tenant: "default", ...stop });
    await worker.next("biz.exec.cancel");

    expect(worker.frames.slice(2).map((frame) => [frame.type, frame.seq])).toEqual([
      ["ext.vendor.astraflow.void", 0],
      ["biz.exec.dispatch", 1],
      ["biz.exec.cancel", 2],
    ]);
  });

  it("[D22] lets frames that follow the resume wait for the verdict, and hears them in order after it", async () => {
    const { engine } = house;
    const seat = await open();
    await lose(seat);
    engine.hold("worker.join");

    const { worker, id } = await ask(seat, { last_seen_seq: -1 });
    await engine.next("worker.join");
    worker.say("control.resume", { session_id: seat.session, session_token: seat.token }, { id, ...asks });
    for (const seq of [0, 1]) worker.say("biz.exec.result", result(`r.${seq}`), { seq, ...asks });
    await worker.settle();
    expect(worker.frames).toEqual([]);
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    // Granted in the turn of the join: behind the accept, too.
    engine.say(dispatchTo(seat.session, "r.5", 7));
    engine.release("worker.join");
    await worker.next("biz.exec.dispatch");

    expect(typesOf(worker).slice(0, 2)).toEqual(["control.ack", "control.session.accept"]);
    expect(await engine.next("task.result")).toMatchObject({ task: "r.0" });
    expect(await engine.next("task.result")).toMatchObject({ task: "r.1" });
    await worker.settle();
    expect(worker.frames.filter((frame) => frame.type === "control.reset")).toEqual([]);
  });

  it("[D22] does not read a socket on which more waits for the verdict than a session may leave unanswered", async () => {
    await house.stop();
    house = await openHouse({ limits: { unansweredBytesMax: 100_000 } });
    const { engine } = house;
    const seat = await open();
    await lose(seat);
    engine.hold("worker.join");
    const { worker } = await ask(seat, { last_seen_seq: -1 });
    await engine.next("worker.join");

    const big = { ...result("r.0"), result: { text: "x".repeat(60_000) } };
    for (const seq of [0, 1, 2, 3]) worker.say("biz.exec.result", big, { seq });
    const pinged = new Promise<void>((resolve) => worker.socket.once("ping", () => resolve()));
    // Only a socket that is not read is pinged this often.
    while (
      !(await Promise.race([pinged.then(() => true), new Promise<boolean>((resolve) => setImmediate(() => resolve(false)))]))
    )
      house.outside.advance(sessionLimits.sweepMs);
    engine.release("worker.join");

    for (let n = 0; n < 4; n += 1) expect(await engine.next("task.result")).toMatchObject({ session: seat.session });
  });

  it("[D23] takes over a socket that still looks open: the old one is closed, no leave, and nothing more is heard from it", async () => {
    const { engine } = house;
    const seat = await open();

    const { worker } = await ask(seat, { last_seen_seq: -1 });
    expect(await engine.next("worker.join")).toMatchObject({ session: seat.session, resumed: { unacked: [] } });
    seat.worker.work("biz.exec.result", result("r.0"));
    expect(await seat.worker.closed).toEqual({ code: 1011, reason: "superseded session" });
    await worker.next("control.session.accept");
    await worker.settle();

    expect(engine.commands.map((command) => command.type)).toEqual(["worker.join", "worker.join"]);
    worker.say("biz.exec.result", result("r.0"), { seq: 0 });
    expect(await engine.next("task.result")).toMatchObject({ task: "r.0" });
  });

  it("[D23] answers only the last of several resumes that overtake each other", async () => {
    const { engine } = house;
    const seat = await open();
    await lose(seat);
    engine.hold("worker.join");
    const early = await ask(seat, { last_seen_seq: -1 });
    await engine.next("worker.join");
    const late = await ask(seat, { last_seen_seq: -1 });
    await engine.next("worker.join");

    expect((await early.worker.closed).reason).toBe("superseded session");
    engine.release("worker.join");

    await late.worker.next("control.session.accept");
    await late.worker.settle();
    expect(typesOf(late.worker)).toEqual(["control.ack", "control.session.accept"]);
    expect(early.worker.frames).toEqual([]);
  });

  it("[D23] waits again when the new socket is lost before the verdict", async () => {
    const { engine } = house;
    const seat = await open();
    await lose(seat);
    engine.hold("worker.join");
    const first = await ask(seat);
    await engine.next("worker.join");
    first.worker.socket.terminate();
    await engine.next("worker.leave");
    engine.release("worker.join");

    const second = await ask(seat);
    await engine.next("worker.join");
    engine.release("worker.join");

    expect((await second.worker.next("control.session.accept")).payload).toMatchObject({ resumed: true });
  });

  it("[D12] tells a resumed worker that it is being drained", async () => {
    const { engine } = house;
    const seat = await open();
    await lose(seat);
    engine.answer("worker.join", () => ({ body: { ...joinAnswer, draining: true } as typeof joinAnswer }));

    const { worker } = await ask(seat);

    await worker.next("control.drain");
    expect(typesOf(worker)).toEqual(["control.ack", "control.session.accept", "control.drain"]);
  });
});
