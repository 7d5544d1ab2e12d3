import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import type { FakeWorker } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";
import { sessionLimits } from "./limits.ts";

const result = (task: string, more: object = {}) => ({
  run_id: "r",
  task_id: task,
  status: "SUCCEEDED",
  result: {},
  fence: 7,
  ...more,
});
const acksOf = (worker: FakeWorker) =>
  worker.frames
    .slice(3)
    .filter((frame) => frame.type === "control.ack")
    .map((frame) => frame.payload);

describe("work on a live session", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse();
  });
  afterEach(() => house.stop());

  const join = async (options: Parameters<House["worker"]>[0] = {}) => {
    const worker = await house.worker(options);
    const { session } = await house.engine.next("worker.join");
    return { worker, session };
  };

  it("[D7] acks nothing before the answer, and one delivery of answers with one ack", async () => {
    const { engine } = house;
    const { worker } = await join();
    engine.hold("task.result");

    for (let n = 0; n < 50; n += 1) worker.work("biz.exec.result", result(`r.${n}`));
    await worker.settle();
    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(50);
    expect(acksOf(worker)).toEqual([]);
    engine.release("task.result");
    await worker.next("control.ack");
    await worker.settle();

    expect(acksOf(worker)).toEqual([{ ok: true, ack_seq: 49, ack_bitmap: 0, recv_window: sessionLimits.recvWindow }]);
  });

  it("[D7] shows answers that came out of order in the bitmap, and the number never covers what is still open", async () => {
    const { engine } = house;
    const { worker } = await join();
    engine.hold("task.result");
    for (let n = 0; n < 4; n += 1) worker.work("biz.exec.result", result(`r.${n}`));
    await worker.settle();

    engine.release("task.result", [1, 3]);
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: -1, ack_bitmap: 0b1010 });
    engine.release("task.result", [0]);
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 1, ack_bitmap: 0b10 });
    engine.release("task.result");
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 3, ack_bitmap: 0 });
  });

  it("[D8] acks a word that was refused for good, and counts it", async () => {
    const { engine } = house;
    const { worker } = await join();
    engine.answer("task.result", () => ({ fault: { code: "E.SESSION.STALE_BINDING", message: "not yours any more" } }));

    worker.work("biz.exec.result", result("r.0"));

    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 0 });
    expect(house.metrics.text()).toContain('ws_frame_refused_total{tenant="default",code="E.SESSION.STALE_BINDING"} 1');
  });

  it("[D8] never acks a word that could not be stored: the session starts over and the word comes again", async () => {
    const { engine } = house;
    const { worker } = await join();
    engine.answer("task.result", () => ({ fault: { code: "E.STORE.BUSY", message: "UPDATE task SET /var/lib/astra.db" } }));

    worker.work("biz.exec.result", result("r.0"));

    const reset = await worker.next("control.reset");
    expect(reset.payload).toMatchObject({ code: "E.STORE.BUSY", retry_after_ms: sessionLimits.retryAfterMs });
    expect(JSON.stringify(reset)).not.toMatch(/UPDATE|var\/lib/);
    await worker.closed;
    expect(acksOf(worker)).toEqual([]);
  });

  it("[D9] drops a repeat and acks it again, whether or not its first copy was answered", async () => {
    const { engine } = house;
    const { worker } = await join();
    engine.hold("task.result");

    const id = worker.work("biz.exec.result", result("r.0"));
    worker.say("biz.exec.result", result("r.0"), { id, seq: 0, ack: { request: true } });
    // Not by name before its answer: a name is an ack, too.
    expect((await worker.next("control.ack")).payload).toEqual({ ok: true, ack_seq: -1, ack_bitmap: 0, recv_window: 64 });
    engine.release("task.result");
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 0 });
    worker.say("biz.exec.result", result("r.0"), { id, seq: 0, ack: { request: true } });
    expect((await worker.next("control.ack")).payload).toMatchObject({ for: id, ack_seq: 0 });

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
    expect(house.metrics.text()).toContain('ws_frame_repeat_total{tenant="default",dir="in"} 2');
  });

  it("[D9] keeps what came too early and processes it in order once the hole is filled", async () => {
    const { engine } = house;
    const { worker } = await join();

    for (const seq of [2, 1]) worker.say("biz.exec.result", result(`r.${seq}`), { seq });
    await worker.settle();
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    expect(acksOf(worker)).toEqual([]);
    worker.say("biz.exec.result", result("r.0"), { seq: 0 });

    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 2, ack_bitmap: 0 });
    const tasks = engine.commands.flatMap((command) => (command.type === "task.result" ? [command.task] : []));
    expect(tasks).toEqual(["r.0", "r.1", "r.2"]);
  });

  it("[D9] resets a session whose hole stays open for 16 s, without processing what lies behind it", async () => {
    const { engine, outside } = house;
    const { worker } = await join();
    worker.say("biz.exec.result", result("r.1"), { seq: 1 });
    await worker.settle();

    outside.advance(15_000);
    await worker.settle();
    expect(worker.frames.at(-1)?.type).not.toBe("control.reset");
    outside.advance(1_000);

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.GAP" });
    await engine.next("worker.leave");
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    expect(house.metrics.text()).toContain('ws_session_reset_total{tenant="default",code="E.SESSION.GAP"} 1');
  });

  it("[D9] resets a session that sends only what lies beyond the window for 16 s, but not while the engine is what it waits for", async () => {
    await house.stop();
    house = await openHouse({ limits: { recvWindow: 2 } });
    const { engine, outside } = house;
    const { worker: patient } = await join();
    engine.hold("task.result");
    for (const seq of [0, 1, 2]) patient.say("biz.exec.result", result(`r.${seq}`), { seq });
    const { worker } = await join({ instance: "w-2" });
    for (const seq of [7, 8]) worker.say("biz.exec.result", result(`r.${seq}`), { seq });
    await patient.settle();
    await worker.settle();

    outside.advance(15_000);
    for (const each of [patient, worker]) {
      each.say("biz.exec.result", result("r.9"), { seq: 9 });
      await each.settle();
      expect(each.frames.at(-1)?.type).not.toBe("control.reset");
    }
    outside.advance(1_000);

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.GAP" });
    await patient.settle();
    expect(patient.frames.at(-1)?.type).not.toBe("control.reset");
  });

  it("[D5] sends fence and attempt only to workers that announced that they read them", async () => {
    const { engine } = house;
    const { worker, session } = await join({ features: [] });

    engine.say(dispatchTo(session, "r.0", 7, { concurrencyKey: "" }));

    const { payload } = await worker.next("biz.exec.dispatch");
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["fence"]));
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["attempt"]));
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["concurrency_key"]));
  });

  it("[D5] reads the fence of a word from the dispatch it points back to, and says null when there is none", async () => {
    const { engine } = house;
    const { worker } = await join({ features: [] });
    const bare = {
      run_id: "r",
      task_id: "r.0",
      status: "FAILED",
      result: {},
      error: { code: "E.X", message: "no", remediation: "try" },
    };

    worker.work("biz.exec.result", bare, { corr: "r.0#41" });
    expect(await engine.next("task.result")).toMatchObject({
      fence: 41,
      status: "failed",
      error: { code: "E.X", message: "no", details: { remediation: "try" } },
    });
    worker.work("biz.exec.result", bare, { corr: "r.0" });
    expect(await engine.next("task.result")).toMatchObject({ fence: null });
    worker.work("biz.exec.error", {
      code: "E.RUNNER.FAILURE",
      message: "threw",
      context: { where: "worker.runner", details: { task_id: "r.0" } },
    });
    expect(await engine.next("task.error")).toMatchObject({ task: "r.0", fence: null, details: { where: "worker.runner" } });
    worker.work("biz.exec.error", { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: "r.0#42" });
    expect(await engine.next("task.error")).toMatchObject({ task: "r.0", fence: 42 });
  });

  it("[D6] turns acks into task.ack for exactly the dispatches they newly cover", async () => {
    const { engine } = house;
    const { worker, session } = await join();
    engine.say(...[0, 1, 2, 3].map((n) => dispatchTo(session, `r.${n}`, 7)));
    for (let n = 0; n < 4; n += 1) expect((await worker.next("biz.exec.dispatch")).seq).toBe(n);
    const acked = () =>
      engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held.map((one) => one.task) : []));

    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: "2" });
    await worker.settle();
    expect(acked()).toEqual(["r.0", "r.2"]);
    worker.say("control.ack", { ok: true, for: "r.1#7" }, { ack: { for: "r.1#7" } });
    worker.say("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    worker.say("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    await worker.settle();

    expect(acked()).toEqual(["r.0", "r.2", "r.1", "r.3"]);
  });

  it("[D6] ends a session that acks what was never sent", async () => {
    const { worker } = await join();

    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.ACK_UNSENT" });
  });

  it("[D17] tells those who announced cancel to stop, under a number of its own, and nobody else", async () => {
    const { engine } = house;
    const able = await join();
    const plain = await join({ instance: "w-2", features: [] });
    const stop = {
      type: "stop",
      worker: "default/w-1",
      tenant: "default",
      run: "r",
      task: "r.0",
      fence: 7,
      code: "E.TIMEOUT",
      reason: "late",
    } as const;

    engine.say({ ...stop, session: able.session }, { ...stop, session: plain.session }, { ...stop, session: "gone" });

    const cancel = await able.worker.next("biz.exec.cancel");
    expect(cancel).toMatchObject({
      seq: 0,
      corr: "r.0",
      payload: { run_id: "r", task_id: "r.0", fence: 7, reason: "E.TIMEOUT: late" },
    });
    engine.say(dispatchTo(plain.session, "r.1", 8));
    expect((await plain.worker.next("biz.exec.dispatch")).seq).toBe(0);
    able.worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    await able.worker.settle();
    expect(engine.commands.filter((command) => command.type === "task.ack")).toEqual([]);
  });

  it("[D16] tells a worker which of the extensions it announced are used here, and tells the others nothing", async () => {
    const { worker: able } = await join({ features: ["batch", "telepathy", "fence"] });
    const { worker: plain } = await join({ instance: "w-2", features: [] });
    const acceptOf = (worker: FakeWorker) => worker.frames.find((frame) => frame.type === "control.session.accept")?.payload;

    expect(acceptOf(able)?.["features"]).toEqual(["fence", "batch"]);
    expect(Object.keys(acceptOf(plain) ?? {})).not.toContain("features");
  });

  it("[D16] packs the dispatches of one turn for workers that announced batch, and takes result batches", async () => {
    const { engine } = house;
    const { worker, session } = await join({ features: ["fence", "batch"] });
    engine.hold("task.result");

    engine.say(...Array.from({ length: 70 }, (_, n) => dispatchTo(session, `r.${n}`, 7)));
    const first = await worker.next("biz.exec.dispatch.batch");
    const second = await worker.next("biz.exec.dispatch.batch");
    expect([first.seq, second.seq]).toEqual([0, 1]);
    expect([first, second].map((frame) => (frame.payload["items"] as unknown[]).length)).toEqual([64, 6]);
    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    worker.work("biz.exec.result.batch", { items: [result("r.0"), result("r.1")] });
    await worker.settle();
    expect(engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held : []))).toHaveLength(64);

    engine.release("task.result", [0]);
    await worker.settle();
    expect(acksOf(worker)).toEqual([]);
    engine.release("task.result");
    expect((await worker.next("control.ack")).payload).toMatchObject({ ack_seq: 0 });
  });

  it("[D13] is not ended by words nobody knows: they are acked, as not understood when the sender asked", async () => {
    const { engine } = house;
    const { worker } = await join();

    const asked = worker.work("biz.exec.levitate", { height: 3 });
    expect((await worker.next("control.ack")).payload).toMatchObject({
      ok: false,
      for: asked,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 0,
    });
    const control = worker.say("control.levitate", {}, { ack: { request: true } });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, for: control });
    worker.say("biz.exec.levitate", {});
    const vendor = worker.work("ext.vendor.acme.hello", { anything: true });
    expect((await worker.next("control.ack")).payload).toMatchObject({
      ok: false,
      for: vendor,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 1,
    });

    worker.work("biz.exec.result", result("r.0"));
    await engine.next("task.result");
  });

  it("[D13] keeps package events and errors without a task for the log", async () => {
    const { worker } = await join();

    worker.work("biz.pkg.event", { name: "demo", version: "1.0.0", status: "failed" });
    worker.work("biz.exec.error", { code: "E.INTERNAL", message: "disk is full" });
    await worker.settle();

    expect(house.outside.lines.map((line) => line.event)).toEqual(expect.arrayContaining(["session.package", "session.error"]));
    expect(acksOf(worker).at(-1)).toMatchObject({ ack_seq: 1 });
  });

  it("[D18] keeps feedback small: what does not fit is cut and marked", async () => {
    const { engine } = house;
    const { worker } = await join();
    const chunk = (text: string) => ({ channel: "log", text });

    worker.work("biz.exec.feedback", { run_id: "r", task_id: "r.0", fence: 7, progress: 0.5, chunks: [chunk("short")] });
    expect((await engine.next("task.feedback")).data).toEqual({ progress: 0.5, chunks: [chunk("short")] });
    worker.work("biz.exec.feedback", {
      run_id: "r",
      task_id: "r.0",
      fence: 7,
      chunks: [chunk("a"), chunk("b".repeat(80_000)), chunk("c")],
    });
    const { data } = await engine.next("task.feedback");
    expect(data).toMatchObject({
      chunks: [chunk("a"), { channel: "log", text: expect.stringMatching(/^b{9000,70000}$/) }],
      truncated: true,
    });
    expect(data["chunks"]).toHaveLength(2);
    expect(JSON.stringify(data).length).toBeLessThan(65_536);
  });

  it("[D1] hands the frames of one chunk of the socket to the engine as one batch", async () => {
    const { engine } = house;
    const { worker } = await join();
    const before = engine.batches.length;

    for (let n = 0; n < 20; n += 1) worker.work("biz.exec.result", result(`r.${n}`));
    for (let n = 0; n < 20; n += 1) await engine.next("task.result");

    expect(engine.batches.length - before).toBeLessThan(20);
  });
});
