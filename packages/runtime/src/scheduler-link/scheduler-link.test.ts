import { sampleProvenResume } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import { LinkHarness, readFramePayload, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";

describe("session of a worker", () => {
  it("[W1] a worker sends a handshake, registers once that is acked, and is ready once accepted", () => {
    const harness = new LinkHarness();
    harness.link.start();

    expect(harness.dials).toBe(1);
    harness.link.connectionOpened();
    expect(harness.types()).toEqual(["control.handshake"]);
    harness.ackById(harness.lastFrame("control.handshake").id);
    expect(harness.types()).toEqual(["control.handshake", "control.register"]);
    expect(harness.lastFrame("control.register").ack).toEqual({ request: true });
    harness.ackById(harness.lastFrame("control.register").id);
    expect(harness.link.status.phase).toBe("REGISTERED");
    harness.acceptSession();
    expect(harness.link.status.phase).toBe("READY");
    expect(harness.lastFrame("control.handshake").ack).toEqual({ request: true });
    expect(harness.payload("control.handshake")).toEqual({
      protocol: 2,
      auth: { mode: "token", token: "t" },
      worker: { worker_name: "box", worker_instance_id: "w-1", version: "0.1.0", hostname: "host" },
      session_key: sampleProvenResume.publicKey,
    });
  });

  it("[W1] a worker ends a handshake that stays unanswered and tries again", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.link.connectionOpened();

    harness.advance(30_000);

    expect(harness.closedConnections).toHaveLength(1);
    expect(harness.link.status.phase).toBe("NEW");
    expect(harness.dials).toBe(2);
  });

  it("[W2] a worker registers its capabilities, its installed packages, its boot id and the attempts it holds", () => {
    const harness = readyLinkHarness();

    const register = harness.payload("control.register");

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

  it("[W3] a worker sends heartbeats at the announced interval, each with exactly the attempts it holds", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 4_000 });
    harness.dispatch("a", { fence: 7 });
    harness.dispatch("b", { fence: 9 });
    harness.flush();

    harness.advance(4_000);
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    expect(harness.payload("control.heartbeat")).toMatchObject({
      healthy: true,
      metrics: { inflight: 2, cpu_pct: 12 },
      held: [
        { task_id: "a", fence: 7 },
        { task_id: "b", fence: 9 },
      ],
    });
    harness.finish("a");
    harness.ackUpTo(0);
    harness.advance(4_000);

    expect(harness.frames("control.heartbeat")).toHaveLength(2);
    expect(harness.payload("control.heartbeat").held).toEqual([{ task_id: "b", fence: 9 }]);
  });

  it("[W3] a worker disconnects from a scheduler that does not answer heartbeats", () => {
    const harness = readyLinkHarness({}, { lease_ms: 600_000 });

    harness.advance(30_000);

    expect(harness.frames("control.heartbeat")).toHaveLength(2);
    expect(harness.closedConnections).toEqual([{ code: 1001, reason: "the scheduler does not answer heartbeats" }]);
  });

  it("[W4] a worker acks all dispatches of one tick with one cumulative ack, before any of their results", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.dispatch("b");
    harness.dispatch("c");
    harness.link.attemptFinished(harness.attempt("b"), succeededOutcome());

    harness.flush();

    expect(harness.types().slice(2)).toEqual(["control.ack", "biz.exec.result"]);
    expect(harness.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 2, ack_bitmap: 0 });
  });

  it("[W5] a worker holds an attempt even before it has acked the dispatch", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });

    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.openSession();

    expect(harness.frames("control.ack")).toHaveLength(0);
    expect(harness.payload("control.register").running).toEqual([{ task_id: "a", fence: 3 }]);
  });

  it("[W6] a worker numbers its results from 0 and puts run, task and fence into each", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });
    harness.dispatch("b", { fence: 4 });
    harness.finish("a", succeededOutcome({ text: "hi" }));
    harness.finish("b");

    expect(harness.frames("biz.exec.result").map((frame) => frame.seq)).toEqual([0, 1]);
    expect(harness.frames("biz.exec.result").map((frame) => frame.corr)).toEqual(["a", "b"]);
    expect(harness.frames("biz.exec.result")[0]?.payload).toMatchObject({
      run_id: "r",
      task_id: "a",
      fence: 3,
      result: { text: "hi" },
    });
  });

  it("[W20] a worker ignores frames of unknown types and answers those that request an ack", () => {
    const harness = readyLinkHarness();

    harness.sendToLink("control.shiny", {}, { ack: { request: true } });
    harness.sendToLink("biz.exec.shiny", {}, { seq: 0, ack: { request: true } });
    harness.flush();

    expect(harness.link.status.phase).toBe("READY");
    expect(harness.eventsNamed("frame-ignored")).toHaveLength(2);
    const [control, work] = harness.frames("control.ack").map((frame) => frame.payload);
    expect(control).toMatchObject({ ok: false, for: "s-3" });
    expect(work).toMatchObject({ ok: false, for: "s-4", ack_seq: 0 });
  });

  it("[W20] a worker refuses a dispatch that it cannot read, so that it is not sent for ever", () => {
    const harness = readyLinkHarness();

    harness.sendToLink("biz.exec.dispatch", { run_id: "r", task_id: "a", fence: 5 }, { seq: 0 });
    harness.flush();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 5, code: "E.FRAME.INVALID" });
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 0 });
  });

  it("[W20] a worker disconnects from a scheduler that sends something that is not a frame", () => {
    for (const text of ["{", "[]", '{"type":"control.ack"}']) {
      const harness = readyLinkHarness();

      harness.link.messageReceived(text);

      expect([text, harness.link.status.phase]).toEqual([text, "BACKOFF"]);
    }
  });

  it("[W21] a worker acks a repeated frame number again and starts nothing", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { seq: 0 });
    harness.flush();
    harness.dispatch("something-else", { seq: 0 });
    harness.flush();

    expect(harness.started).toHaveLength(1);
    expect(harness.frames("control.ack").map((frame) => frame.payload["ack_seq"])).toEqual([0, 0]);
  });

  it("[W1] a worker does not work in a session that was accepted under another identity than its own", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.openSession({ worker_instance_id: "somebody-else" });

    expect(harness.link.status.phase).toBe("BACKOFF");
  });
});

describe("draining and leaving", () => {
  it("[W10] a worker drains on request: it refuses new work, finishes the old, reports that it is drained, and stays connected", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.sendToLink("control.drain", { reason: "maintenance" }, { ack: { request: true } });
    harness.dispatch("b", { fence: 8 });
    harness.flush();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 8, code: "E.RUNNER.CANCELLED" });
    harness.finish("a");
    expect(harness.eventsNamed("drained")).toHaveLength(0);
    harness.ackUpTo(1);

    expect(harness.eventsNamed("drained")).toHaveLength(1);
    expect(harness.payload("control.heartbeat")).toMatchObject({ draining: true, held: [], metrics: { inflight: 0 } });
    expect(harness.link.status.phase).toBe("DRAINING");
    expect(harness.closedConnections).toEqual([]);
  });

  it("[W10] a worker takes work again in the session after the drain", () => {
    const harness = readyLinkHarness();
    harness.sendToLink("control.drain", {});
    harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "the drain has ended" });
    harness.advance(0);
    harness.openSession();

    harness.dispatch("a");

    expect(harness.started).toHaveLength(1);
  });

  it("[W10] a worker logs the reset that ends a drain as info, and every other reset as a warning", () => {
    const levelOfReset = (isDraining: boolean, code: string) => {
      const harness = readyLinkHarness();
      if (isDraining) harness.sendToLink("control.drain", {});
      harness.sendToLink("control.reset", { code, reason: "over" });
      return harness.eventsNamed("reset").map(({ level }) => level);
    };

    expect(levelOfReset(true, "E.SESSION.UNKNOWN")).toEqual(["info"]);
    expect(levelOfReset(false, "E.SESSION.UNKNOWN")).toEqual(["warn"]);
    expect(levelOfReset(true, "E.SESSION.SUPERSEDED")).toEqual(["warn"]);
  });

  it("[W10] a worker logs a socket lost while draining as a warning", () => {
    const harness = readyLinkHarness();
    harness.sendToLink("control.drain", {});

    harness.link.connectionLost("gone");

    expect(harness.eventsNamed("lost")).toMatchObject([{ level: "warn" }]);
  });

  it("[W92] a worker takes work again in the same session when the drain is taken back, and reports it", () => {
    const harness = readyLinkHarness();
    harness.sendToLink("control.drain", {}, { ack: { request: true } });
    expect(harness.payload("control.heartbeat").draining).toBe(true);
    harness.sendToLink("control.undrain", { reason: "done" }, { ack: { request: true } });

    expect(harness.link.status.phase).toBe("READY");
    expect(harness.payload("control.heartbeat").draining).toBeUndefined();
    expect(harness.frames("control.ack").map((frame) => frame.payload)).toEqual([
      { ok: true, for: "s-3" },
      { ok: true, for: "s-4" },
    ]);
    expect(harness.eventsNamed("undrained")).toHaveLength(1);
    harness.dispatch("a");
    expect(harness.started).toHaveLength(1);
    harness.sendToLink("control.drain", {});
    harness.finish("a");
    harness.ackUpTo(0);
    expect(harness.eventsNamed("drained")).toHaveLength(2);
  });

  it("[W92] a draining worker takes work again after a resume, unless the drain is sent again", () => {
    const harness = readyLinkHarness();
    harness.sendToLink("control.drain", {});
    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.resumeSession(-1);
    harness.dispatch("a");
    expect(harness.started).toHaveLength(1);

    harness.sendToLink("control.drain", {});
    harness.dispatch("b");
    harness.flush();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "b", code: "E.RUNNER.CANCELLED" });
  });

  it("[W92] an undrain does not bring back a worker that leaves of its own accord", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.link.drainAndClose();

    harness.sendToLink("control.undrain", {});

    expect(harness.link.status.phase).toBe("DRAINING");
  });

  it("[W19] a leaving worker closes once its goodbye is answered and all it held is finished and acked", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();

    harness.link.drainAndClose();
    expect(harness.payload("control.heartbeat")).toMatchObject({ healthy: false, draining: true });
    harness.finish("a");
    harness.ackUpTo(0);
    expect(harness.link.status.phase).toBe("DRAINING");
    harness.dispatch("b"); // granted before the scheduler received the drain
    harness.flush();
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    expect(harness.link.status.phase).toBe("DRAINING");
    harness.ackUpTo(1);

    expect(harness.link.status.phase).toBe("CLOSED");
    expect(harness.closedConnections).toEqual([{ code: 1000, reason: "left" }]);
    expect(harness.started).toHaveLength(1);
  });

  it("[W19] a leaving worker closes at once when it is offline and has nothing to deliver", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.link.connectionLost("refused");

    harness.link.drainAndClose();

    expect(harness.link.status.phase).toBe("CLOSED");
  });

  it("[W19] a leaving worker reconnects when its connection breaks, to deliver what is still unacked", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();
    harness.link.drainAndClose();
    harness.link.connectionLost("gone");
    harness.finish("a");
    harness.advance(0);
    harness.openSession();

    expect(harness.link.status.phase).toBe("DRAINING");
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.ackUpTo(0);

    expect(harness.link.status.phase).toBe("CLOSED");
  });

  it("[W19] a worker that is stopped gives its running attempts back", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 6 });
    harness.flush();

    harness.link.stop();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 6, code: "E.RUNNER.CANCELLED" });
    expect(harness.attempt("a").stopSignal.isStopped).toBe(true);
    expect(harness.closedConnections).toEqual([{ code: 1000, reason: "stopped" }]);
    harness.advance(3_600_000);
    expect(harness.dials).toBe(1);
  });

  it("[W19] a closed link ignores all further events and sends nothing", () => {
    const harness = readyLinkHarness();
    harness.link.stop();
    const sent = harness.sent.length;

    harness.link.connectionOpened();
    harness.dispatch("a");
    harness.link.connectionLost("gone");
    harness.link.drainAndClose();
    harness.link.tick();
    harness.link.flush();

    expect(harness.sent).toHaveLength(sent);
    expect(harness.link.status.phase).toBe("CLOSED");
  });
});

describe("feedback on the wire", () => {
  it("[W23] a worker merges the feedback of one tick and sends the last feedback of an attempt before its result", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();
    harness.link.feedbackReceived(harness.attempt("a"), { stage: "running", progress: 0.1 });
    harness.link.feedbackReceived(harness.attempt("a"), { progress: 0.4, chunks: [{ channel: "llm", text: "H" }] });
    harness.flush();
    harness.link.feedbackReceived(harness.attempt("a"), { progress: 1, chunks: [{ text: "done" }] });
    harness.finish("a");

    const spoken = harness.sent.filter((frame) => frame.seq !== undefined);
    expect(spoken.map((frame) => frame.type)).toEqual(["biz.exec.feedback", "biz.exec.feedback", "biz.exec.result"]);
    const [first, second] = harness.frames("biz.exec.feedback").map((frame) => readFramePayload("biz.exec.feedback", frame));
    expect(first).toMatchObject({ stage: "running", progress: 0.4, chunks: [{ channel: "llm", text: "H", index: 0 }] });
    expect(second).toMatchObject({ progress: 1, chunks: [{ channel: "log", text: "done", index: 1 }] });
  });

  it("[W23] a worker sends no feedback for an attempt that has ended", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.finish("a");

    harness.link.feedbackReceived(harness.attempt("a"), { progress: 0.5 });
    harness.flush();

    expect(harness.frames("biz.exec.feedback")).toHaveLength(0);
  });
});

describe("what is seen of a link", () => {
  it("[W98] the link's inventory shows its phase, session, lease, counts, and each attempt with its age", () => {
    const harness = new LinkHarness({ maxParallel: 1 });
    harness.link.start();
    expect(harness.link.inventory()).toMatchObject({
      phase: "NEW",
      session: null,
      leaseLeftMs: null,
      attempts: [],
      stream: null,
    });
    harness.openSession();
    harness.dispatch("a", { fence: 7 });
    harness.advance(1_500);
    harness.dispatch("b", { fence: 8 });
    harness.finish("a");

    const attempt = { run: "r", node: "n" };
    expect(harness.link.inventory()).toEqual({
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
