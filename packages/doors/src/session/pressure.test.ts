import { afterEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { register } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";
import { sessionLimits } from "./limits.ts";

const big = (chars: number) => JSON.stringify({ text: "x".repeat(chars) });
const result = (task: string, text = "") => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: { text }, fence: 7 });

/** The reset is written to the log in the tick in which it is decided. */
async function resetLogged(house: House): Promise<void> {
  while (!house.outside.lines.some((line) => line.event === "session.reset"))
    await new Promise<void>((resolve) => setImmediate(resolve));
}

describe("pressure on one connection", () => {
  let house: House;
  afterEach(() => house.stop());

  it("[D18] ends the socket of a worker that never reads, and keeps what waits for it bounded", async () => {
    house = await openHouse({ limits: { waitingBytesMax: 4_000_000, socketBytesSoft: 100_000 } });
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");
    worker.socket.pause();

    for (let n = 0; n < 60; n += 1) house.engine.say(dispatchTo(session, `r.${n}`, 7, { params: big(100_000) }));
    await resetLogged(house);
    house.outside.advance(sessionLimits.closeMs);

    expect(await house.engine.next("worker.leave")).toMatchObject({ session });
    expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.reset", code: "E.OVERLOADED" }));
    worker.socket.resume();
  }, 60_000);

  it("[D18] terminates a worker that makes us answer and never reads the answers", async () => {
    house = await openHouse({ limits: { socketBytesMax: 100_000, unnumberedMax: 100_000 } });
    const worker = await house.worker();
    worker.socket.pause();
    let isGone = false;
    const gone = house.engine.next("worker.leave").then(() => {
      isGone = true;
    });

    while (!isGone) {
      for (let n = 0; n < 200; n += 1)
        worker.say("control.levitate", {}, { id: `${n}-${"i".repeat(1_000)}`, ack: { request: true } });
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await gone;

    expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.unread" }));
    expect(house.doors.connections).toBe(0);
  }, 60_000);

  it("[D18] sends a long line of work in full to a worker that reads, however little the socket takes at once", async () => {
    house = await openHouse({ limits: { socketBytesSoft: 50_000 } });
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");

    house.engine.say(...Array.from({ length: 40 }, (_, n) => dispatchTo(session, `r.${n}`, 7, { params: big(200_000) })));

    for (let n = 0; n < 40; n += 1) expect((await worker.next("biz.exec.dispatch")).seq).toBe(n);
  });

  it("[D5] keeps no more dispatches in flight than the window, and goes on as acks come", async () => {
    house = await openHouse({ limits: { sendWindow: 2 } });
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");

    house.engine.say(...Array.from({ length: 5 }, (_, n) => dispatchTo(session, `r.${n}`, 7)));
    await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");
    await worker.settle();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(2);
    worker.say("control.ack", { ok: true, ack_seq: 1, ack_bitmap: 0 });
    await worker.next("biz.exec.dispatch");
    expect((await worker.next("biz.exec.dispatch")).seq).toBe(3);
  });

  it("[D9] drops what lies beyond the window without an ack, and takes it when it comes again and there is room", async () => {
    house = await openHouse({ limits: { recvWindow: 3 } });
    const { engine } = house;
    const worker = await house.worker();
    engine.hold("task.result");

    for (let n = 0; n < 4; n += 1) worker.work("biz.exec.result", result(`r.${n}`));
    await worker.settle();
    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(3);
    expect(house.metrics.text()).toContain('ws_frame_refused_total{tenant="default",code="E.SESSION.WINDOW"} 1');
    engine.release("task.result");
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 2, ack_bitmap: 0, recv_window: 3 });
    worker.say("biz.exec.result", result("r.3"), { seq: 3 });
    await worker.settle();
    engine.release("task.result");

    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 3 });
  });

  it("[D18] stops reading while too many bytes wait for the engine, and reads on when they are answered", async () => {
    house = await openHouse({ limits: { unansweredBytesMax: 300_000 } });
    const { engine } = house;
    const worker = await house.worker();
    engine.hold("task.result");
    const results = () => engine.commands.filter((command) => command.type === "task.result").length;

    const other = await house.worker({ instance: "w-2" });
    for (let n = 0; n < 20; n += 1) worker.work("biz.exec.result", result(`r.${n}`, "x".repeat(100_000)));
    await engine.next("task.result");
    // Many round trips of another worker later, everything that is read at all has been read.
    for (let n = 0; n < 100; n += 1) await other.settle();
    expect(results()).toBeGreaterThanOrEqual(3);
    expect(results()).toBeLessThanOrEqual(5);
    // Pings of a worker that is not read stay unanswered; it must not take that for the end.
    const pinged = new Promise<void>((resolve) => worker.socket.once("ping", () => resolve()));
    house.outside.advance(sessionLimits.pingPausedMs);
    await pinged;
    while (results() < 20) {
      engine.release("task.result");
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    engine.release("task.result");

    expect((await worker.next("control.ack")).payload["ack_seq"]).toBeGreaterThanOrEqual(0);
    await worker.settle();
    expect(worker.frames.at(-1)?.payload).toMatchObject({ ack_seq: 19 });
  });

  it("[D18] limits heartbeats and frames without numbers that wait for an answer", async () => {
    house = await openHouse({ limits: { beatsMax: 2, unnumberedMax: 3 } });
    const { engine } = house;
    const worker = await house.worker();
    engine.hold("worker.beat");
    engine.hold("task.result");

    for (let n = 0; n < 10; n += 1) worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
    await worker.settle();
    expect(engine.commands.filter((command) => command.type === "worker.beat")).toHaveLength(2);
    for (let n = 0; n < 4; n += 1) worker.say("biz.exec.result", result(`r.${n}`));
    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });

    engine.hold("worker.describe");
    const chatty = await house.worker({ instance: "w-2" });
    for (let n = 0; n < 4; n += 1) chatty.say("control.register", register());
    expect((await chatty.next("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });
  });

  it("[D18] pings every 20 s, keeps a worker that answers and ends one that is silent for two periods", async () => {
    house = await openHouse();
    const alive = await house.worker({ instance: "w-1" });
    const frozen = await house.worker({ instance: "w-2" });
    frozen.socket.pause();
    const pinged = () => new Promise<void>((resolve) => alive.socket.once("ping", () => resolve()));

    for (let n = 0; n < 3; n += 1) {
      const ping = pinged();
      house.outside.advance(sessionLimits.pingMs);
      await ping;
      await alive.settle();
    }

    expect(await house.engine.next("worker.leave")).toMatchObject({ worker: "default/w-2" });
    expect(house.doors.connections).toBe(1);
    frozen.socket.resume();
  });

  it("[D18] terminates a peer that does not answer our close", async () => {
    house = await openHouse();
    const worker = await house.worker();
    worker.socket.pause();
    worker.raw("{");

    await house.engine.next("worker.leave");
    expect(house.doors.connections).toBe(1);
    house.outside.advance(sessionLimits.closeMs);
    while (house.doors.connections > 0) await new Promise<void>((resolve) => setImmediate(resolve));

    expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.reset", code: "E.FRAME.INVALID" }));
    worker.socket.resume();
  });

  it("[A1] counts connections and bytes by tenant", async () => {
    house = await openHouse();
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");
    house.engine.say(
      dispatchTo(session, "r.0", 7),
      { type: "count", name: "cmd_retry_total", labels: { reason: "E.WORKER.LOST" }, values: [2] },
      { type: "count", name: "result_latency_ms", labels: { tenant: "default", node_type: "demo.noop" }, values: [12] },
    );
    await worker.next("biz.exec.dispatch");

    const text = house.metrics.text();
    expect(text).toContain('ws_conn_active{tenant="default"} 1');
    expect(text).toMatch(/ws_frame_bytes_total\{tenant="default",dir="in"\} [1-9]/);
    expect(text).toMatch(/ws_frame_bytes_total\{tenant="default",dir="out"\} [1-9]/);
    expect(text).toContain('cmd_dispatch_total{tenant="default",node_type="demo.noop"} 1');
    expect(text).toContain('cmd_retry_total{reason="E.WORKER.LOST"} 2');
    expect(text).toContain('result_latency_ms_bucket{tenant="default",node_type="demo.noop",le="25"} 1');
    worker.socket.close();
    await house.engine.next("worker.leave");
    expect(house.metrics.text()).toContain('ws_conn_active{tenant="default"} 0');
  });
});
