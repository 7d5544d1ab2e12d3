import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { type FakeWorker, handshake, handshakeV1, olderRegister } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };
const run = "0199c84e-a000-7000-8000-000000000001";

let house: House;
beforeEach(async () => {
  house = await openHouse({ isAlone: true });
});
afterEach(() => house.stop());

const acked = () =>
  house.engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held.map(({ task }) => task) : []));
const handedBack = () =>
  house.engine.commands.flatMap((command) =>
    command.type === "task.error" ? [[command.task, command.fence, command.code]] : [],
  );

async function openV1(): Promise<{ worker: FakeWorker; session: string }> {
  const worker = await house.dial({ dialect: "v1" });
  worker.say("handshake", handshakeV1(), asks);
  worker.say("register", olderRegister(), asks);
  const { session } = await house.engine.next("worker.join");
  for (let n = 0; n < 2; n += 1) await worker.next("ack");
  return { worker, session };
}

describe("a dispatch that its worker does not take", () => {
  it("[D44] is no ack: it is handed back at once with what the worker said, and logged; by number the others are acked", async () => {
    const { engine, outside } = house;
    const worker = await house.worker();
    const { session } = await engine.next("worker.join");
    engine.say(...[0, 1, 2].map((n) => dispatchTo(session, `r.${n}`, 7)));
    for (let n = 0; n < 3; n += 1) await worker.next("biz.exec.dispatch");

    worker.say("control.ack", { ok: false, for: "r.1#7", info: "E.PKG.INVALID: no such package", ack_seq: 2, ack_bitmap: 0 });

    expect(await engine.next("task.error")).toEqual({
      type: "task.error",
      tenant: "default",
      worker: "default/w-1",
      session,
      task: "r.1",
      fence: 7,
      code: "E.RUNNER.CANCELLED",
      message: "the worker refused the dispatch: E.PKG.INVALID: no such package",
    });
    expect(acked()).toEqual(["r.0", "r.2"]);
    expect(outside.lines).toContainEqual(
      expect.objectContaining({
        level: "warn",
        event: "session.untaken",
        sender: { id: "w-1" },
        task: "r.1",
        fence: 7,
        code: "E.RUNNER.CANCELLED",
        reason: "E.PKG.INVALID: no such package",
      }),
    );
    // Settled as any other: it does not come again.
    outside.advance(30_000);
    await worker.settle();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(3);
  });

  it("[D44] is handed back also when an ack before covered its number, and when none has: then it is not sent again", async () => {
    const { engine, outside } = house;
    const worker = await house.worker();
    const { session } = await engine.next("worker.join");
    engine.say(...[0, 1].map((n) => dispatchTo(session, `r.${n}`, 7)));
    for (let n = 0; n < 2; n += 1) await worker.next("biz.exec.dispatch");

    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    worker.say("control.ack", { ok: false, for: "r.0#7", ack_seq: 0, ack_bitmap: 0 });
    worker.say("control.ack", { ok: false, for: "r.1#7", ack_seq: 0, ack_bitmap: 0 });
    for (let n = 0; n < 2; n += 1) await engine.next("task.error");
    outside.advance(6_000);

    expect(await worker.next("ext.vendor.astraflow.void")).toMatchObject({ seq: 1 });
    expect(handedBack()).toEqual([
      ["r.0", 7, "E.RUNNER.CANCELLED"],
      ["r.1", 7, "E.RUNNER.CANCELLED"],
    ]);
    expect(acked()).toEqual(["r.0"]);
  });

  it("[D44] in a batch is not meant by the name of the batch: those in it count by number", async () => {
    const { engine } = house;
    const worker = await house.worker({ features: ["batch", "fence"] });
    const { session } = await engine.next("worker.join");
    engine.say(...[0, 1].map((n) => dispatchTo(session, `r.${n}`, 7)));
    const { id } = await worker.next("biz.exec.dispatch.batch");

    worker.say("control.ack", { ok: false, for: id, info: "one of them is broken", ack_seq: 0, ack_bitmap: 0 });
    await engine.next("task.ack");
    await worker.settle();

    expect([acked(), handedBack()]).toEqual([["r.0", "r.1"], []]);
  });

  it("[D44] of the first generation and of protocol 1 is handed back, and keeps its place where the worker says it runs there", async () => {
    const { engine } = house;
    const first = await house.dial({ dialect: "first" });
    first.say("control.handshake", handshake({ protocol: 1 }), asks);
    first.say("control.register", olderRegister(), asks);
    await first.next("control.session.accept");
    const joined = await engine.next("worker.join");
    engine.say(dispatchTo(joined.session, "r.0", 7));
    await first.next("biz.exec.dispatch");
    const info = "E.CMD.CONCURRENCY_VIOLATION: r.0 runs here";
    first.say("control.ack", { ok: false, for: "r.0#7", info, ack_seq: 1, ack_bitmap: 0, recv_window: 64 });
    expect(await engine.next("task.error")).toMatchObject({ task: "r.0", fence: 7, code: "E.CMD.CONCURRENCY_VIOLATION" });

    const { worker, session } = await openV1();
    engine.say(dispatchTo(session, "r.1", 8));
    const { id } = await worker.next("cmd.dispatch");
    worker.say("ack", { ok: false, for: id }, { ack: { for: id } });

    expect(await engine.next("task.error")).toMatchObject({ task: "r.1", fence: 8, code: "E.RUNNER.CANCELLED" });
    expect(acked()).toEqual([]);
  });

  it("[D44] is told again in a new session when it could not be stored, and refusals without end are too much", async () => {
    const { engine } = house;
    const worker = await house.worker();
    engine.answer("task.error", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
    worker.say("control.ack", { ok: false, for: "r.0#7" });
    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.STORE.BUSY" });

    engine.hold("task.error");
    const flood = await house.worker({ instance: "w-2" });
    for (let n = 0; n < 2_000; n += 1) flood.say("control.ack", { ok: false, for: `r.${n}#7` });
    expect((await flood.next("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });
  });

  it("[D44] is not what a refused frame of another kind is", async () => {
    const worker = await house.worker();

    for (const name of ["biz.exec.cancel-3", "#7", "r.0#", "r.0#x", "r.0#-1"])
      worker.say("control.ack", { ok: false, for: name });
    worker.say("control.ack", { ok: false });
    await worker.settle();

    expect(handedBack()).toEqual([]);
  });
});

describe("a worker of protocol 1 that misses dispatches", () => {
  it("[D45] says E.RESULT.SEQ_GAP and gets all it has not acked again at once and in order; its task is not over by that", async () => {
    const { engine, outside } = house;
    const { worker, session } = await openV1();
    engine.say(...[0, 1, 2].map((n) => dispatchTo(session, `${run}.${n}`, 7 + n)));
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push((await worker.next("cmd.dispatch")).id);
    worker.say("ack", { ok: true, for: ids[1] });
    await engine.next("task.ack");

    const gap = { code: "E.RESULT.SEQ_GAP", message: "number 1 is missing" };
    for (const type of ["error", "command.error"]) {
      const id = worker.say(type, gap, { corr: `${run}.2#9`, ...asks });
      expect((await worker.next("ack")).payload).toEqual({ ok: true, for: id });
    }
    const again = [await worker.next("cmd.dispatch"), await worker.next("cmd.dispatch")];
    await worker.settle();

    expect(again.map((frame) => [frame.id, frame.seq])).toEqual([
      [ids[0], 1],
      [ids[2], 3],
    ]);
    expect(handedBack()).toEqual([]);
    // Said twice for one hole: sent again once.
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(5);
    expect(outside.lines).toContainEqual(
      expect.objectContaining({ event: "session.missing", code: "E.RESULT.SEQ_GAP", corr: `${run}.2#9` }),
    );
    expect(house.metrics.text()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 2');
  });

  it("[D45] and never stops saying so is closed after six sends of a frame, as one that never acks", async () => {
    const { engine, outside } = house;
    const { worker, session } = await openV1();
    engine.say(dispatchTo(session, `${run}.0`, 7));
    await worker.next("cmd.dispatch");

    const complain = () => worker.say("error", { code: "E.RESULT.SEQ_GAP", message: "missing" });
    for (let n = 0; n < 5; n += 1) {
      complain();
      await worker.settle();
      outside.advance(200);
    }
    complain();

    expect((await worker.next("error")).payload).toMatchObject({ code: "E.TIMEOUT" });
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(6);
    expect(handedBack()).toEqual([]);
  });
});
