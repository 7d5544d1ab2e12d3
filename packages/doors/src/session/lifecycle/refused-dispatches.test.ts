import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { type FakeWorker, handshakePayload, handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };
const run = "0199c84e-a000-7000-8000-000000000001";

let fixture: DoorsFixture;
beforeEach(async () => {
  fixture = await openDoorsFixture({ isAlone: true });
});
afterEach(() => fixture.stop());

const acked = () =>
  fixture.engine.commands.flatMap((command) => (command.type === "task.ack" ? command.held.map(({ task }) => task) : []));
const handedBack = () =>
  fixture.engine.commands.flatMap((command) =>
    command.type === "task.error" ? [[command.task, command.fence, command.code]] : [],
  );

async function openV1(): Promise<{ worker: FakeWorker; session: string }> {
  const worker = await fixture.connectWorker({ dialect: "v1" });
  worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
  worker.sendFrame("register", olderRegisterPayload(), ackRequested);
  const { session } = await fixture.engine.nextCommand("worker.join");
  for (let n = 0; n < 2; n += 1) await worker.nextFrame("ack");
  return { worker, session };
}

describe("a dispatch that its worker does not take", () => {
  it("[D44] a refused dispatch is not acked: it is handed back at once with the worker's reason and logged; others are acked by number", async () => {
    const { engine, environment } = fixture;
    const worker = await fixture.openSession();
    const { session } = await engine.nextCommand("worker.join");
    engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    for (let n = 0; n < 3; n += 1) await worker.nextFrame("biz.exec.dispatch");

    worker.sendFrame("control.ack", {
      ok: false,
      for: "r.1#7",
      info: "E.PKG.INVALID: no such package",
      ack_seq: 2,
      ack_bitmap: 0,
    });

    expect(await engine.nextCommand("task.error")).toEqual({
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
    expect(environment.logRecords).toContainEqual(
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
    environment.advance(30_000);
    await worker.untilProcessed();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(3);
  });

  it("[D44] a refused dispatch is handed back even after an ack covered its number; where none has, it is not resent", async () => {
    const { engine, environment } = fixture;
    const worker = await fixture.openSession();
    const { session } = await engine.nextCommand("worker.join");
    engine.emitEffects(...[0, 1].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    for (let n = 0; n < 2; n += 1) await worker.nextFrame("biz.exec.dispatch");

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    worker.sendFrame("control.ack", { ok: false, for: "r.0#7", ack_seq: 0, ack_bitmap: 0 });
    worker.sendFrame("control.ack", { ok: false, for: "r.1#7", ack_seq: 0, ack_bitmap: 0 });
    for (let n = 0; n < 2; n += 1) await engine.nextCommand("task.error");
    environment.advance(6_000);

    expect(await worker.nextFrame("ext.vendor.astraflow.void")).toMatchObject({ seq: 1 });
    expect(handedBack()).toEqual([
      ["r.0", 7, "E.RUNNER.CANCELLED"],
      ["r.1", 7, "E.RUNNER.CANCELLED"],
    ]);
    expect(acked()).toEqual(["r.0"]);
  });

  it("[D44] refusing a batch by its id refuses none of its dispatches: they are acked by number", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession({ features: ["batch", "fence"] });
    const { session } = await engine.nextCommand("worker.join");
    engine.emitEffects(...[0, 1].map((n) => sampleDispatch(session, `r.${n}`, 7)));
    const { id } = await worker.nextFrame("biz.exec.dispatch.batch");

    worker.sendFrame("control.ack", { ok: false, for: id, info: "one of them is broken", ack_seq: 0, ack_bitmap: 0 });
    await engine.nextCommand("task.ack");
    await worker.untilProcessed();

    expect([acked(), handedBack()]).toEqual([["r.0", "r.1"], []]);
  });

  it("[D44] a dispatch refused by an older worker is handed back, with E.CMD.CONCURRENCY_VIOLATION where the worker reports that it runs there", async () => {
    const { engine } = fixture;
    const first = await fixture.connectWorker({ dialect: "first" });
    first.sendFrame("control.handshake", handshakePayload({ protocol: 1 }), ackRequested);
    first.sendFrame("control.register", olderRegisterPayload(), ackRequested);
    await first.nextFrame("control.session.accept");
    const joined = await engine.nextCommand("worker.join");
    engine.emitEffects(sampleDispatch(joined.session, "r.0", 7));
    await first.nextFrame("biz.exec.dispatch");
    const info = "E.CMD.CONCURRENCY_VIOLATION: r.0 runs here";
    first.sendFrame("control.ack", { ok: false, for: "r.0#7", info, ack_seq: 1, ack_bitmap: 0, recv_window: 64 });
    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.0", fence: 7, code: "E.CMD.CONCURRENCY_VIOLATION" });

    const { worker, session } = await openV1();
    engine.emitEffects(sampleDispatch(session, "r.1", 8));
    const { id } = await worker.nextFrame("cmd.dispatch");
    worker.sendFrame("ack", { ok: false, for: id }, { ack: { for: id } });

    expect(await engine.nextCommand("task.error")).toMatchObject({ task: "r.1", fence: 8, code: "E.RUNNER.CANCELLED" });
    expect(acked()).toEqual([]);
  });

  it("[D44] a refusal that could not be stored resets the session, and so does a flood of refusals", async () => {
    const { engine } = fixture;
    const worker = await fixture.openSession();
    engine.answerWith("task.error", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
    worker.sendFrame("control.ack", { ok: false, for: "r.0#7" });
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.STORE.BUSY" });

    engine.holdAnswers("task.error");
    const flood = await fixture.openSession({ instance: "w-2" });
    for (let n = 0; n < 2_000; n += 1) flood.sendFrame("control.ack", { ok: false, for: `r.${n}#7` });
    expect((await flood.nextFrame("control.reset")).payload).toMatchObject({ code: "E.OVERLOADED" });
  });

  it("[D44] an ack that refuses anything other than a dispatch hands no task back", async () => {
    const worker = await fixture.openSession();

    for (const name of ["biz.exec.cancel-3", "#7", "r.0#", "r.0#x", "r.0#-1"])
      worker.sendFrame("control.ack", { ok: false, for: name });
    worker.sendFrame("control.ack", { ok: false });
    await worker.untilProcessed();

    expect(handedBack()).toEqual([]);
  });
});

describe("a worker of protocol 1 that misses dispatches", () => {
  it("[D45] a protocol 1 worker that reports E.RESULT.SEQ_GAP gets all unacked dispatches again at once and in order; its task does not end", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await openV1();
    engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(session, `${run}.${n}`, 7 + n)));
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push((await worker.nextFrame("cmd.dispatch")).id);
    worker.sendFrame("ack", { ok: true, for: ids[1] });
    await engine.nextCommand("task.ack");

    const gap = { code: "E.RESULT.SEQ_GAP", message: "number 1 is missing" };
    for (const type of ["error", "command.error"]) {
      const id = worker.sendFrame(type, gap, { corr: `${run}.2#9`, ...ackRequested });
      expect((await worker.nextFrame("ack")).payload).toEqual({ ok: true, for: id });
    }
    const again = [await worker.nextFrame("cmd.dispatch"), await worker.nextFrame("cmd.dispatch")];
    await worker.untilProcessed();

    expect(again.map((frame) => [frame.id, frame.seq])).toEqual([
      [ids[0], 1],
      [ids[2], 3],
    ]);
    expect(handedBack()).toEqual([]);
    // Reported twice for one gap: sent again once.
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(5);
    expect(environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.missing", code: "E.RESULT.SEQ_GAP", corr: `${run}.2#9` }),
    );
    expect(fixture.metrics.render()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 2');
  });

  it("[D45] a protocol 1 worker that keeps reporting E.RESULT.SEQ_GAP is closed after six sends of a frame, like one that never acks", async () => {
    const { engine, environment } = fixture;
    const { worker, session } = await openV1();
    engine.emitEffects(sampleDispatch(session, `${run}.0`, 7));
    await worker.nextFrame("cmd.dispatch");

    const complain = () => worker.sendFrame("error", { code: "E.RESULT.SEQ_GAP", message: "missing" });
    for (let n = 0; n < 5; n += 1) {
      complain();
      await worker.untilProcessed();
      environment.advance(200);
    }
    complain();

    expect((await worker.nextFrame("error")).payload).toMatchObject({ code: "E.TIMEOUT" });
    expect(worker.frames.filter((frame) => frame.type === "cmd.dispatch")).toHaveLength(6);
    expect(handedBack()).toEqual([]);
  });
});
