import { describe, expect, it } from "vitest";
import { payloadOf, Rig, readyRig, succeeded } from "../test/link-rig.ts";

describe("session of a worker", () => {
  it("[W1] shakes hands, registers once that is acked, and is ready once accepted", () => {
    const rig = new Rig();
    rig.link.begin();

    expect(rig.dials).toBe(1);
    rig.link.opened();
    expect(rig.types()).toEqual(["control.handshake"]);
    rig.ackNamed(rig.last("control.handshake").id);
    expect(rig.types()).toEqual(["control.handshake", "control.register"]);
    expect(rig.last("control.register").ack).toEqual({ request: true });
    rig.ackNamed(rig.last("control.register").id);
    expect(rig.link.view.phase).toBe("REGISTERED");
    rig.accept();
    expect(rig.link.view.phase).toBe("READY");
    expect(rig.last("control.handshake").ack).toEqual({ request: true });
    expect(rig.payload("control.handshake")).toEqual({
      protocol: 2,
      auth: { mode: "token", token: "t" },
      worker: { worker_name: "box", worker_instance_id: "w-1", version: "0.1.0", hostname: "host" },
    });
  });

  it("[W1] ends a handshake that stays unanswered and tries again", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.link.opened();

    rig.advance(30_000);

    expect(rig.hangUps).toHaveLength(1);
    expect(rig.link.view.phase).toBe("NEW");
    expect(rig.dials).toBe(2);
  });

  it("[W2] registers what it can do, what is installed, its boot and what it holds", () => {
    const rig = readyRig();

    const register = rig.payload("control.register");

    expect(register).toMatchObject({
      capabilities: {
        concurrency: { max_parallel: 4 },
        runtimes: ["node"],
        features: ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources", "extra"],
      },
      packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
      manifests: [{ name: "demo", version: "1.0.0", manifest: { name: "demo" } }],
      boot_id: "b1",
      running: [],
    });
    expect(register.payload_types).toContain("biz.exec.dispatch");
  });

  it("[W3] beats at the announced period and names exactly the attempts it holds", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 4_000 });
    rig.dispatch("a", { fence: 7 });
    rig.dispatch("b", { fence: 9 });
    rig.flush();

    rig.advance(4_000);
    rig.ackNamed(rig.last("control.heartbeat").id);
    expect(rig.payload("control.heartbeat")).toMatchObject({
      healthy: true,
      metrics: { inflight: 2, cpu_pct: 12 },
      held: [
        { task_id: "a", fence: 7 },
        { task_id: "b", fence: 9 },
      ],
    });
    rig.finish("a");
    rig.ackWords(0);
    rig.advance(4_000);

    expect(rig.frames("control.heartbeat")).toHaveLength(2);
    expect(rig.payload("control.heartbeat").held).toEqual([{ task_id: "b", fence: 9 }]);
  });

  it("[W3] leaves a scheduler that does not answer heartbeats", () => {
    const rig = readyRig({}, { lease_ms: 600_000 });

    rig.advance(30_000);

    expect(rig.frames("control.heartbeat")).toHaveLength(2);
    expect(rig.hangUps).toEqual([{ code: 1001, reason: "the scheduler leaves heartbeats unanswered" }]);
  });

  it("[W4] acks all dispatches of one tick with one cumulative ack, before any result of theirs", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.dispatch("c");
    rig.link.finished(rig.attempt("b"), succeeded());

    rig.flush();

    expect(rig.types().slice(2)).toEqual(["control.ack", "biz.exec.result"]);
    expect(rig.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 2, ack_bitmap: 0 });
  });

  it("[W5] holds an attempt before its dispatch is acked", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });

    rig.link.lost("gone");
    rig.advance(0);
    rig.connect();

    expect(rig.frames("control.ack")).toHaveLength(0);
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 3 }]);
  });

  it("[W6] numbers its words from 0 and says run, task and fence in each", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });
    rig.dispatch("b", { fence: 4 });
    rig.finish("a", succeeded({ text: "hi" }));
    rig.finish("b");

    expect(rig.frames("biz.exec.result").map((frame) => frame.seq)).toEqual([0, 1]);
    expect(rig.frames("biz.exec.result").map((frame) => frame.corr)).toEqual(["a", "b"]);
    expect(rig.frames("biz.exec.result")[0]?.payload).toMatchObject({
      run_id: "r",
      task_id: "a",
      fence: 3,
      result: { text: "hi" },
    });
  });

  it("[W20] ignores words it does not know and answers those that ask", () => {
    const rig = readyRig();

    rig.say("control.shiny", {}, { ack: { request: true } });
    rig.say("biz.exec.shiny", {}, { seq: 0, ack: { request: true } });
    rig.flush();

    expect(rig.link.view.phase).toBe("READY");
    expect(rig.noted("frame-ignored")).toHaveLength(2);
    const [control, work] = rig.frames("control.ack").map((frame) => frame.payload);
    expect(control).toMatchObject({ ok: false, for: "s-3" });
    expect(work).toMatchObject({ ok: false, for: "s-4", ack_seq: 0 });
  });

  it("[W20] refuses a dispatch it cannot read, so that it is not sent for ever", () => {
    const rig = readyRig();

    rig.say("biz.exec.dispatch", { run_id: "r", task_id: "a", fence: 5 }, { seq: 0 });
    rig.flush();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 5, code: "E.FRAME.INVALID" });
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 0 });
  });

  it("[W20] leaves a scheduler that sends what is no frame", () => {
    for (const text of ["{", "[]", '{"type":"control.ack"}']) {
      const rig = readyRig();

      rig.link.received(text);

      expect([text, rig.link.view.phase]).toEqual([text, "BACKOFF"]);
    }
  });

  it("[W21] acks a repeated number again and starts nothing", () => {
    const rig = readyRig();
    rig.dispatch("a", { seq: 0 });
    rig.flush();
    rig.dispatch("something-else", { seq: 0 });
    rig.flush();

    expect(rig.started).toHaveLength(1);
    expect(rig.frames("control.ack").map((frame) => frame.payload["ack_seq"])).toEqual([0, 0]);
  });

  it("[W1] will not work under another identity than its own", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.connect({ worker_instance_id: "somebody-else" });

    expect(rig.link.view.phase).toBe("BACKOFF");
  });
});

describe("draining and leaving", () => {
  it("[W10] drains on request: refuses new work, finishes the old, says so, and stays", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.say("control.drain", { reason: "maintenance" }, { ack: { request: true } });
    rig.dispatch("b", { fence: 8 });
    rig.flush();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 8, code: "E.RUNNER.CANCELLED" });
    rig.finish("a");
    expect(rig.noted("drained")).toHaveLength(0);
    rig.ackWords(1);

    expect(rig.noted("drained")).toHaveLength(1);
    expect(rig.payload("control.heartbeat")).toMatchObject({ draining: true, held: [], metrics: { inflight: 0 } });
    expect(rig.link.view.phase).toBe("DRAINING");
    expect(rig.hangUps).toEqual([]);
  });

  it("[W10] takes work again in the session after the drain", () => {
    const rig = readyRig();
    rig.say("control.drain", {});
    rig.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "the drain has ended" });
    rig.advance(0);
    rig.connect();

    rig.dispatch("a");

    expect(rig.started).toHaveLength(1);
  });

  it("[W92] takes work again when the drain is taken back, in the same session, and says so", () => {
    const rig = readyRig();
    rig.say("control.drain", {}, { ack: { request: true } });
    expect(rig.payload("control.heartbeat").draining).toBe(true);
    rig.say("control.undrain", { reason: "done" }, { ack: { request: true } });

    expect(rig.link.view.phase).toBe("READY");
    expect(rig.payload("control.heartbeat").draining).toBeUndefined();
    expect(rig.frames("control.ack").map((frame) => frame.payload)).toEqual([
      { ok: true, for: "s-3" },
      { ok: true, for: "s-4" },
    ]);
    expect(rig.noted("undrained")).toHaveLength(1);
    rig.dispatch("a");
    expect(rig.started).toHaveLength(1);
    rig.say("control.drain", {});
    rig.finish("a");
    rig.ackWords(0);
    expect(rig.noted("drained")).toHaveLength(2);
  });

  it("[W92] is welcome again after a resume, unless the drain is said again", () => {
    const rig = readyRig();
    rig.say("control.drain", {});
    rig.link.lost("gone");
    rig.advance(0);
    rig.resume(-1);
    rig.dispatch("a");
    expect(rig.started).toHaveLength(1);

    rig.say("control.drain", {});
    rig.dispatch("b");
    rig.flush();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", code: "E.RUNNER.CANCELLED" });
  });

  it("[W92] does not take back a worker that leaves of its own will", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.link.leave();

    rig.say("control.undrain", {});

    expect(rig.link.view.phase).toBe("DRAINING");
  });

  it("[W19] leaves once its goodbye is answered and all it held is finished and acked", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();

    rig.link.leave();
    expect(rig.payload("control.heartbeat")).toMatchObject({ healthy: false, draining: true });
    rig.finish("a");
    rig.ackWords(0);
    expect(rig.link.view.phase).toBe("DRAINING");
    rig.dispatch("b"); // granted before the goodbye was heard
    rig.flush();
    rig.ackNamed(rig.last("control.heartbeat").id);
    expect(rig.link.view.phase).toBe("DRAINING");
    rig.ackWords(1);

    expect(rig.link.view.phase).toBe("CLOSED");
    expect(rig.hangUps).toEqual([{ code: 1000, reason: "left" }]);
    expect(rig.started).toHaveLength(1);
  });

  it("[W19] leaves at once when it is offline and owes nothing", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.link.lost("refused");

    rig.link.leave();

    expect(rig.link.view.phase).toBe("CLOSED");
  });

  it("[W19] comes back to deliver what it owes when the connection breaks while it leaves", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();
    rig.link.leave();
    rig.link.lost("gone");
    rig.finish("a");
    rig.advance(0);
    rig.connect();

    expect(rig.link.view.phase).toBe("DRAINING");
    rig.ackNamed(rig.last("control.heartbeat").id);
    rig.ackWords(0);

    expect(rig.link.view.phase).toBe("CLOSED");
  });

  it("[W19] gives back what runs when it is stopped", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 6 });
    rig.flush();

    rig.link.stop();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 6, code: "E.RUNNER.CANCELLED" });
    expect(rig.attempt("a").stop.isStopped).toBe(true);
    expect(rig.hangUps).toEqual([{ code: 1000, reason: "stopped" }]);
    rig.advance(3_600_000);
    expect(rig.dials).toBe(1);
  });

  it("[W19] hears nothing more once it is closed", () => {
    const rig = readyRig();
    rig.link.stop();
    const sent = rig.sent.length;

    rig.link.opened();
    rig.dispatch("a");
    rig.link.lost("gone");
    rig.link.leave();
    rig.link.tick();
    rig.link.flush();

    expect(rig.sent).toHaveLength(sent);
    expect(rig.link.view.phase).toBe("CLOSED");
  });
});

describe("feedback on the wire", () => {
  it("[W23] merges what is said in one tick and sends the last words of an attempt before its result", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();
    rig.link.feedback(rig.attempt("a"), { stage: "running", progress: 0.1 });
    rig.link.feedback(rig.attempt("a"), { progress: 0.4, chunks: [{ channel: "llm", text: "H" }] });
    rig.flush();
    rig.link.feedback(rig.attempt("a"), { progress: 1, chunks: [{ text: "done" }] });
    rig.finish("a");

    const spoken = rig.sent.filter((frame) => frame.seq !== undefined);
    expect(spoken.map((frame) => frame.type)).toEqual(["biz.exec.feedback", "biz.exec.feedback", "biz.exec.result"]);
    const [first, second] = rig.frames("biz.exec.feedback").map((frame) => payloadOf("biz.exec.feedback", frame));
    expect(first).toMatchObject({ stage: "running", progress: 0.4, chunks: [{ channel: "llm", text: "H", index: 0 }] });
    expect(second).toMatchObject({ progress: 1, chunks: [{ channel: "log", text: "done", index: 1 }] });
  });

  it("[W23] says nothing about an attempt that has ended", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.finish("a");

    rig.link.feedback(rig.attempt("a"), { progress: 0.5 });
    rig.flush();

    expect(rig.frames("biz.exec.feedback")).toHaveLength(0);
  });
});

describe("what is seen of a link", () => {
  it("[W98] shows its phase, session, lease, numbers, and each attempt with its age", () => {
    const rig = new Rig({ maxParallel: 1 });
    rig.link.begin();
    expect(rig.link.inventory()).toMatchObject({ phase: "NEW", session: null, leaseLeftMs: null, attempts: [], stream: null });
    rig.connect();
    rig.dispatch("a", { fence: 7 });
    rig.advance(1_500);
    rig.dispatch("b", { fence: 8 });
    rig.finish("a");

    const attempt = { run: "r", node: "n" };
    expect(rig.link.inventory()).toEqual({
      phase: "READY",
      session: "s",
      leaseLeftMs: 25_500,
      attempts: [
        { ...attempt, task: "a", fence: 7, phase: "finished", ageMs: 1_500 },
        { ...attempt, task: "b", fence: 8, phase: "running", ageMs: 0 },
      ],
      counts: { held: 2, occupied: 1, unacked: 1, outbox: 1 },
      stream: expect.objectContaining({ inFlight: 1, waiting: 0, unsettled: 0 }) as object,
    });
  });
});
