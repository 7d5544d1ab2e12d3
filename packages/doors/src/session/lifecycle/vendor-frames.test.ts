import { type ReceivedVendorFrame, VendorFrameRelay } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const type = "ext.vendor.acme.hello";

describe("frames of vendors", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  const open = async (isTaken: boolean, limits: object = {}) => {
    const received: ReceivedVendorFrame[] = [];
    const extensions = Object.assign(new VendorFrameRelay(createFakeEnvironment()), {
      publish: (frame: ReceivedVendorFrame) => {
        received.push(frame);
        return isTaken;
      },
    });
    fixture = await openDoorsFixture({ extensions, limits });
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    const emitFrame = (id: string, payload = '{"n":1}') =>
      fixture.engine.emitEffects({
        type: "tell",
        session,
        worker: "default/w-1",
        tenant: "default",
        frame: { type, id, corr: "c-1", payload },
      });
    return { worker, session, received, emitFrame };
  };

  it("[D38] a worker's vendor frame is passed on unread with the sender its session is bound to, and is acked", async () => {
    const { worker, received } = await open(true);

    const id = worker.sendWorkFrame(type, { deep: { null: null } }, { corr: "c-9" });

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, for: id, ack_seq: 0 });
    expect(received).toEqual([
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
    expect(fixture.engine.commands.map((command) => command.type)).toEqual(["worker.join"]);
  });

  it("[D38] a vendor frame that nobody takes is refused by id without ending the session; the session door itself takes the filler", async () => {
    const { worker, received } = await open(false);

    const id = worker.sendWorkFrame(type, {});
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({
      ok: false,
      for: id,
      info: expect.stringContaining("E.CMD.UNKNOWN"),
      ack_seq: 0,
    });
    worker.sendWorkFrame("ext.vendor.astraflow.void", {});

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, ack_seq: 1 });
    // Its ack may be lost; that it comes again does not make it taken.
    worker.sendFrame(type, {}, { id, seq: 0, ack: { request: true } });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, for: id, ack_seq: 1 });
    expect(received.map((frame) => frame.id)).toEqual([id]);
  });

  it("[D38] a vendor frame for a worker is sent unchanged under a number, after waiting dispatches, and again on a new socket", async () => {
    const { worker, session, emitFrame } = await open(true, { sendWindow: 2 });
    fixture.engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 7));
    emitFrame("x-1");
    fixture.engine.emitEffects(sampleDispatch(session, "r.2", 7));
    await worker.nextFrame("biz.exec.dispatch");
    await worker.nextFrame("biz.exec.dispatch");
    worker.sendFrame("control.ack", { ok: true, ack_seq: 1, ack_bitmap: 0 });
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ seq: 2, corr: "r.2" });
    worker.sendFrame("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });
    const frame = await worker.nextFrame(type);
    expect(frame).toMatchObject({ seq: 3, id: "x-1", corr: "c-1", payload: { n: 1 }, ack: { request: true } });
    worker.socket.terminate();
    await fixture.engine.nextCommand("worker.leave");

    const back = await fixture.connectWorker();
    back.sendFrame("control.resume", { session_id: session, session_token: "session-token-0", last_seen_seq: 2 });
    expect(await back.nextFrame(type)).toMatchObject({ seq: 3, id: "x-1" });
    const acked = fixture.engine.commands.length;
    back.sendFrame("control.ack", { ok: true, ack_seq: 3, ack_bitmap: 0 });
    await back.untilProcessed();
    expect(fixture.engine.commands).toHaveLength(acked);
  });

  it("[D38] a vendor frame beyond what may wait for a worker is dropped and logged", async () => {
    const { worker, emitFrame } = await open(true, { waitingBytesMax: 10_000 });

    emitFrame("small");
    emitFrame("large", JSON.stringify({ text: "x".repeat(10_000) }));
    expect((await worker.nextFrame(type)).id).toBe("small");
    await worker.untilProcessed();

    expect(worker.frames.filter((frame) => frame.type === type)).toHaveLength(1);
    expect(fixture.environment.logRecords).toContainEqual(expect.objectContaining({ event: "session.untold", id: "large" }));
  });
});
