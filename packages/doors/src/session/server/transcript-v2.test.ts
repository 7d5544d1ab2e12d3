import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };

describe("the exchange of protocol 2 in the order of its description", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  it("[D26] a protocol 2 exchange runs handshake, ack, register with capabilities only, ack, accept with windows, heartbeat, numbered work and acks", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker();

    // 1, 2
    const greeting = worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    expect(await worker.nextFrame("control.ack")).toEqual({
      ...scheduler,
      type: "control.ack",
      id: "control.ack-0",
      ts: expect.any(String),
      ack: { for: greeting },
      payload: { ok: true, for: greeting, ack_seq: -1, ack_bitmap: 0, recv_window: 64 },
    });

    // 3, 4: what the worker has and runs follows in two frames of its own after the accept, the first under number 0.
    const introduction = worker.sendFrame(
      "control.register",
      {
        capabilities: { concurrency: { max_parallel: 2 } },
        runtimes: ["node"],
        features: ["fence"],
        payload_types: ["biz.exec.dispatch"],
      },
      ackRequested,
    );
    expect(await worker.nextFrame("control.ack")).toMatchObject({
      ack: { for: introduction },
      payload: { ok: true, for: introduction },
    });
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({
      boot: "w-1",
      running: null,
      about: { features: ["fence"], payloadTypes: ["biz.exec.dispatch"] },
    });

    // 5
    expect(await worker.nextFrame("control.session.accept")).toEqual({
      ...scheduler,
      type: "control.session.accept",
      id: expect.any(String),
      ts: expect.any(String),
      payload: {
        session_id: join.session,
        session_token: "session-token-0",
        worker_instance_id: "w-1",
        expires_at: expect.any(String),
        resumed: false,
        heartbeat_interval_ms: 10_000,
        lease_ms: 30_000,
        drain_mem_pct: 90,
        drain_disk_pct: 95,
        send_window: 64,
        recv_window: 64,
        features: ["fence"],
      },
    });

    worker.sendWorkFrame("biz.pkg.catalog", {
      packages: [{ name: "demo", version: "1.0.0", status: "installed", manifest: {} }],
    });
    expect((await engine.nextCommand("worker.describe")).about.packages).toHaveLength(1);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 0 });
    worker.sendWorkFrame("biz.exec.inventory", { running: [] });
    expect((await engine.nextCommand("worker.beat")).held).toEqual([]);
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 1 });

    // 6
    worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
    await engine.nextCommand("worker.beat");

    // 7
    engine.emitEffects(sampleDispatch(join.session, "r.0", 7));
    expect(await worker.nextFrame("biz.exec.dispatch")).toEqual({
      ...scheduler,
      type: "biz.exec.dispatch",
      id: "r.0#7",
      ts: expect.any(String),
      corr: "r.0",
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
        concurrency_key: "r:n-1",
        priority: 5,
        fence: 7,
        attempt: 1,
      },
    });
    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 64 });
    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task: "r.0", fence: 7 }]);
    const done = worker.sendWorkFrame(
      "biz.exec.result",
      { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { a: 1 }, fence: 7 },
      { corr: "r.0#7" },
    );
    expect(await engine.nextCommand("task.result")).toMatchObject({
      task: "r.0",
      fence: 7,
      status: "succeeded",
      result: '{"a":1}',
    });
    expect(await worker.nextFrame("control.ack")).toMatchObject({
      ack: { for: done },
      payload: { ok: true, for: done, ack_seq: 2, ack_bitmap: 0, recv_window: 64 },
    });
  });
});
