import { joinAnswer } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "../connection/session-limits.ts";

const ackRequested = { ack: { request: true } };
const result = (task: string, more: object = {}) => ({
  run_id: "r",
  task_id: task,
  status: "SUCCEEDED",
  result: { n: 1 },
  fence: 7,
  ...more,
});

describe("the session exchange, frame by frame", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  it("[D4] a session runs handshake, ack, register, ack, accept, heartbeat, then work in both directions", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker();

    const hello = worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    const greeted = await worker.nextFrame("control.ack");
    expect(greeted).toMatchObject({
      tenant: "default",
      sender: { role: "scheduler", id: "scheduler-control" },
      ack: { for: hello },
    });
    expect(greeted.payload).toEqual({ ok: true, for: hello, ack_seq: -1, ack_bitmap: 0, recv_window: sessionLimits.recvWindow });
    expect(engine.commands).toEqual([]);

    const introduction = worker.sendFrame(
      "control.register",
      registerPayload({ running: [{ task_id: "r.9", fence: 3 }] }),
      ackRequested,
    );
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({
      tenant: "default",
      worker: "default/w-1",
      name: "painter",
      boot: "boot-1",
      running: [{ task: "r.9", fence: 3 }],
    });
    expect(join.about).toMatchObject({
      slots: 4,
      runtimes: ["node"],
      pool: "default",
      hostname: "box",
      version: "1.0.0",
      dialect: "v2",
    });
    expect(join.about.packages).toEqual([{ name: "demo", version: "1.0.0", status: "installed" }]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, for: introduction });
    const accept = await worker.nextFrame("control.session.accept");
    expect(accept.payload).toMatchObject({
      session_id: join.session,
      worker_instance_id: "w-1",
      resumed: false,
      heartbeat_interval_ms: 10_000,
      lease_ms: 30_000,
      drain_mem_pct: 90,
      drain_disk_pct: 95,
      send_window: sessionLimits.sendWindow,
      recv_window: sessionLimits.recvWindow,
    });
    expect(accept.payload["session_token"]).toBe("session-token-0");
    expect(fixture.authenticator.issued).toEqual([
      expect.objectContaining({ sid: join.session, wid: "w-1", tenant: "default", dialect: "v2" }),
    ]);

    const beat = worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 }, held: [] }, ackRequested);
    expect(await engine.nextCommand("worker.beat")).toMatchObject({ session: join.session, healthy: true, held: [] });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, for: beat });

    engine.emitEffects(sampleDispatch(join.session, "r.0", 7, { timeoutMs: 500 }));
    const dispatch = await worker.nextFrame("biz.exec.dispatch");
    expect(dispatch).toMatchObject({ id: "r.0#7", corr: "r.0", seq: 0, ack: { request: true } });
    expect(dispatch.payload).toEqual({
      run_id: "r",
      task_id: "r.0",
      node_id: "n-1",
      node_type: "demo.noop",
      package_name: "demo",
      package_version: "1.0.0",
      parameters: { text: "hi" },
      constraints: { timeout_ms: 500 },
      concurrency_key: "r:n-1",
      priority: 5,
      fence: 7,
      attempt: 1,
    });

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 1024 });
    expect(await engine.nextCommand("task.ack")).toEqual({
      type: "task.ack",
      tenant: "default",
      worker: "default/w-1",
      session: join.session,
      held: [{ task: "r.0", fence: 7 }],
    });

    const done = worker.sendWorkFrame("biz.exec.result", result("r.0", { duration_ms: 12 }), { corr: "r.0#7" });
    expect(await engine.nextCommand("task.result")).toEqual({
      type: "task.result",
      tenant: "default",
      worker: "default/w-1",
      session: join.session,
      task: "r.0",
      fence: 7,
      status: "succeeded",
      result: '{"n":1}',
      error: null,
      durationMs: 12,
    });
    const acked = await worker.nextFrame("control.ack");
    expect(acked.ack).toEqual({ for: done });
    expect(acked.payload).toEqual({ ok: true, for: done, ack_seq: 0, ack_bitmap: 0, recv_window: sessionLimits.recvWindow });
    expect(worker.frames.map((frame) => frame.type)).toEqual([
      "control.ack",
      "control.ack",
      "control.session.accept",
      "control.ack",
      "biz.exec.dispatch",
      "control.ack",
    ]);
  });

  it("[D4] the session door sends neither the register's ack nor accept before the engine has answered the join", async () => {
    const { engine } = fixture;
    engine.holdAnswers("worker.join");
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    await worker.nextFrame("control.ack");

    worker.sendFrame("control.register", registerPayload(), ackRequested);
    const join = await engine.nextCommand("worker.join");
    // A grant of the very turn of the join waits for accept, too.
    engine.emitEffects(sampleDispatch(join.session, "r.0", 7));
    await worker.untilProcessed();
    expect(worker.frames).toHaveLength(1);
    engine.releaseAnswers("worker.join");
    await worker.nextFrame("biz.exec.dispatch");

    expect(worker.frames.map((frame) => frame.type)).toEqual([
      "control.ack",
      "control.ack",
      "control.session.accept",
      "biz.exec.dispatch",
    ]);
  });

  it("[D4] the session door answers a refused join with a reset, which names a pause when a retry can help", async () => {
    const { engine } = fixture;
    engine.answerWith("worker.join", () => ({ fault: { code: "E.OVERLOADED", message: "the inbox is full" } }));
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    worker.sendFrame("control.register", registerPayload(), ackRequested);

    expect((await worker.nextFrame("control.reset")).payload).toEqual({
      code: "E.OVERLOADED",
      reason: "the inbox is full",
      retry_after_ms: sessionLimits.retryAfterMs,
    });
    expect(await worker.closed).toEqual({ code: 1011, reason: "the inbox is full" });
  });

  it("[D10] a worker that registers its capabilities alone is accepted at once, and its packages and attempts may follow", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    worker.sendFrame("control.register", { capabilities: { concurrency: { max_parallel: 2 } } }, ackRequested);

    expect(await engine.nextCommand("worker.join")).toMatchObject({
      boot: "w-1",
      running: null,
      about: { packages: [], slots: 2 },
    });
    await worker.nextFrame("control.session.accept");
    worker.sendWorkFrame("biz.exec.inventory", { running: [{ task_id: "r.1", fence: 4 }] });
    expect(await engine.nextCommand("worker.beat")).toMatchObject({ held: [{ task: "r.1", fence: 4 }] });
    worker.sendWorkFrame("biz.pkg.catalog", {
      packages: [{ name: "late", version: "1.0.0", status: "installed", manifest: {} }],
    });
    expect((await engine.nextCommand("worker.describe")).about.packages).toEqual([
      { name: "late", version: "1.0.0", status: "installed" },
    ]);
  });

  it("[D10] a worker that names its process or its attempts reports all it runs, and one that names neither cannot report", async () => {
    const { engine } = fixture;
    const capabilities = { concurrency: { max_parallel: 2 } };
    const joins = [];
    for (const more of [{}, { boot_id: "boot-7" }, { running: [{ task_id: "r.1", fence: 4 }] }]) {
      const worker = await fixture.connectWorker();
      worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
      worker.sendFrame("control.register", { capabilities, ...more }, ackRequested);
      const { boot, running } = await engine.nextCommand("worker.join");
      joins.push({ boot, running });
      await worker.nextFrame("control.session.accept");
      worker.socket.close();
      await worker.closed;
    }

    expect(joins).toEqual([
      { boot: "w-1", running: null },
      { boot: "boot-7", running: [] },
      { boot: "w-1", running: [{ task: "r.1", fence: 4 }] },
    ]);
  });

  it("[D12] a session ends with worker.leave when its socket is closed or lost", async () => {
    const { engine } = fixture;
    const polite = await fixture.openSession();
    const rude = await fixture.openSession({ instance: "w-2" });

    polite.socket.close(1000);
    expect(await engine.nextCommand("worker.leave")).toMatchObject({ worker: "default/w-1" });
    rude.socket.terminate();
    expect(await engine.nextCommand("worker.leave")).toMatchObject({ worker: "default/w-2" });
  });

  it("[D630] a session that its worker closed with 1000 is reported as an orderly leave, one that broke or was closed otherwise is not", async () => {
    const { engine } = fixture;
    const leaves = [];

    for (const code of [1000, 1001, null]) {
      const worker = await fixture.openSession();
      if (code === null) worker.socket.terminate();
      else worker.socket.close(code);
      leaves.push((await engine.nextCommand("worker.leave")).isOrderly);
      await worker.closed;
    }

    expect(leaves).toEqual([true, undefined, undefined]);
  });

  it("[D12] a second register updates the worker's description, is acked after the engine's answer and causes no second accept", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.holdAnswers("worker.describe");

    const again = worker.sendFrame("control.register", registerPayload({ packages: [] }), ackRequested);
    expect((await engine.nextCommand("worker.describe")).about.packages).toEqual([]);
    await worker.untilProcessed();
    expect(worker.frames).toHaveLength(3);
    engine.releaseAnswers("worker.describe");

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ for: again });
    expect(worker.frames.filter((frame) => frame.type === "control.session.accept")).toHaveLength(1);
  });

  it("[D12] a worker is sent a drain frame, also when it joins while being drained, and the end of a drain resets its session", async () => {
    const { engine } = fixture;
    engine.answerWith("worker.join", () => ({ body: { ...joinAnswer, of: "join", draining: true } as typeof joinAnswer }));
    const worker = await fixture.openSession();
    const { session } = await engine.nextCommand("worker.join");

    expect((await worker.nextFrame("control.drain")).payload).toEqual({ reason: "this worker is being drained" });
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: true, reason: "by ann" });
    expect((await worker.nextFrame("control.drain")).payload).toEqual({ reason: "by ann" });
    engine.emitEffects({ type: "drain", session, worker: "default/w-1", on: false, reason: "by ann" });
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
    await worker.closed;
  });

  it("[D12] the session door closes a session that the engine resets, and processes no frame that still arrives from it", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession();
    const { session } = await engine.nextCommand("worker.join");

    engine.emitEffects({
      type: "reset",
      session,
      worker: "default/w-1",
      code: "E.SESSION.STALE_BINDING",
      reason: "superseded session",
    });
    worker.sendWorkFrame("biz.exec.result", result("r.0"));

    expect((await worker.nextFrame("control.reset")).payload).toEqual({
      code: "E.SESSION.STALE_BINDING",
      reason: "superseded session",
    });
    expect(await worker.closed).toEqual({ code: 1011, reason: "superseded session" });
    await engine.nextCommand("worker.leave");
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
  });

  it("[D12] the session door resets the session of a worker whose heartbeat the engine refuses as stale", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.answerWith("worker.beat", () => ({ fault: { code: "E.SESSION.STALE_BINDING", message: "the lease is over" } }));

    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 1 } }, ackRequested);

    expect(await engine.nextCommand("worker.beat")).toMatchObject({ held: null });
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[D12] the session door leaves a heartbeat that could not be stored unacked, and keeps the session", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.answerWith("worker.beat", () => ({ fault: { code: "E.OVERLOADED", message: "the inbox is full" } }));

    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 1 } }, ackRequested);
    await engine.nextCommand("worker.beat");
    engine.answerWith("worker.beat", () => ({ body: { of: "word", applied: true } }));
    const second = worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 1 } }, ackRequested);

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ for: second });
  });

  it("[D20] the session door closes its sockets with 1001 when the scheduler shuts down, and accepts no new ones", async () => {
    const worker = await fixture.openSession();

    const closing = fixture.doors.close();
    expect(await worker.closed).toEqual({ code: 1001, reason: "going away" });
    await closing;

    await expect(fixture.connectWorker()).rejects.toThrow("503");
  });
});
