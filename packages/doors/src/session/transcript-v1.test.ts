import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { handshakeV1, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };
const scheduler = { tenant: "default", sender: { role: "scheduler", id: "scheduler-control" } };
/** A run whose id says that it was born a minute after the clock of the house started. */
const run = "0199c84e-a000-7000-8000-000000000001";

describe("the exchange of protocol 1 in the order of its description", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse({ isAlone: true });
  });
  afterEach(() => house.stop());

  it("[D28] handshake, ack, register, dispatch with the run's number, ack, result, ack, heartbeat", async () => {
    const { engine } = house;
    const worker = await house.dial({ dialect: "v1" });

    // 1, 2
    const greeting = worker.say("handshake", handshakeV1(), asks);
    expect(await worker.next("ack")).toEqual({
      ...scheduler,
      type: "ack",
      id: expect.any(String),
      ts: expect.any(String),
      ack: { for: greeting },
      payload: { ok: true, for: greeting },
    });

    // 3: nothing was asked, so nothing is acked, and there is no accept.
    worker.say("register", olderRegister());
    const join = await engine.next("worker.join");
    expect(join).toMatchObject({ worker: "default/w-1", running: null, about: { dialect: "v1" } });

    // 4
    const task = `${run}.0`;
    engine.say(dispatchTo(join.session, task, 7));
    expect(await worker.next("cmd.dispatch")).toEqual({
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
    worker.say("ack", { for: `${task}#7` }, { ack: { for: `${task}#7` } });
    expect((await engine.next("task.ack")).held).toEqual([{ task, fence: 7 }]);

    // 6, 7
    const done = worker.say(
      "result",
      { run_id: run, task_id: task, status: "SUCCEEDED", result: { n: 1 } },
      { corr: task, seq: 1, ...asks },
    );
    expect(await engine.next("task.result")).toMatchObject({ task, fence: null, status: "succeeded", result: '{"n":1}' });
    expect(await worker.next("ack")).toMatchObject({ ack: { for: done }, payload: { ok: true, for: done } });

    // 8
    worker.say("heartbeat", { healthy: true, metrics: { inflight: 0 } });
    expect(await engine.next("worker.beat")).toMatchObject({ healthy: true, held: null });
    expect(worker.frames.map((frame) => frame.type)).toEqual(["ack", "cmd.dispatch", "ack"]);
  });
});
