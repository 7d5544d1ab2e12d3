import { afterEach, describe, expect, it } from "vitest";
import type { LogLine } from "../outside.ts";
import { dispatchTo } from "../testing/effects.ts";
import { handshake, handshakeV1, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };

describe("frames in the log", () => {
  let house: House;
  afterEach(() => house.stop());
  const framesOf = (): LogLine[] => house.outside.lines.filter(({ event }) => event.startsWith("frame."));

  it("[D46] show a dispatch that asks for its ack, that ack, and the result, with tenant, sender, type, id, corr and number", async () => {
    house = await openHouse({ isDebug: true });
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");
    house.engine.say(dispatchTo(session, "r.0", 7, { params: '{"key":"hidden"}' }));
    await worker.next("biz.exec.dispatch");
    const from = framesOf().length - 1;

    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 }, { id: "ack-1" });
    const payload = { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { key: "hidden" }, fence: 7 };
    const result = worker.work("biz.exec.result", payload, { corr: "r.0#7" });
    await worker.next("control.ack");

    const both = { level: "debug", tenant: "default", session };
    const ours = { ...both, event: "frame.out", sender: { id: "scheduler-control" }, receiver: { id: "w-1" } };
    const theirs = { ...both, event: "frame.in", sender: { id: "w-1" } };
    expect(framesOf().slice(from)).toEqual([
      { ...ours, type: "biz.exec.dispatch", id: "r.0#7", corr: "r.0", seq: 0, ack: { request: true } },
      { ...theirs, type: "control.ack", id: "ack-1", ackSeq: 0 },
      { ...theirs, type: "biz.exec.result", id: result, corr: "r.0#7", seq: 0, ack: { request: true } },
      { ...ours, type: "control.ack", id: expect.any(String), ack: { for: result }, ackSeq: 0 },
    ]);
    expect(JSON.stringify(house.outside.lines)).not.toContain("hidden");
  });

  it("[D46] begin with the first frame of a connection, hold no token, and carry the code where a frame has one", async () => {
    house = await openHouse({ isDebug: true });
    const stranger = await house.dial();
    stranger.say("control.handshake", handshake({ auth: { mode: "token", token: "wrong-secret" } }), asks);
    await stranger.closed;
    await house.worker();

    const lines = framesOf().map(({ event, type, code, session }) => [event, type, code ?? null, session === null]);
    expect(lines).toEqual([
      ["frame.in", "control.handshake", null, true],
      ["frame.out", "control.reset", "E.AUTH.INVALID_TOKEN", true],
      ["frame.in", "control.handshake", null, true],
      ["frame.out", "control.ack", null, true],
      ["frame.in", "control.register", null, true],
      ["frame.out", "control.ack", null, false],
      ["frame.out", "control.session.accept", null, false],
    ]);
    expect(JSON.stringify(house.outside.lines)).not.toMatch(/secret-a|wrong-secret|session-token/);
  });

  it("[D46] of protocol 1 carry the number within the run, and what a worker refuses says so", async () => {
    house = await openHouse({ isDebug: true, isAlone: true });
    const worker = await house.dial({ dialect: "v1" });
    worker.say("handshake", handshakeV1(), asks);
    worker.say("register", olderRegister(), asks);
    const { session } = await house.engine.next("worker.join");
    for (let n = 0; n < 2; n += 1) await worker.next("ack");
    house.engine.say(dispatchTo(session, "0199c84e-a000-7000-8000-000000000001.0", 7));
    const { id } = await worker.next("cmd.dispatch");
    worker.say("ack", { ok: false, for: id }, { id: "ack-9", ack: { for: id } });
    await house.engine.next("task.error");

    expect(framesOf()).toContainEqual(expect.objectContaining({ event: "frame.out", type: "biz.exec.dispatch", id, seq: 1 }));
    expect(framesOf().at(-1)).toMatchObject({ event: "frame.in", type: "ack", id: "ack-9", ack: { for: id }, ok: false });
  });

  it("[D46] name the tasks of a batch in both directions, whatever is in it", async () => {
    house = await openHouse({ isDebug: true });
    const worker = await house.worker({ features: ["batch", "fence"] });
    const { session } = await house.engine.next("worker.join");
    house.engine.say(dispatchTo(session, "r.0", 7), dispatchTo(session, "r.1", 8));
    await worker.next("biz.exec.dispatch.batch");
    worker.work("biz.exec.result.batch", { items: [{ task_id: "r.0", fence: 7 }, { task_id: "r.1" }, null, 5] });
    worker.work("biz.exec.result.batch", { items: 5 });
    for (let n = 0; n < 2; n += 1) await worker.next("control.ack");

    const batches = framesOf().filter(({ type }) => String(type).endsWith(".batch"));
    expect(batches.map(({ event, tasks }) => [event, tasks])).toEqual([
      ["frame.out", ["r.0#7", "r.1#8"]],
      ["frame.in", ["r.0#7", "r.1", "?", "?"]],
      ["frame.in", undefined],
    ]);
  });

  it("[D46] are not written where lines at debug are not kept", async () => {
    house = await openHouse();

    await house.worker();

    expect(framesOf()).toEqual([]);
    expect(house.outside.lines.map(({ event, sender }) => [event, sender])).toEqual([["session.open", { id: "w-1" }]]);
  });
});
