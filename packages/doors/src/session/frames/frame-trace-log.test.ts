import type { LogRecord } from "@astraflow/services";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, handshakePayloadV1, olderRegisterPayload } from "../../testing/fake-worker.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";

const ackRequested = { ack: { request: true } };

describe("frames in the log", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const framesOf = (): LogRecord[] => fixture.environment.logRecords.filter(({ event }) => event.startsWith("frame."));

  it("[D46] the frame log shows a dispatch that requests an ack, that ack and the result, with tenant, sender, type, id, corr and number", async () => {
    fixture = await openDoorsFixture({ isDebug: true });
    const worker = await fixture.openSession();
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(sampleDispatch(session, "r.0", 7, { params: '{"key":"hidden"}' }));
    await worker.nextFrame("biz.exec.dispatch");
    const from = framesOf().length - 1;

    worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 }, { id: "ack-1" });
    const payload = { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { key: "hidden" }, fence: 7 };
    const result = worker.sendWorkFrame("biz.exec.result", payload, { corr: "r.0#7" });
    await worker.nextFrame("control.ack");

    const both = { level: "debug", tenant: "default", session };
    const ours = { ...both, event: "frame.out", sender: { id: "scheduler-control" }, receiver: { id: "w-1" } };
    const theirs = { ...both, event: "frame.in", sender: { id: "w-1" } };
    expect(framesOf().slice(from)).toEqual([
      { ...ours, type: "biz.exec.dispatch", id: "r.0#7", corr: "r.0", seq: 0, ack: { request: true } },
      { ...theirs, type: "control.ack", id: "ack-1", ackSeq: 0 },
      { ...theirs, type: "biz.exec.result", id: result, corr: "r.0#7", seq: 0, ack: { request: true } },
      { ...ours, type: "control.ack", id: expect.any(String), ack: { for: result }, ackSeq: 0 },
    ]);
    expect(JSON.stringify(fixture.environment.logRecords)).not.toContain("hidden");
  });

  it("[D46] the frame log begins with the first frame of a connection, contains no token, and carries the code where a frame has one", async () => {
    fixture = await openDoorsFixture({ isDebug: true });
    const stranger = await fixture.connectWorker();
    stranger.sendFrame("control.handshake", handshakePayload({ auth: { mode: "token", token: "wrong-secret" } }), ackRequested);
    await stranger.closed;
    await fixture.openSession();

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
    expect(JSON.stringify(fixture.environment.logRecords)).not.toMatch(/secret-a|wrong-secret|session-token/);
  });

  it("[D46] the frame log shows protocol 1 frames with their number within the run, and marks what a worker refuses", async () => {
    fixture = await openDoorsFixture({ isDebug: true, isAlone: true });
    const worker = await fixture.connectWorker({ dialect: "v1" });
    worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
    worker.sendFrame("register", olderRegisterPayload(), ackRequested);
    const { session } = await fixture.engine.nextCommand("worker.join");
    for (let n = 0; n < 2; n += 1) await worker.nextFrame("ack");
    fixture.engine.emitEffects(sampleDispatch(session, "0199c84e-a000-7000-8000-000000000001.0", 7));
    const { id } = await worker.nextFrame("cmd.dispatch");
    worker.sendFrame("ack", { ok: false, for: id }, { id: "ack-9", ack: { for: id } });
    await fixture.engine.nextCommand("task.error");

    expect(framesOf()).toContainEqual(expect.objectContaining({ event: "frame.out", type: "biz.exec.dispatch", id, seq: 1 }));
    expect(framesOf().at(-1)).toMatchObject({ event: "frame.in", type: "ack", id: "ack-9", ack: { for: id }, ok: false });
  });

  it("[D46] the frame log names the tasks of a batch in both directions, even where its items are malformed", async () => {
    fixture = await openDoorsFixture({ isDebug: true });
    const worker = await fixture.openSession({ features: ["batch", "fence"] });
    const { session } = await fixture.engine.nextCommand("worker.join");
    fixture.engine.emitEffects(sampleDispatch(session, "r.0", 7), sampleDispatch(session, "r.1", 8));
    await worker.nextFrame("biz.exec.dispatch.batch");
    worker.sendWorkFrame("biz.exec.result.batch", { items: [{ task_id: "r.0", fence: 7 }, { task_id: "r.1" }, null, 5] });
    worker.sendWorkFrame("biz.exec.result.batch", { items: 5 });
    for (let n = 0; n < 2; n += 1) await worker.nextFrame("control.ack");

    const batches = framesOf().filter(({ type }) => String(type).endsWith(".batch"));
    expect(batches.map(({ event, tasks }) => [event, tasks])).toEqual([
      ["frame.out", ["r.0#7", "r.1#8"]],
      ["frame.in", ["r.0#7", "r.1", "?", "?"]],
      ["frame.in", undefined],
    ]);
  });

  it("[D46] the frame log is not written when debug logging is off", async () => {
    fixture = await openDoorsFixture();

    await fixture.openSession();

    expect(framesOf()).toEqual([]);
    expect(fixture.environment.logRecords.map(({ event, sender }) => [event, sender])).toEqual([["session.open", { id: "w-1" }]]);
  });
});
