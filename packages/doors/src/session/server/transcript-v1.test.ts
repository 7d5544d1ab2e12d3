import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };
/** A run id from one minute after the fixture's clock started. */
const run = "0199c84e-a000-7000-8000-000000000001";

describe("the exchange of protocol 1 in the order of its description", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture({ isAlone: true });
  });
  afterEach(() => fixture.stop());

  it("[D28] a protocol 1 exchange runs handshake, ack, register, dispatch with the run's number, ack, result, ack, heartbeat", async () => {
    const { engine } = fixture;
    const worker = await fixture.connectWorker({ dialect: "v1" });

    // 1, 2
    const greeting = worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
    expect(await worker.nextFrame("ack")).toEqual({
      ...scheduler,
      type: "ack",
      id: expect.any(String),
      ts: expect.any(String),
      ack: { for: greeting },
      payload: { ok: true, for: greeting },
    });

    // 3: nothing was asked, so nothing is acked, and there is no accept.
    worker.sendFrame("register", olderRegisterPayload());
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({ worker: "default/w-1", running: null, about: { dialect: "v1" } });

    // 4
    const task = `${run}.0`;
    engine.emitEffects(sampleDispatch(join.session, task, 7));
    expect(await worker.nextFrame("cmd.dispatch")).toEqual({
      ...scheduler,
      type: "cmd.dispatch",
      id: `${task}#7`,
      ts: expect.any(String),
      corr: task,
      seq: 1,
      ack: { request: true },
      payload: {
        run_id: run,
        task_id: task,
        node_id: "n-1",
        node_type: "demo.noop",
        package_name: "demo",
        package_version: "1.0.0",
        parameters: { text: "hi" },
        constraints: {},
        concurrency_key: `${run}:${task}`,
        priority: 5,
      },
    });

    // 5
    worker.sendFrame("ack", { for: `${task}#7` }, { ack: { for: `${task}#7` } });
    expect((await engine.nextCommand("task.ack")).held).toEqual([{ task, fence: 7 }]);

    // 6, 7
    const done = worker.sendFrame(
      "result",
      { run_id: run, task_id: task, status: "SUCCEEDED", result: { n: 1 } },
      { corr: task, seq: 1, ...ackRequested },
    );
    expect(await engine.nextCommand("task.result")).toMatchObject({ task, fence: null, status: "succeeded", result: '{"n":1}' });
    expect(await worker.nextFrame("ack")).toMatchObject({ ack: { for: done }, payload: { ok: true, for: done } });

    // 8
    worker.sendFrame("heartbeat", { healthy: true, metrics: { inflight: 0 } });
    expect(await engine.nextCommand("worker.beat")).toMatchObject({ healthy: true, held: null });
    expect(worker.frames.map((frame) => frame.type)).toEqual(["ack", "cmd.dispatch", "ack"]);
  });
});
