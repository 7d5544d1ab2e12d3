import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import type { FakeWorker } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };
/** Nothing but what the specification of the protocol prints. */
const handshake = {
  protocol: 1,
  auth: { mode: "token", token: "secret-a" },
  worker: { worker_name: "painter", worker_instance_id: "w-1", version: "1.0.0", hostname: "box" },
};
const register = { capabilities: { concurrency: { max_parallel: 4 }, runtimes: ["python"], features: [] } };
const result = (task: string) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {} });

describe("a worker built from the specification alone", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  const open = async (count = 0): Promise<{ worker: FakeWorker; session: string; token: string }> => {
    const worker = await fixture.connectWorker({ dialect: "basic", count });
    worker.sendFrame("control.handshake", handshake, { id: `hello-${count}`, ...ackRequested });
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", register, ackRequested);
    await worker.nextFrame("control.ack");
    const { payload } = await worker.nextFrame("control.session.accept");
    return { worker, session: String(payload["session_id"]), token: String(payload["session_token"]) };
  };

  it("[D138] a worker with protocol 1 and capabilities alone is accepted at once, gets frames numbered by seq from 0, and one task at a time", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker({ dialect: "basic" });
    worker.sendFrame("control.handshake", handshake, { id: "hello", ...ackRequested });
    expect((await worker.nextFrame("control.ack")).payload).toEqual({ ok: true, for: "hello" });
    worker.sendFrame("control.register", register, { id: "who", ...ackRequested });
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({ boot: null, running: null, about: { packages: [], slots: 1, dialect: "undecided" } });
    expect((await worker.nextFrame("control.ack")).payload).toEqual({ ok: true, for: "who" });
    expect((await worker.nextFrame("control.session.accept")).payload).toEqual({
      session_id: join.session,
      session_token: "session-token-0",
      worker_instance_id: "w-1",
      expires_at: expect.any(String),
      resumed: false,
    });

    worker.sendFrame("control.heartbeat", {
      healthy: true,
      packages: { installed: [{ name: "demo", version: "1.0.0", status: "installed" }] },
    });
    expect((await engine.nextCommand("worker.describe")).about.packages).toEqual([
      { name: "demo", version: "1.0.0", status: "installed" },
    ]);
    expect(await engine.nextCommand("worker.beat")).toMatchObject({ healthy: true, held: null });
    worker.sendFrame("control.heartbeat", { healthy: true });
    expect(await engine.nextCommand("worker.beat")).toMatchObject({ healthy: true, held: null });

    engine.emitEffects(sampleDispatch(join.session, "r.0", 7), sampleDispatch(join.session, "r.1", 8));
    expect(await worker.nextFrame("biz.exec.dispatch")).toEqual({
      ...scheduler,
      type: "biz.exec.dispatch",
      id: "r.0#7",
      ts: expect.any(String),
      corr: "r.0",
      seq: 0,
      ack: { request: true },
      payload: expect.not.objectContaining({ fence: expect.anything() }),
    });
    await worker.untilProcessed();
    expect(worker.frames.filter(({ type }) => type === "biz.exec.dispatch")).toHaveLength(1);
    worker.sendFrame("control.ack", { ack_seq: 0, ack_bitmap: 0, recv_window: 8 });
    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: "r.0", fence: 7 }]);
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#8", seq: 1 });
  });

  it("[D138] seq alone in a work frame shows a worker of the specification: from then on it has its slots, windows and resumes", async () => {
    const { engine } = fixture;
    const { worker, session, token } = await open();
    await engine.nextCommand("worker.join");
    engine.emitEffects(sampleDispatch(session, "r.0", 7));
    await worker.nextFrame("biz.exec.dispatch");
    worker.sendFrame("control.ack", { ok: true, for: "r.0#7", ack_seq: 0, ack_bitmap: 0, recv_window: 8 });

    worker.sendWorkFrame("biz.exec.feedback", {
      run_id: "r",
      task_id: "r.0",
      chunks: [{ channel: "browser", text: "opened" }],
    });

    expect((await engine.nextCommand("worker.describe")).about).toMatchObject({ slots: 4, dialect: "basic" });
    expect(await engine.nextCommand("task.feedback")).toMatchObject({
      task: "r.0",
      fence: null,
      data: { chunks: [{ channel: "browser", text: "opened" }] },
    });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: true,
      ack_seq: 0,
      ack_bitmap: 0,
      recv_window: 53,
    });
    engine.emitEffects(sampleDispatch(session, "r.1", 8), sampleDispatch(session, "r.2", 9));
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#8", seq: 1 });
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.2#9", seq: 2 });

    worker.socket.terminate();
    await engine.nextCommand("worker.leave");
    const back = await fixture.connectWorker({ dialect: "basic", count: 40 });
    back.sendFrame("control.resume", { session_id: session, session_token: token, last_seen_seq: 1 }, ackRequested);
    expect(await engine.nextCommand("worker.join")).toMatchObject({ session, running: null, resumed: {} });
    expect((await back.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 0 });
    expect((await back.nextFrame("control.session.accept")).payload).toMatchObject({
      resumed: true,
      send_window: 53,
      recv_window: 53,
    });
    expect(await back.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.2#9", seq: 2 });
    back.sendFrame("biz.exec.result", result("r.0"), { seq: 1, ...ackRequested });
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.0", fence: null, status: "succeeded" });
  });

  it("[D138] a resume before the worker has numbered a frame is refused as unknown, and a new handshake keeps its attempts", async () => {
    const { engine } = fixture;
    const { worker, session, token } = await open();
    await engine.nextCommand("worker.join");
    worker.socket.terminate();
    await engine.nextCommand("worker.leave");

    const back = await fixture.connectWorker({ dialect: "basic", count: 5 });
    back.sendFrame("control.resume", { session_id: session, session_token: token, last_seen_seq: 0 }, ackRequested);
    expect((await back.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
    await open(9);

    expect(await engine.nextCommand("worker.join")).toMatchObject({ boot: null, running: null });
  });

  it("[D138] a frame that shows the dialect while the join is being stored is remembered with the accept", async () => {
    const { engine } = fixture;
    engine.holdAnswers("worker.join");
    const worker = await fixture.connectWorker({ dialect: "basic" });
    worker.sendFrame("control.handshake", handshake, ackRequested);
    worker.sendFrame("control.register", register, ackRequested);
    await engine.nextCommand("worker.join");
    worker.sendWorkFrame("biz.exec.result", result("r.0"));
    await worker.untilProcessed();
    expect(engine.commands.map(({ type }) => type)).not.toContain("worker.describe");

    engine.releaseAnswers("worker.join");

    await worker.nextFrame("control.session.accept");
    expect((await engine.nextCommand("worker.describe")).about).toMatchObject({ slots: 4, dialect: "basic" });
  });

  it("[D138] an ack with a window of 0 is taken like one with a window of one", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 8));
    await worker.nextFrame("biz.exec.dispatch");

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 0 });

    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: "r.0", fence: 7 }]);
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#8", seq: 1 });
  });

  it("[D138] an undecided worker that reports a result without an ack gets its next task, and the finished one is not sent again", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 8));
    await worker.nextFrame("biz.exec.dispatch");

    worker.sendFrame("biz.exec.result", result("r.0"), ackRequested);

    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#8", seq: 1 });
    environment.advance(7_000);
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#8", seq: 1 });
    await worker.untilProcessed();
    expect(worker.frames.filter(({ id }) => id === "r.0#7")).toHaveLength(1);
  });

  it("[D138] the engine learns that an undecided worker refuses the key of a dispatch that was sent to it twice", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await open();
    engine.emitEffects(sampleDispatch(session, "r.0", 7));
    await worker.nextFrame("biz.exec.dispatch");
    environment.advance(7_000);
    await worker.nextFrame("biz.exec.dispatch");

    const refusal = { code: "E.CMD.CONCURRENCY_VIOLATION", message: "held" };
    worker.sendFrame("biz.exec.error", refusal, { corr: "r.0#7", session_seq: 1, ...ackRequested });

    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: 7, isRepeated: true });
  });

  it("[D138] a worker that numbers its control frames too stays undecided: the gaps in the numbers of its work frames hold nothing up", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker({ dialect: "basic" });
    worker.sendFrame("control.handshake", handshake, { seq: 0, ...ackRequested });
    worker.sendFrame("control.register", register, { seq: 1, ...ackRequested });
    await worker.nextFrame("control.session.accept");

    const id = worker.sendFrame("biz.exec.result", result("r.0"), { seq: 2, ...ackRequested });

    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.0", status: "succeeded" });
    await worker.untilProcessed();
    expect(worker.frames.at(-1)).toMatchObject({ type: "control.ack", payload: { ok: true, for: id } });
  });

  it("[D138] an empty list in the first heartbeat of a worker that registered none replaces the packages that were known", async () => {
    const { engine } = fixture;
    const { worker } = await open();
    expect(await engine.nextCommand("worker.join")).toMatchObject({ keepsPackages: true });

    worker.sendFrame("control.heartbeat", { healthy: true, packages: { installed: [] } });

    const described = await engine.nextCommand("worker.describe");
    expect(described.about.packages).toEqual([]);
    expect(described).not.toHaveProperty("keepsPackages");
  });

  it("[D138] a worker that shows its dialect keeps the packages that became known since its register", async () => {
    const { engine } = fixture;
    const { worker } = await open();
    worker.sendFrame("control.register", { ...register, packages: [] }, ackRequested);
    expect(await engine.nextCommand("worker.describe")).not.toHaveProperty("keepsPackages");

    worker.sendWorkFrame("ext.vendor.demo.ready", {});

    expect(await engine.nextCommand("worker.describe")).toMatchObject({ keepsPackages: true, about: { dialect: "basic" } });
  });

  it("[D138] the host of a chain gets its chain index as null, as the specification writes it", async () => {
    const { engine } = fixture;
    const { worker, session } = await open();
    worker.sendWorkFrame("ext.vendor.demo.ready", {});
    await engine.nextCommand("worker.describe");

    engine.emitEffects(sampleDispatch(session, "r.0", 7, { hostNode: "n-1", chain: ["m-1"] }));

    expect((await worker.nextFrame("biz.exec.dispatch")).payload).toMatchObject({
      host_node_id: "n-1",
      middleware_chain: ["m-1"],
      chain_index: null,
    });
  });
});

describe("the socket of a worker that is reset", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture({ limits: { resetCloseDelayMs: 1_000 } });
  });
  afterEach(() => fixture.stop());

  it("[D139] a reset worker has a second to read the reset, and nothing that it still sends counts", async () => {
    const { engine, environment } = fixture;
    const worker = await fixture.openSession();
    engine.emitEffects({
      type: "reset",
      session: (await engine.nextCommand("worker.join")).session,
      code: "E.SESSION.DENIED",
      reason: "kicked",
    } as never);
    await worker.nextFrame("control.reset");
    worker.sendWorkFrame("biz.exec.result", result("r.0"));
    await worker.untilProcessed();
    environment.advance(999);
    await worker.untilProcessed();
    expect(worker.socket.readyState).toBe(worker.socket.OPEN);

    environment.advance(1);

    expect((await worker.closed).code).toBe(1011);
    expect(engine.commands.map(({ type }) => type)).not.toContain("task.result");
  });

  it("[D139] a reset worker that closes by itself is gone at once", async () => {
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.heartbeat", { healthy: true });
    await worker.nextFrame("control.reset");

    worker.socket.close(1000);

    expect((await worker.closed).code).toBe(1000);
    expect(fixture.doors.connections).toBe(0);
  });
});
