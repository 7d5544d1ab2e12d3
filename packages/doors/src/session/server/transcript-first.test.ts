import { joinAnswer } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, olderRegisterPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };
const greeting = handshakePayload({ protocol: 1 });

describe("one exchange in full with a worker of the first generation", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture({ isAlone: true });
  });
  afterEach(() => fixture.stop());

  it("[D27] a first-generation exchange runs from handshake to result with numbers from 1 and only the fields it knows, and a resume is reset", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker({ dialect: "first" });

    worker.sendFrame("control.handshake", greeting, ackRequested);
    expect(await worker.nextFrame("control.ack")).toEqual({
      ...scheduler,
      type: "control.ack",
      id: expect.any(String),
      ts: expect.any(String),
      ack: { for: "control.handshake-0" },
      payload: { ok: true, for: "control.handshake-0" },
    });
    worker.sendFrame(
      "control.register",
      olderRegisterPayload({ manifests: [{ name: "demo", version: "1.0.0", manifest: { name: "demo" } }] }),
      ackRequested,
    );
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({
      boot: expect.stringContaining("name-"),
      running: null,
      about: { slots: 1, dialect: "undecided" },
    });
    expect(await worker.nextFrame("control.ack")).toMatchObject({ ack: { for: "control.register-1" }, payload: { ok: true } });
    expect((await worker.nextFrame("control.session.accept")).payload).toEqual({
      session_id: join.session,
      session_token: "session-token-0",
      worker_instance_id: "w-1",
      expires_at: expect.any(String),
      resumed: false,
    });

    engine.emitEffects(sampleDispatch(join.session, "r.0", 7));
    expect(await worker.nextFrame("biz.exec.dispatch")).toEqual({
      ...scheduler,
      type: "biz.exec.dispatch",
      id: "r.0#7",
      ts: expect.any(String),
      corr: "r.0",
      // Until the worker has numbered a frame it may be one built from the specification, which numbers by `seq` from 0.
      seq: 0,
      ack: { request: true },
      payload: {
        run_id: "r",
        task_id: "r.0",
        node_id: "n-1",
        node_type: "demo.noop",
        package_name: "demo",
        package_version: "1.0.0",
        parameters: { text: "hi" },
        constraints: {},
        concurrency_key: "r:r.0",
        priority: 5,
      },
    });
    worker.sendFrame(
      "control.ack",
      { ok: true, for: "r.0#7", ack_seq: 0, ack_bitmap: 0, recv_window: 64 },
      { corr: "r.0", seq: 0, ack: { for: "r.0#7" } },
    );
    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: "r.0", fence: 7 }]);

    worker.sendWorkFrame(
      "biz.exec.feedback",
      {
        run_id: "r",
        task_id: "r.0",
        stage: "streaming",
        progress: 0.45,
        chunks: [{ channel: "llm", text: "h" }],
        metadata: { results: { summary: "h" } },
      },
      { corr: "r.0", ack: undefined },
    );
    expect((await engine.nextCommand("worker.describe")).about).toMatchObject({ slots: 1, dialect: "first" });
    expect(await engine.nextCommand("task.feedback")).toMatchObject({ task: "r.0", fence: null });
    const feedbackAck = await worker.nextFrame("control.ack");
    expect(feedbackAck.payload).toEqual({ ok: true, ack_seq: 1, ack_bitmap: 0, recv_window: 53 });
    expect(feedbackAck.ack).toBe(undefined);

    const done = worker.sendWorkFrame(
      "biz.exec.result",
      {
        run_id: "r",
        task_id: "r.0",
        status: "SUCCEEDED",
        result: { output: "HI" },
        duration_ms: 3,
        metadata: { concurrency_key: "r:r.0", constraints: {} },
      },
      { corr: "r.0#7", seq: 0 },
    );
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.0", fence: 7, status: "succeeded", durationMs: 3 });
    expect(await worker.nextFrame("control.ack")).toMatchObject({
      ack: { for: done },
      payload: { ok: true, for: done, ack_seq: 2, ack_bitmap: 0, recv_window: 53 },
    });

    engine.emitEffects(sampleDispatch(join.session, "r.1", 9));
    // This run is older than the process: its count is not known, and never below the fence.
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.1#9", seq: 9, session_seq: 1 });

    worker.socket.terminate();
    expect(await engine.nextCommand("worker.leave")).toMatchObject({ session: join.session });
    const back = await fixture.connectWorker({ dialect: "first", count: 5 });
    back.sendFrame(
      "control.resume",
      { session_id: join.session, session_token: "session-token-0", last_seen_seq: 1 },
      ackRequested,
    );
    expect((await back.nextFrame("control.reset")).payload).toEqual({ code: "E.SESSION.UNKNOWN", reason: expect.any(String) });
    expect((await back.closed).code).toBe(1011);

    engine.answerWith("worker.join", () => ({ body: { ...joinAnswer, formerDialect: "first" } }));
    const again = await fixture.connectWorker({ dialect: "first", count: 6 });
    again.sendFrame("control.handshake", greeting, ackRequested);
    await again.nextFrame("control.ack");
    again.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    // Its counter has gone on: the same process, which keeps what it runs.
    const rejoin = await engine.nextCommand("worker.join");
    expect(rejoin).toMatchObject({ boot: null, running: null, about: { dialect: "undecided" } });
    expect((await again.nextFrame("control.session.accept")).payload).toMatchObject({ resumed: false });
    // It has shown its generation before: the row of the worker remembers it for the same process.
    expect((await engine.nextCommand("worker.describe")).about).toMatchObject({ dialect: "first" });
    engine.emitEffects(sampleDispatch(rejoin.session, "r.2", 11));
    expect(await again.nextFrame("biz.exec.dispatch")).toMatchObject({ id: "r.2#11", session_seq: 1 });
  });
});
