import { joinAnswer } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import type { FakeWorker } from "../../testing/fake-worker.ts";
import { ackRequested, createResumeFixture } from "../../testing/resume-fixture.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "./session-limits.ts";

const result = (task: string) => ({ run_id: "r", task_id: task, status: "SUCCEEDED", result: {}, fence: 7 });

const typesOf = (worker: FakeWorker) => worker.frames.map((frame) => frame.type);

describe("a session that outlives its socket", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  const { open, lose, ask } = createResumeFixture(() => fixture);

  it("[D22] a resumed session continues on a new socket: an ack with the window, an accept with a new token, then the frames the worker has not seen", async () => {
    const { engine } = fixture;
    const accepted = await open();
    accepted.worker.sendWorkFrame("biz.exec.result", result("r.9"));
    await accepted.worker.nextFrame("control.ack");
    engine.emitEffects(...[0, 1, 2].map((n) => sampleDispatch(accepted.session, `r.${n}`, 7)));
    for (let n = 0; n < 3; n += 1) await accepted.worker.nextFrame("biz.exec.dispatch");
    accepted.worker.sendFrame("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });
    await engine.nextCommand("task.ack");
    await lose(accepted);

    const { worker, id } = await ask(accepted, { last_seen_seq: 1, boot_id: "boot-1" });
    const join = await engine.nextCommand("worker.join");
    expect(join).toMatchObject({ session: accepted.session, worker: "default/w-1", boot: "boot-1", running: null });
    expect(join.resumed).toEqual({
      unacked: [
        { task: "r.1", fence: 7 },
        { task: "r.2", fence: 7 },
      ],
    });
    expect((await worker.nextFrame("control.ack")).payload).toEqual({
      ok: true,
      for: id,
      ack_seq: 0,
      ack_bitmap: 0,
      recv_window: sessionLimits.recvWindow,
    });
    expect((await worker.nextFrame("control.session.accept")).payload).toMatchObject({
      session_id: accepted.session,
      session_token: "session-token-1",
      resumed: true,
      lease_ms: 30_000,
      drain_mem_pct: 90,
      drain_disk_pct: 95,
      send_window: sessionLimits.sendWindow,
    });
    // Number 1 was seen, and its ack lost: it stays unacked and is not sent again at once.
    expect(await worker.nextFrame("biz.exec.dispatch")).toMatchObject({ seq: 2, id: "r.2#7" });

    worker.sendFrame("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });
    expect((await engine.nextCommand("task.ack")).held).toEqual([
      { task: "r.1", fence: 7 },
      { task: "r.2", fence: 7 },
    ]);
    worker.sendFrame("biz.exec.result", result("r.1"), { seq: 1, ...ackRequested });
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.9" });
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.1", session: accepted.session });
    engine.emitEffects(sampleDispatch(accepted.session, "r.3", 7));
    expect((await worker.nextFrame("biz.exec.dispatch")).seq).toBe(3);
    expect(fixture.metrics.render()).toContain('ws_session_resumed_total{tenant="default"} 1');
    expect(fixture.metrics.render()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 1');
  });

  it("[D22] a resumed session acks on the new socket what the engine answered while there was no socket, and drops its repeat", async () => {
    const { engine } = fixture;
    engine.holdAnswers("task.result");
    const accepted = await open();
    accepted.worker.sendWorkFrame("biz.exec.result", result("r.0"));
    await engine.nextCommand("task.result");
    await lose(accepted);
    engine.releaseAnswers("task.result");

    const { worker } = await ask(accepted, { last_seen_seq: -1 });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ack_seq: 0 });
    worker.sendFrame("biz.exec.result", result("r.0"), { seq: 0, ...ackRequested });
    await worker.untilProcessed();

    expect(engine.commands.filter((command) => command.type === "task.result")).toHaveLength(1);
  });

  it("[D34] a resumed session does not resend a dispatch that the engine takes back in the turn of the resume", async () => {
    const { engine } = fixture;
    const accepted = await open();
    engine.emitEffects(sampleDispatch(accepted.session, "r.0", 7), sampleDispatch(accepted.session, "r.1", 7));
    await accepted.worker.nextFrame("biz.exec.dispatch");
    await lose(accepted);
    engine.holdAnswers("worker.join");
    const { worker } = await ask(accepted, { last_seen_seq: -1 });
    await engine.nextCommand("worker.join");

    engine.releaseAnswers("worker.join");
    const stop = { run: "r", task: "r.0", fence: 7, code: "E.SESSION.STALE_BINDING", reason: "no longer yours" };
    engine.emitEffects({ type: "stop", session: accepted.session, worker: "default/w-1", tenant: "default", ...stop });
    await worker.nextFrame("biz.exec.cancel");

    expect(worker.frames.slice(2).map((frame) => [frame.type, frame.seq])).toEqual([
      ["ext.vendor.astraflow.void", 0],
      ["biz.exec.dispatch", 1],
      ["biz.exec.cancel", 2],
    ]);
  });

  it("[D22] frames that follow a resume wait for the engine's answer to it, and are processed in order after it", async () => {
    const { engine } = fixture;
    const accepted = await open();
    await lose(accepted);
    engine.holdAnswers("worker.join");

    const { worker, id } = await ask(accepted, { last_seen_seq: -1 });
    await engine.nextCommand("worker.join");
    worker.sendFrame("control.resume", { session_id: accepted.session, session_token: accepted.token }, { id, ...ackRequested });
    for (const seq of [0, 1]) worker.sendFrame("biz.exec.result", result(`r.${seq}`), { seq, ...ackRequested });
    await worker.untilProcessed();
    expect(worker.frames).toEqual([]);
    expect(engine.commands.filter((command) => command.type === "task.result")).toEqual([]);
    // Granted in the turn of the join: behind the accept, too.
    engine.emitEffects(sampleDispatch(accepted.session, "r.5", 7));
    engine.releaseAnswers("worker.join");
    await worker.nextFrame("biz.exec.dispatch");

    expect(typesOf(worker).slice(0, 2)).toEqual(["control.ack", "control.session.accept"]);
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.0" });
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.1" });
    await worker.untilProcessed();
    expect(worker.frames.filter((frame) => frame.type === "control.reset")).toEqual([]);
  });

  it("[D22] the session door stops reading a socket on which more waits for the resume's answer than a session may leave unanswered", async () => {
    await fixture.stop();
    fixture = await openDoorsFixture({ limits: { unansweredBytesMax: 100_000 } });
    const { engine } = fixture;
    const accepted = await open();
    await lose(accepted);
    engine.holdAnswers("worker.join");
    const { worker } = await ask(accepted, { last_seen_seq: -1 });
    await engine.nextCommand("worker.join");

    const big = { ...result("r.0"), result: { text: "x".repeat(60_000) } };
    for (const seq of [0, 1, 2, 3]) worker.sendFrame("biz.exec.result", big, { seq });
    const pinged = new Promise<void>((resolve) => worker.socket.once("ping", () => resolve()));
    // Only a socket that is not read is pinged this often.
    while (
      !(await Promise.race([pinged.then(() => true), new Promise<boolean>((resolve) => setImmediate(() => resolve(false)))]))
    )
      fixture.environment.advance(sessionLimits.sweepMs);
    engine.releaseAnswers("worker.join");

    for (let n = 0; n < 4; n += 1) expect(await engine.nextCommand("task.result")).toMatchObject({ session: accepted.session });
  });

  it("[D23] a resume takes its session over from a socket that still looks open: the old one is closed and ignored, and no leave is recorded", async () => {
    const { engine } = fixture;
    const accepted = await open();

    const { worker } = await ask(accepted, { last_seen_seq: -1 });
    expect(await engine.nextCommand("worker.join")).toMatchObject({ session: accepted.session, resumed: { unacked: [] } });
    accepted.worker.sendWorkFrame("biz.exec.result", result("r.0"));
    expect(await accepted.worker.closed).toEqual({ code: 1011, reason: "superseded session" });
    await worker.nextFrame("control.session.accept");
    await worker.untilProcessed();

    expect(engine.commands.map((command) => command.type)).toEqual(["worker.join", "docs.write", "worker.join"]);
    worker.sendFrame("biz.exec.result", result("r.0"), { seq: 0 });
    expect(await engine.nextCommand("task.result")).toMatchObject({ task: "r.0" });
  });

  it("[D23] of several resumes of one session that overtake each other, only the last is answered", async () => {
    const { engine } = fixture;
    const accepted = await open();
    await lose(accepted);
    engine.holdAnswers("worker.join");
    const early = await ask(accepted, { last_seen_seq: -1 });
    await engine.nextCommand("worker.join");
    const late = await ask(accepted, { last_seen_seq: -1 });
    await engine.nextCommand("worker.join");

    expect((await early.worker.closed).reason).toBe("superseded session");
    engine.releaseAnswers("worker.join");

    await late.worker.nextFrame("control.session.accept");
    await late.worker.untilProcessed();
    expect(typesOf(late.worker)).toEqual(["control.ack", "control.session.accept"]);
    expect(typesOf(early.worker)).toEqual(["control.reset"]);
  });

  it("[D23] a session can be resumed again when the new socket is lost before the engine has answered the resume", async () => {
    const { engine } = fixture;
    const accepted = await open();
    await lose(accepted);
    engine.holdAnswers("worker.join");
    const first = await ask(accepted);
    await engine.nextCommand("worker.join");
    first.worker.socket.terminate();
    await engine.nextCommand("worker.leave");
    engine.releaseAnswers("worker.join");

    const second = await ask(accepted);
    await engine.nextCommand("worker.join");
    engine.releaseAnswers("worker.join");

    expect((await second.worker.nextFrame("control.session.accept")).payload).toMatchObject({ resumed: true });
  });

  it("[D12] a worker that resumes its session while it is being drained is sent a drain frame", async () => {
    const { engine } = fixture;
    const accepted = await open();
    await lose(accepted);
    engine.answerWith("worker.join", () => ({ body: { ...joinAnswer, draining: true } as typeof joinAnswer }));

    const { worker } = await ask(accepted);

    await worker.nextFrame("control.drain");
    expect(typesOf(worker)).toEqual(["control.ack", "control.session.accept", "control.drain"]);
  });
});
