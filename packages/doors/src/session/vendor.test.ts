import { afterEach, describe, expect, it } from "vitest";
import type { WorkerFrame } from "../extensions.ts";
import { dispatchTo } from "../testing/effects.ts";
import { type House, openHouse } from "../testing/house.ts";

const type = "ext.vendor.acme.hello";

describe("frames of vendors", () => {
  let house: House;
  afterEach(() => house.stop());

  const open = async (isTaken: boolean, limits: object = {}) => {
    const heard: WorkerFrame[] = [];
    const extensions = {
      fromWorker: (frame: WorkerFrame) => {
        heard.push(frame);
        return isTaken;
      },
      objection: () => null,
      subscribe: () => {
        throw new Error("nobody subscribes in this test");
      },
      close: () => undefined,
    };
    house = await openHouse({ extensions, limits });
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");
    const tell = (id: string, payload = '{"n":1}') =>
      house.engine.say({
        type: "tell",
        session,
        worker: "default/w-1",
        tenant: "default",
        frame: { type, id, corr: "c-1", payload },
      });
    return { worker, session, heard, tell };
  };

  it("[D38] of a worker go unread to whoever takes them, with the sender the session is bound to, and are acked", async () => {
    const { worker, heard } = await open(true);

    const id = worker.work(type, { deep: { null: null } }, { corr: "c-9" });

    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: true, for: id, ack_seq: 0 });
    expect(heard).toEqual([
      {
        tenant: "default",
        worker: "default/w-1",
        instance: "w-1",
        type,
        id,
        corr: "c-9",
        payload: { deep: { null: null } },
      },
    ]);
    expect(house.engine.commands.map((command) => command.type)).toEqual(["worker.join"]);
  });

  it("[D38] that nobody takes are refused by name and never end the session; the filler is taken by the door itself", async () => {
    const { worker, heard } = await open(false);

    const id = worker.work(type, {});
    expect((await worker.next("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 0,
    });
    worker.work("ext.vendor.astraflow.void", {});

    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 1 });
    // Its ack may be lost; that it comes again does not make it taken.
    worker.say(type, {}, { id, seq: 0, ack: { request: true } });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, for: id, ack_seq: 1 });
    expect(heard.map((frame) => frame.id)).toEqual([id]);
  });

  it("[D38] for a worker travel under numbers as they came, behind work that waits, and again on a new socket", async () => {
    const { worker, session, tell } = await open(true, { sendWindow: 2 });
    house.engine.say(dispatchTo(session, "r.0", 7), dispatchTo(session, "r.1", 7));
    tell("x-1");
    house.engine.say(dispatchTo(session, "r.2", 7));
    await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");
    worker.say("control.ack", { ok: true, ack_seq: 1, ack_bitmap: 0 });
    expect(await worker.next("biz.exec.dispatch")).toMatchObject({ seq: 2, corr: "r.2" });
    worker.say("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });
    const frame = await worker.next(type);
    expect(frame).toMatchObject({ seq: 3, id: "x-1", corr: "c-1", payload: { n: 1 }, ack: { request: true } });
    worker.socket.terminate();
    await house.engine.next("worker.leave");

    const back = await house.dial();
    back.say("control.resume", { session_id: session, session_token: "session-token-0", last_seen_seq: 2 });
    expect(await back.next(type)).toMatchObject({ seq: 3, id: "x-1" });
    const acked = house.engine.commands.length;
    back.say("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    await back.settle();
    expect(house.engine.commands).toHaveLength(acked);
  });

  it("[D38] beyond what may wait for a worker are dropped with a line in the log", async () => {
    const { worker, tell } = await open(true, { waitingBytesMax: 10_000 });

    tell("small");
    tell("large", JSON.stringify({ text: "x".repeat(10_000) }));
    expect((await worker.next(type)).id).toBe("small");
    await worker.settle();

    expect(worker.frames.filter((frame) => frame.type === type)).toHaveLength(1);
    expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.untold", id: "large" }));
  });
});
