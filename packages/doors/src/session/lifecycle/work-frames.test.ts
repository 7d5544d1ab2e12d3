import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import type { FakeWorker } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "../connection/session-limits.ts";

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
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  const join = async (options: Parameters<DoorsFixture["openSession"]>[0] = {}) => {
    const worker = await fixture.openSession(options);
    const { session } = await fixture.engine.nextCommand("worker.join");
    return { worker, session };
  };

  it("[D7] the session door acks no work frame before the engine's answer, and answers delivered together with one ack", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    engine.holdAnswers("task.result");

    for (let n = 0; n < 50; n += 1) worker.sendWorkFrame("biz.exec.result", result(`r.${n}`));
    await worker.untilProcessed();
    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(50);
    expect(acksOf(worker)).toEqual([]);
    engine.releaseAnswers("task.result");
    await worker.nextFrame("control.ack");
    await worker.untilProcessed();

    expect(acksOf(worker)).toEqual([{ ok: true, ack_seq: 49, ack_bitmap: 0, recv_window: sessionLimits.recvWindow }]);
  });

  it("[D7] an ack shows out-of-order answers in its bitmap, and its number never covers a frame that is still unanswered", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    engine.holdAnswers("task.result");
    for (let n = 0; n < 4; n += 1) worker.sendWorkFrame("biz.exec.result", result(`r.${n}`));
    await worker.untilProcessed();

    engine.releaseAnswers("task.result", [1, 3]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: -1, ack_bitmap: 0b1010 });
    engine.releaseAnswers("task.result", [0]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 1, ack_bitmap: 0b10 });
    engine.releaseAnswers("task.result");
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 3, ack_bitmap: 0 });
  });

  it("[D8] the session door acks a result that the engine refused for good, and counts it", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    engine.answerWith("task.result", () => ({ fault: { code: "E.SESSION.STALE_BINDING", message: "not yours any more" } }));

    worker.sendWorkFrame("biz.exec.result", result("r.0"));

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 0 });
    expect(fixture.metrics.render()).toContain('ws_frame_refused_total{tenant="default",code="E.SESSION.STALE_BINDING"} 1');
  });

  it("[D8] the session door never acks a result that could not be stored: it resets the session with a pause for the retry", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    engine.answerWith("task.result", () => ({ fault: { code: "E.STORE.BUSY", message: "UPDATE task SET /var/lib/astra.db" } }));

    worker.sendWorkFrame("biz.exec.result", result("r.0"));

    const reset = await worker.nextFrame("control.reset");
    expect(reset.payload).toMatchObject({ code: "E.STORE.BUSY", retry_after_ms: sessionLimits.retryAfterMs });
    expect(JSON.stringify(reset)).not.toMatch(/UPDATE|var\/lib/);
    await worker.closed;
    expect(acksOf(worker)).toEqual([]);
  });

  it("[D9] the session door drops a repeated frame and acks again, whether or not the first copy was answered", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    engine.holdAnswers("task.result");

    const id = worker.sendWorkFrame("biz.exec.result", result("r.0"));
    worker.sendFrame("biz.exec.result", result("r.0"), { id, seq: 0, ack: { request: true } });
    // Not by name before its answer: a name is an ack, too.
    expect((await worker.nextFrame("control.ack")).payload).toEqual({ ok: true, ack_seq: -1, ack_bitmap: 0, recv_window: 64 });
    engine.releaseAnswers("task.result");
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
    worker.sendFrame("biz.exec.result", result("r.0"), { id, seq: 0, ack: { request: true } });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ for: id, ack_seq: 0 });

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
    expect(fixture.metrics.render()).toContain('ws_frame_repeat_total{tenant="default",dir="in"} 2');
  });

  it("[D9] the session door keeps frames that arrive early and processes them in order once the gap is filled", async () => {
    const { engine } = fixture;
    const { worker } = await join();

    for (const seq of [2, 1]) worker.sendFrame("biz.exec.result", result(`r.${seq}`), { seq });
    await worker.untilProcessed();
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    expect(acksOf(worker)).toEqual([]);
    worker.sendFrame("biz.exec.result", result("r.0"), { seq: 0 });

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 2, ack_bitmap: 0 });
    const tasks = engine.commands.flatMap((command) => (command.type === "task.result" ? [command.task] : []));
    expect(tasks).toEqual(["r.0", "r.1", "r.2"]);
  });

  it("[D9] the session door resets a session whose gap stays open for 16 s, without processing the frames after it", async () => {
    const { engine, environment } = fixture;
    const { worker } = await join();
    worker.sendFrame("biz.exec.result", result("r.1"), { seq: 1 });
    await worker.untilProcessed();

    environment.advance(15_000);
    await worker.untilProcessed();
    expect(worker.frames.at(-1)?.type).not.toBe("control.reset");
    environment.advance(1_000);

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.GAP" });
    await engine.nextCommand("worker.leave");
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    expect(fixture.metrics.render()).toContain('ws_session_reset_total{tenant="default",code="E.SESSION.GAP"} 1');
  });

  it("[D9] the session door resets a session that sends only frames beyond the window for 16 s, but not while it waits for the engine", async () => {
    await fixture.stop();
    fixture = await openDoorsFixture({ limits: { recvWindow: 2 } });
    const { engine, environment } = fixture;
    const { worker: patient } = await join();
    engine.holdAnswers("task.result");
    for (const seq of [0, 1, 2]) patient.sendFrame("biz.exec.result", result(`r.${seq}`), { seq });
    const { worker } = await join({ instance: "w-2" });
    for (const seq of [7, 8]) worker.sendFrame("biz.exec.result", result(`r.${seq}`), { seq });
    await patient.untilProcessed();
    await worker.untilProcessed();

    environment.advance(15_000);
    for (const each of [patient, worker]) {
      each.sendFrame("biz.exec.result", result("r.9"), { seq: 9 });
      await each.untilProcessed();
      expect(each.frames.at(-1)?.type).not.toBe("control.reset");
    }
    environment.advance(1_000);

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.GAP" });
    await patient.untilProcessed();
    expect(patient.frames.at(-1)?.type).not.toBe("control.reset");
  });

  it("[D5] a dispatch contains fence and attempt only for workers that announced that they read them", async () => {
    const { engine } = fixture;
    const { worker, session } = await join({ features: [] });

    engine.emitEffects(sampleDispatch(session, "r.0", 7, { concurrencyKey: "" }));

    const { payload } = await worker.nextFrame("biz.exec.dispatch");
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["fence"]));
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["attempt"]));
    expect(Object.keys(payload)).not.toEqual(expect.arrayContaining(["concurrency_key"]));
  });

  it("[D5] the fence of a result or error is read from the dispatch named in corr, and is null when there is none", async () => {
    const { engine } = fixture;
    const { worker } = await join({ features: [] });
    const bare = {
      run_id: "r",
      task_id: "r.0",
      status: "FAILED",
      result: {},
      error: { code: "E.X", message: "no", remediation: "try" },
    };

    worker.sendWorkFrame("biz.exec.result", bare, { corr: "r.0#41" });
    expect(await engine.nextCommand("task.result")).toMatchObject({
      fence: 41,
      status: "failed",
      error: { code: "E.X", message: "no", details: { remediation: "try" } },
    });
    worker.sendWorkFrame("biz.exec.result", bare, { corr: "r.0" });
    expect(await engine.nextCommand("task.result")).toMatchObject({ fence: null });
    worker.sendWorkFrame("biz.exec.error", {
      code: "E.RUNNER.FAILURE",
      message: "threw",
      context: { where: "worker.runner", details: { task_id: "r.0" } },
    });
    expect(await engine.nextCommand("task.error")).toMatchObject({
      task: "r.0",
      fence: null,
      details: { where: "worker.runner" },
    });
    worker.sendWorkFrame("biz.exec.error", { code: "E.RUNNER.FAILURE", message: "threw" }, { corr: "r.0#42" });
    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: 42 });
  });

  it("[D891] details of an error above 64 KiB are left out and the rest of the report is kept", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    const report = (text: string) => ({
      code: "E.RUNNER.FAILURE",
      message: "threw",
      remediation: "try",
      context: { where: "handler", details: { task_id: "r.0", run_id: "r", text } },
    });

    worker.sendWorkFrame("biz.exec.error", report("x".repeat(60_000)));
    const short = await engine.nextCommand("task.error");
    worker.sendWorkFrame("biz.exec.error", report("x".repeat(66_000)));
    const long = await engine.nextCommand("task.error");

    expect(short.details).toMatchObject({ text: "x".repeat(60_000), where: "handler" });
    expect(long).toMatchObject({ task: "r.0", code: "E.RUNNER.FAILURE", message: "threw" });
    expect(long.details).toEqual({ truncated: true, where: "handler", remediation: "try" });
  });

  it("[D6] a worker's acks become task.ack for exactly the dispatches they newly cover", async () => {
    const { engine } = fixture;
    const { worker, session } = await join();
    engine.emitEffects(...[0, 1, 2, 3].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    for (let n = 0; n < 4; n += 1) expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(n);
    const acked = () =>
      engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held.map((one) => one.task) : []));

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: "2" });
    await worker.untilProcessed();
    expect(acked()).toEqual(["r.0", "r.2"]);
    worker.sendFrame("control.ack", { ok: true, for: "r.1#7" }, { ack: { for: "r.1#7" } });
    worker.sendFrame("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    worker.sendFrame("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    await worker.untilProcessed();

    expect(acked()).toEqual(["r.0", "r.2", "r.1", "r.3"]);
  });

  it("[D6] a session that acks a frame that was never sent is reset", async () => {
    const { worker } = await join();

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.ACK_UNSENT" });
  });

  it("[D17] a stop is sent as a numbered cancel frame to workers that announced cancel, and to no others", async () => {
    const { engine } = fixture;
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

    engine.emitEffects({ ...stop, session: able.session }, { ...stop, session: plain.session }, { ...stop, session: "gone" });

    const cancel = await able.worker.nextFrame("biz.exec.cancel");
    expect(cancel).toMatchObject({
      seq: 0,
      corr: "r.0",
      payload: { run_id: "r", task_id: "r.0", fence: 7, reason: "E.TIMEOUT: late" },
    });
    engine.emitEffects(sampleDispatch(plain.session, "r.1", 8));
    expect((await plain.worker.nextFrame("biz.exec.dispatch")).seq).toBe(0);
    able.worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    await able.worker.untilProcessed();
    expect(engine.commands.filter((command) => command.type === "task.ack")).toEqual([]);
  });

  it("[D16] the accept lists which of the extensions a worker announced are used, and has no list for workers that announced none", async () => {
    const { worker: able } = await join({ features: ["batch", "telepathy", "fence"] });
    const { worker: plain } = await join({ instance: "w-2", features: [] });
    const acceptOf = (worker: FakeWorker) => worker.frames.find((frame) => frame.type === "control.session.accept")?.payload;

    expect(acceptOf(able)?.["features"]).toEqual(["fence", "batch"]);
    expect(Object.keys(acceptOf(plain) ?? {})).not.toContain("features");
  });

  it("[D16] the dispatches of one turn are sent as batches to workers that announced batch, and result batches are accepted", async () => {
    const { engine } = fixture;
    const { worker, session } = await join({ features: ["fence", "batch"] });
    engine.holdAnswers("task.result");

    engine.emitEffects(...Array.from({ length: 70 }, (_, n) => sampleDispatch(session, `r.${n}`, 7)));
    const first = await worker.nextFrame("biz.exec.dispatch.batch");
    const second = await worker.nextFrame("biz.exec.dispatch.batch");
    expect([first.seq, second.seq]).toEqual([0, 1]);
    expect([first, second].map((frame) => (frame.payload["items"] as unknown[]).length)).toEqual([64, 6]);
    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    worker.sendWorkFrame("biz.exec.result.batch", { items: [result("r.0"), result("r.1")] });
    await worker.untilProcessed();
    expect(engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held : []))).toHaveLength(64);

    engine.releaseAnswers("task.result", [0]);
    await worker.untilProcessed();
    expect(acksOf(worker)).toEqual([]);
    engine.releaseAnswers("task.result");
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
  });

  it("[D13] frames of unknown types do not end a session: they are acked, as not understood when the sender requested an ack", async () => {
    const { engine } = fixture;
    const { worker } = await join();

    const asked = worker.sendWorkFrame("biz.exec.levitate", { height: 3 });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: false,
      for: asked,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 0,
    });
    const control = worker.sendFrame("control.levitate", {}, { ack: { request: true } });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, for: control });
    worker.sendFrame("biz.exec.levitate", {});
    const vendor = worker.sendWorkFrame("ext.vendor.acme.hello", { anything: true });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: false,
      for: vendor,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 1,
    });

    worker.sendWorkFrame("biz.exec.result", result("r.0"));
    await engine.nextCommand("task.result");
  });

  it("[D13] package events and errors without a task are logged and acked", async () => {
    const { worker } = await join();

    worker.sendWorkFrame("biz.pkg.event", { name: "demo", version: "1.0.0", status: "failed" });
    worker.sendWorkFrame("biz.exec.error", { code: "E.INTERNAL", message: "disk is full" });
    await worker.untilProcessed();

    expect(fixture.environment.logRecords.map((connection) => connection.event)).toEqual(
      expect.arrayContaining(["session.package", "session.error"]),
    );
    expect(acksOf(worker).at(-1)).toMatchObject({ ack_seq: 1 });
  });

  it("[D740] the stages of an install are reported to the engine with their stage and progress", async () => {
    const { engine } = fixture;
    const { worker } = await join();

    const event = { name: "demo", version: "1.0.0", command_id: "c-1" };
    worker.sendWorkFrame("biz.pkg.event", { ...event, status: "installing", stage: "unpack", progress: 0.5 });

    const command = await engine.nextCommand("worker.package");
    expect(command).toMatchObject({ status: "installing", details: { command: "c-1", stage: "unpack", progress: 0.5 } });
  });

  it("[D18] feedback that is too large is truncated and marked", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    const chunk = (text: string) => ({ channel: "log", text });

    worker.sendWorkFrame("biz.exec.feedback", { run_id: "r", task_id: "r.0", fence: 7, progress: 0.5, chunks: [chunk("short")] });
    expect((await engine.nextCommand("task.feedback")).data).toEqual({ progress: 0.5, chunks: [chunk("short")] });
    worker.sendWorkFrame("biz.exec.feedback", {
      run_id: "r",
      task_id: "r.0",
      fence: 7,
      chunks: [chunk("a"), chunk("b".repeat(80_000)), chunk("c")],
    });
    const { data } = await engine.nextCommand("task.feedback");
    expect(data).toMatchObject({
      chunks: [chunk("a"), { channel: "log", text: expect.stringMatching(/^b{9000,70000}$/) }],
      truncated: true,
    });
    expect(data["chunks"]).toHaveLength(2);
    expect(JSON.stringify(data).length).toBeLessThan(65_536);
  });

  it("[D1] the session door passes work frames that arrive together to the engine in fewer batches than frames", async () => {
    const { engine } = fixture;
    const { worker } = await join();
    const before = engine.batches.length;

    for (let n = 0; n < 20; n += 1) worker.sendWorkFrame("biz.exec.result", result(`r.${n}`));
    for (let n = 0; n < 20; n += 1) await engine.nextCommand("task.result");

    expect(engine.batches.length - before).toBeLessThan(20);
  });
});
