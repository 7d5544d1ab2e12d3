import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { handshake, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };
const greeting = handshake({ protocol: 1 });

describe("one exchange in full with a worker of the first generation", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse({ isAlone: true });
  });
  afterEach(() => house.stop());

  it("[D27] goes from handshake to result with numbers from 1, fields it knows and no other, and ends a resume with a reset", async () => {
    const { engine } = house;
    const worker = await house.dial({ dialect: "first" });

    worker.say("control.handshake", greeting, asks);
    expect(await worker.next("control.ack")).toEqual({
      ...scheduler,
      type: "control.ack",
      id: expect.any(String),
      ts: expect.any(String),
      ack: { for: "control.handshake-0" },
      payload: { ok: true, for: "control.handshake-0", ack_seq: 0, ack_bitmap: 0, recv_window: 53 },
    });
    worker.say(
      "control.register",
      olderRegister({ manifests: [{ name: "demo", version: "1.0.0", manifest: { name: "demo" } }] }),
      asks,
    );
    const join = await engine.next("worker.join");
    expect(join).toMatchObject({ boot: expect.stringContaining("name-"), running: null, about: { slots: 1, dialect: "first" } });
    expect(await worker.next("control.ack")).toMatchObject({ ack: { for: "control.register-1" }, payload: { ok: true } });
    expect((await worker.next("control.session.accept")).payload).toEqual({
      session_id: join.session,
      session_token: "session-token-0",
      worker_instance_id: "w-1",
      expires_at: expect.any(String),
      resumed: false,
    });

    engine.say(dispatchTo(join.session, "r.0", 7));
    expect(await worker.next("biz.exec.dispatch")).toEqual({
      ...scheduler,
      type: "biz.exec.dispatch",
      id: "r.0#7",
      ts: expect.any(String),
      corr: "r.0",
      // This run is older than the process: its count is not known, and never below the fence.
      seq: 7,
      session_seq: 1,
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
    worker.say(
      "control.ack",
      { ok: true, for: "r.0#7", ack_seq: 1, ack_bitmap: 0, recv_window: 64 },
      { corr: "r.0", seq: 7, ack: { for: "r.0#7" } },
    );
    expect((await engine.next("task.ack")).held).toEqual([{ task: "r.0", fence: 7 }]);

    worker.work(
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
    expect(await engine.next("task.feedback")).toMatchObject({ task: "r.0", fence: null });
    const feedbackAck = await worker.next("control.ack");
    expect(feedbackAck.payload).toEqual({ ok: true, ack_seq: 1, ack_bitmap: 0, recv_window: 53 });
    expect(feedbackAck.ack).toBe(undefined);

    const done = worker.work(
      "biz.exec.result",
      {
        run_id: "r",
        task_id: "r.0",
        status: "SUCCEEDED",
        result: { output: "HI" },
        duration_ms: 3,
        metadata: { concurrency_key: "r:r.0", constraints: {} },
      },
      { corr: "r.0#7", seq: 7 },
    );
    expect(await engine.next("task.result")).toMatchObject({ task: "r.0", fence: 7, status: "succeeded", durationMs: 3 });
    expect(await worker.next("control.ack")).toMatchObject({
      ack: { for: done },
      payload: { ok: true, for: done, ack_seq: 2, ack_bitmap: 0, recv_window: 53 },
    });

    worker.socket.terminate();
    expect(await engine.next("worker.leave")).toMatchObject({ session: join.session });
    const back = await house.dial({ dialect: "first", count: 5 });
    back.say("control.resume", { session_id: join.session, session_token: "session-token-0", last_seen_seq: 1 }, asks);
    expect((await back.next("control.reset")).payload).toEqual({ code: "E.SESSION.UNKNOWN", reason: expect.any(String) });
    expect((await back.closed).code).toBe(1011);

    const again = await house.dial({ dialect: "first", count: 6 });
    again.say("control.handshake", greeting, asks);
    await again.next("control.ack");
    again.say("control.register", olderRegister(), asks);
    // Its counter has gone on: the same process, which keeps what it runs.
    expect(await engine.next("worker.join")).toMatchObject({ boot: null, running: null });
    expect((await again.next("control.session.accept")).payload).toMatchObject({ resumed: false });
  });
});
