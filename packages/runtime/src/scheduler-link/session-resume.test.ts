// Sessions that survive their socket, seen from the worker: what it asks, what it sends again, and when it gives a session up.
import { sampleProvenResume } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import { type LinkHarness, readyLinkHarness } from "../../test/link-harness.ts";

/** The socket breaks, and the next one is dialled at once. */
function cut(harness: LinkHarness): void {
  harness.link.connectionLost("gone");
  harness.advance(0);
}

const reset = (harness: LinkHarness, code: string, more: object = {}) =>
  harness.sendToLink("control.reset", { code, reason: "no", ...more });

describe("a session that goes on", () => {
  it("[W85] a reconnecting worker sends a resume request as its first frame, and registers nothing again", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.dispatch("b");
    harness.flush();
    harness.advance(2_000);
    cut(harness);
    const before = harness.sent.length;

    harness.resumeSession(-1);

    expect(harness.sent[before]).toMatchObject({ type: "control.resume", ack: { request: true } });
    expect(harness.payload("control.resume")).toEqual({ session_id: "s", session_token: "t", last_seen_seq: 1, boot_id: "b1" });
    expect(harness.frames("control.register")).toHaveLength(1);
    expect(harness.link.status).toMatchObject({ phase: "READY", held: 2 });
    expect(harness.eventsNamed("resumed")).toHaveLength(1);
    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
  });

  it("[W650] a worker signs each resume with the key of its handshake: the session, its newest token, a rising count and the token's age", () => {
    const harness = readyLinkHarness({}, { features: ["proof"] });
    harness.advance(2_000);
    cut(harness);

    harness.resumeSession(-1, { session_token: "newer" });
    const first = harness.payload("control.resume");
    harness.advance(3_000);
    cut(harness);
    harness.resumeSession(-1);
    const second = harness.payload("control.resume");

    expect(first).toMatchObject(sampleProvenResume.resume);
    expect(second).toMatchObject({ session_token: "newer", proof: { count: 2, age_ms: 3_000 } });
    expect(second.proof?.signature).not.toBe(first.proof?.signature);
  });

  it("[W650] a worker makes a new key for every handshake, and signs nothing for a scheduler that does not ask for it", () => {
    const harness = readyLinkHarness();
    const keys = [harness.payload("control.handshake").session_key];
    harness.keyByte = 8;
    cut(harness);
    harness.openSession();
    keys.push(harness.payload("control.handshake").session_key);

    expect(new Set(keys).size).toBe(2);
    expect(harness.payload("control.resume")).not.toHaveProperty("proof");
  });

  it("[B63] a worker that cannot execute a package command reports it as failed in a frame of its own, which is resent where it was lost", () => {
    const harness = readyLinkHarness();
    const about = { name: "extra", version: "1.0.0", command_id: "c-1" };
    harness.sendToLink("biz.pkg.install", about, { id: "c-1", seq: 0, corr: "c-1", ack: { request: true } });
    harness.flush();
    cut(harness);

    harness.resumeSession(-1);
    harness.sendToLink("biz.pkg.uninstall", { name: "extra", command_id: "c-2" }, { id: "c-2", seq: 1, ack: { request: true } });
    harness.flush();

    const reason = "this worker does not install packages; start it with --package-keys to let its scheduler bring them";
    const code = "E.CMD.UNKNOWN";
    expect(harness.frames("biz.pkg.event").map(({ seq, corr, payload }) => [seq, corr, payload])).toEqual([
      [0, "c-1", { ...about, status: "failed", details: { reason, code } }],
      [0, "c-1", { ...about, status: "failed", details: { reason, code } }],
      [
        1,
        "c-2",
        {
          name: "extra",
          version: "*",
          status: "failed",
          command_id: "c-2",
          details: { reason, code },
        },
      ],
    ]);
    expect(harness.frames("control.ack").every(({ payload }) => payload["ok"] !== false)).toBe(true);
  });

  it("[W85] a resumed session continues once it is accepted, whether or not the resume was acked before, and not by that ack alone", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.finish("a");
    cut(harness);
    harness.link.connectionOpened();
    harness.ackById(harness.lastFrame("control.resume").id);
    expect(harness.link.status.phase).toBe("HANDSHAKING");
    harness.link.connectionLost("gone");
    harness.advance(1_000);

    harness.link.connectionOpened();
    harness.sendToLink("control.session.accept", { session_id: "s", session_token: "t2", resumed: true });
    expect(harness.link.status.phase).toBe("READY");
    expect(harness.workFrames().map(({ seq }) => seq)).toEqual([0, 0]);
    harness.sendToLink("control.ack", {
      ok: true,
      for: harness.lastFrame("control.resume").id,
      ack_seq: 0,
      ack_bitmap: 0,
      recv_window: 64,
    });

    expect(harness.link.status).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W85] a resuming worker presents the newest session token, and keeps its heartbeats and its lease", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 10_000, lease_ms: 30_000 });
    harness.dispatch("a");
    harness.flush();
    harness.advance(5_000);
    cut(harness);
    harness.resumeSession(-1, { session_token: "second" });

    // The resume left at 5 s: the lease is safe until 32 s, the next beat is due at 15 s.
    harness.advance(10_000);
    expect(harness.frames("control.heartbeat")).toHaveLength(1);
    harness.link.connectionLost("gone");
    harness.advance(16_999);
    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
    harness.link.connectionOpened();
    expect(harness.payload("control.resume").session_token).toBe("second");
    harness.advance(1);

    expect(harness.attempt("a").stopSignal.isStopped).toBe(true);
  });

  it("[W86] a resumed worker resends exactly the unacked frames, byte for byte and under their numbers, then sends what waited", () => {
    const harness = readyLinkHarness();
    for (const task of ["a", "b", "c", "d"]) harness.dispatch(task);
    for (const task of ["a", "b", "c"]) harness.finish(task);
    const texts = harness.texts.filter((text) => text.includes(`"type":"biz.exec.result"`));
    harness.advance(2_000);
    harness.link.connectionLost("gone");
    harness.finish("d");
    harness.advance(0);

    harness.resumeSession(0); // "a" had been acked, and that ack was lost

    const again = harness.texts.filter((text) => text.includes(`"type":"biz.exec.result"`)).slice(3);
    expect(again.slice(0, 2)).toEqual(texts.slice(1));
    expect(harness.workFrames().map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [1, "b"],
      [2, "c"],
      [1, "b"],
      [2, "c"],
      [3, "d"],
    ]);
    expect(harness.link.status).toMatchObject({ held: 3, unacked: 3 });
  });

  it("[W86] a resumed worker executes nothing twice that the scheduler resends because an ack was lost, and acks it again", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { seq: 0 });
    harness.dispatch("b", { seq: 1 });
    harness.flush(); // this ack is lost with the socket
    cut(harness);
    const before = harness.frames("control.ack").length;
    harness.resumeSession(-1);
    expect(harness.frames("control.ack")[before]?.payload).toMatchObject({ ack_seq: 1 });

    harness.dispatch("a", { seq: 0 });
    harness.dispatch("b", { seq: 1 });
    harness.dispatch("c", { seq: 2 });
    harness.flush();

    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 2 });
  });

  it("[W86] a resumed worker processes frames in order that arrived out of order across two sockets", () => {
    const harness = readyLinkHarness();
    harness.dispatch("b", { seq: 1 });
    expect(harness.started).toEqual([]);
    cut(harness);
    harness.resumeSession(-1);
    expect(harness.payload("control.resume").last_seen_seq).toBe(-1);

    harness.dispatch("a", { seq: 0 });
    harness.dispatch("b", { seq: 1 });

    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b"]);
  });

  it("[W85] a resumed worker that was leaving continues to drain, and sends its draining heartbeat again", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();
    harness.link.drainAndClose();
    cut(harness);

    harness.resumeSession(-1);

    expect(harness.link.status.phase).toBe("DRAINING");
    expect(harness.payload("control.heartbeat")).toMatchObject({ healthy: false, draining: true });
    harness.finish("a");
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.ackUpTo(0);
    expect(harness.link.status.phase).toBe("CLOSED");
  });

  it("[W88] a worker asks to resume at the address of its session first, then at the next address, with pauses between", () => {
    const harness = readyLinkHarness();
    harness.advance(2_000);

    cut(harness);
    harness.link.connectionLost("connection refused");
    harness.advance(999);
    expect(harness.dialTargets).toEqual(["next", "same"]);
    harness.advance(1);
    expect(harness.dialTargets).toEqual(["next", "same", "next"]);
    harness.link.connectionOpened();

    expect(harness.sent.at(-1)?.type).toBe("control.resume");
  });

  it("[W88] a worker resumes at the next address first when its scheduler went silent on the socket or left heartbeats unanswered", () => {
    const onTheLine = readyLinkHarness();
    onTheLine.advance(2_000);
    onTheLine.link.connectionLost("pings stay unanswered", "next");
    onTheLine.advance(0);
    const inWords = readyLinkHarness({}, { heartbeat_interval_ms: 2_000, lease_ms: 30_000 });
    inWords.advance(6_000);

    expect(onTheLine.dialTargets).toEqual(["next", "next"]);
    expect(inWords.closedConnections).toEqual([{ code: 1001, reason: "the scheduler does not answer heartbeats" }]);
    expect(inWords.dialTargets).toEqual(["next", "next"]);
    inWords.link.connectionOpened();
    expect(inWords.sent.at(-1)?.type).toBe("control.resume");
  });
});

describe("a session that cannot go on", () => {
  it("[W87] a worker whose resume is refused registers at once at the same address, with all it holds, and loses no result", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });
    harness.dispatch("b", { fence: 4 });
    harness.finish("a");
    harness.advance(2_000);
    cut(harness);
    harness.link.connectionOpened();

    reset(harness, "E.SESSION.UNKNOWN");
    harness.advance(0);
    expect(harness.dialTargets).toEqual(["next", "same", "same"]);
    harness.openSession({ session_id: "another" });

    expect(harness.payload("control.register").running).toEqual([
      { task_id: "a", fence: 3 },
      { task_id: "b", fence: 4 },
    ]);
    expect(harness.workFrames().map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [0, "a"],
    ]);
    expect(harness.eventsNamed("reset")[0]).toMatchObject({ level: "info", details: { code: "E.SESSION.UNKNOWN" } });
    harness.dispatch("c");
    expect(harness.started.at(-1)?.task).toBe("c");
  });

  it("[W87] a worker whose resume is refused because another process has its identity pauses before it dials again", () => {
    for (const code of ["E.SESSION.SUPERSEDED", "E.SESSION.DENIED"]) {
      const harness = readyLinkHarness();
      harness.advance(2_000);
      cut(harness);
      harness.link.connectionOpened();

      reset(harness, code);
      harness.advance(4_999);
      expect([code, harness.dials]).toEqual([code, 2]);
      harness.advance(1);

      expect([code, harness.dials]).toEqual([code, 3]);
    }
  });

  it("[W87] a worker gives up a resume that is not accepted within ten seconds", () => {
    const harness = readyLinkHarness();
    harness.advance(2_000);
    cut(harness);
    harness.link.connectionOpened();
    harness.ackById(harness.lastFrame("control.resume").id);

    harness.advance(9_999);
    expect(harness.closedConnections).toEqual([]);
    harness.advance(1);
    expect(harness.closedConnections).toEqual([{ code: 1002, reason: "no answer from the scheduler while HANDSHAKING" }]);
    harness.advance(1_000);
    harness.link.connectionOpened();

    expect(harness.sent.at(-1)?.type).toBe("control.handshake");
  });

  it("[W87] a resuming worker does not accept another session as its own", () => {
    for (const part of [{ resumed: false }, { resumed: true, session_id: "another" }]) {
      const harness = readyLinkHarness();
      cut(harness);
      harness.resumeSession(-1, part);

      expect(harness.link.status.phase).toBe("BACKOFF");
      harness.advance(2_000);
      harness.link.connectionOpened();
      expect(harness.sent.at(-1)?.type).toBe("control.handshake");
    }
  });

  it("[W91] a resuming worker leaves a scheduler that has forgotten what it acked, or acks what was never sent", () => {
    for (const ackSeq of [-1, 1]) {
      const harness = readyLinkHarness();
      harness.dispatch("a");
      harness.dispatch("b");
      harness.finish("a");
      harness.ackUpTo(0);
      cut(harness);

      harness.resumeSession(ackSeq);

      expect([ackSeq, harness.link.status]).toMatchObject([ackSeq, { phase: "BACKOFF", held: 1 }]);
      harness.advance(2_000);
      harness.link.connectionOpened();
      expect(harness.sent.at(-1)?.type).toBe("control.handshake");
    }
  });

  it("[W97] a worker whose lease ended fences itself before it processes the answer to its resume, and registers what it has kept", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.dispatch("b");
    harness.finish("a");
    harness.advance(26_000);
    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.link.connectionOpened();

    harness.now += 2_000; // stopped and continued: no timer has fired yet
    harness.ackById(harness.lastFrame("control.resume").id);

    expect(harness.attempt("b").stopSignal.isStopped).toBe(true);
    expect(harness.link.status).toMatchObject({ phase: "BACKOFF", held: 1 });
    harness.advance(2_000);
    harness.openSession();
    expect(harness.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
  });

  it("[W97] a worker does not resume a session whose lease ended while it was offline, whether a timer or the new socket comes first", () => {
    for (const isTimerFirst of [true, false]) {
      const harness = readyLinkHarness();
      harness.dispatch("a");
      harness.flush();
      harness.link.connectionLost("gone");
      harness.advance(0);

      if (isTimerFirst) harness.advance(27_000);
      else harness.now += 27_000;
      harness.link.connectionOpened();

      expect([isTimerFirst, harness.sent.at(-1)?.type]).toEqual([isTimerFirst, "control.handshake"]);
      expect(harness.attempt("a").stopSignal.isStopped).toBe(true);
    }
  });

  it("[W97] a worker that slept longer than its lease starts nothing that waited for a slot", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("a");
    harness.dispatch("b");
    harness.flush();

    harness.now += 60_000;
    harness.link.handlerReturned(harness.attempt("a"));

    expect(harness.started.map(({ task }) => task)).toEqual(["a"]);
  });
});
