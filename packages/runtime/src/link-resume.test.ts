// Sessions that survive their socket, seen from the worker: what it asks, what it sends again, and when it gives a session up.
import { describe, expect, it } from "vitest";
import { type Rig, readyRig } from "../test/link-rig.ts";

/** The socket breaks, and the next one is dialled at once. */
function cut(rig: Rig): void {
  rig.link.lost("gone");
  rig.advance(0);
}

const reset = (rig: Rig, code: string, more: object = {}) => rig.say("control.reset", { code, reason: "no", ...more });

describe("a session that goes on", () => {
  it("[W85] asks for its session, as the first frame, and registers nothing again", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.flush();
    rig.advance(2_000);
    cut(rig);
    const before = rig.sent.length;

    rig.resume(-1);

    expect(rig.sent[before]).toMatchObject({ type: "control.resume", ack: { request: true } });
    expect(rig.payload("control.resume")).toEqual({ session_id: "s", session_token: "t", last_seen_seq: 1, boot_id: "b1" });
    expect(rig.frames("control.register")).toHaveLength(1);
    expect(rig.link.view).toMatchObject({ phase: "READY", held: 2 });
    expect(rig.noted("resumed")).toHaveLength(1);
    expect(rig.attempt("a").stop.isStopped).toBe(false);
  });

  it("[B63] says that it cannot carry out a package command by a word of its own, which is said again where it was lost", () => {
    const rig = readyRig();
    const about = { name: "extra", version: "1.0.0", command_id: "c-1" };
    rig.say("biz.pkg.install", about, { id: "c-1", seq: 0, corr: "c-1", ack: { request: true } });
    rig.flush();
    cut(rig);

    rig.resume(-1);
    rig.say("biz.pkg.uninstall", { name: "extra", command_id: "c-2" }, { id: "c-2", seq: 1, ack: { request: true } });
    rig.flush();

    const reason = "biz.pkg.install is not handled by this worker";
    expect(rig.frames("biz.pkg.event").map(({ seq, corr, payload }) => [seq, corr, payload])).toEqual([
      [0, "c-1", { ...about, status: "failed", details: { reason } }],
      [0, "c-1", { ...about, status: "failed", details: { reason } }],
      [
        1,
        "c-2",
        {
          name: "extra",
          version: "*",
          status: "failed",
          command_id: "c-2",
          details: { reason: reason.replace("install", "uninstall") },
        },
      ],
    ]);
    expect(rig.frames("control.ack").every(({ payload }) => payload["ok"] !== false)).toBe(true);
  });

  it("[W85] goes on once accepted, whether the ack of its resume came before or not, and not by that ack alone", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.finish("a");
    cut(rig);
    rig.link.opened();
    rig.ackNamed(rig.last("control.resume").id);
    expect(rig.link.view.phase).toBe("HANDSHAKING");
    rig.link.lost("gone");
    rig.advance(1_000);

    rig.link.opened();
    rig.say("control.session.accept", { session_id: "s", session_token: "t2", resumed: true });
    expect(rig.link.view.phase).toBe("READY");
    expect(rig.work().map(({ seq }) => seq)).toEqual([0, 0]);
    rig.say("control.ack", { ok: true, for: rig.last("control.resume").id, ack_seq: 0, ack_bitmap: 0, recv_window: 64 });

    expect(rig.link.view).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W85] shows the newest token, and keeps its heartbeats and its lease", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 10_000, lease_ms: 30_000 });
    rig.dispatch("a");
    rig.flush();
    rig.advance(5_000);
    cut(rig);
    rig.resume(-1, { session_token: "second" });

    // The resume left at 5 s: the lease is safe until 32 s, the next beat is due at 15 s.
    rig.advance(10_000);
    expect(rig.frames("control.heartbeat")).toHaveLength(1);
    rig.link.lost("gone");
    rig.advance(16_999);
    expect(rig.attempt("a").stop.isStopped).toBe(false);
    rig.link.opened();
    expect(rig.payload("control.resume").session_token).toBe("second");
    rig.advance(1);

    expect(rig.attempt("a").stop.isStopped).toBe(true);
  });

  it("[W86] sends again, letter for letter and under its number, exactly what was not acked, then what waited", () => {
    const rig = readyRig();
    for (const task of ["a", "b", "c", "d"]) rig.dispatch(task);
    for (const task of ["a", "b", "c"]) rig.finish(task);
    const texts = rig.texts.filter((text) => text.includes(`"type":"biz.exec.result"`));
    rig.advance(2_000);
    rig.link.lost("gone");
    rig.finish("d");
    rig.advance(0);

    rig.resume(0); // "a" had been acked, and that ack was lost

    const again = rig.texts.filter((text) => text.includes(`"type":"biz.exec.result"`)).slice(3);
    expect(again.slice(0, 2)).toEqual(texts.slice(1));
    expect(rig.work().map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [1, "b"],
      [2, "c"],
      [1, "b"],
      [2, "c"],
      [3, "d"],
    ]);
    expect(rig.link.view).toMatchObject({ held: 3, unacked: 3 });
  });

  it("[W86] does nothing twice that the scheduler sends again because an ack was lost, and says again what it has", () => {
    const rig = readyRig();
    rig.dispatch("a", { seq: 0 });
    rig.dispatch("b", { seq: 1 });
    rig.flush(); // this ack is lost with the socket
    cut(rig);
    const before = rig.frames("control.ack").length;
    rig.resume(-1);
    expect(rig.frames("control.ack")[before]?.payload).toMatchObject({ ack_seq: 1 });

    rig.dispatch("a", { seq: 0 });
    rig.dispatch("b", { seq: 1 });
    rig.dispatch("c", { seq: 2 });
    rig.flush();

    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 2 });
  });

  it("[W86] takes in order what came out of order across two sockets", () => {
    const rig = readyRig();
    rig.dispatch("b", { seq: 1 });
    expect(rig.started).toEqual([]);
    cut(rig);
    rig.resume(-1);
    expect(rig.payload("control.resume").last_seen_seq).toBe(-1);

    rig.dispatch("a", { seq: 0 });
    rig.dispatch("b", { seq: 1 });

    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b"]);
  });

  it("[W85] goes on draining while it leaves, and says goodbye again", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();
    rig.link.leave();
    cut(rig);

    rig.resume(-1);

    expect(rig.link.view.phase).toBe("DRAINING");
    expect(rig.payload("control.heartbeat")).toMatchObject({ healthy: false, draining: true });
    rig.finish("a");
    rig.ackNamed(rig.last("control.heartbeat").id);
    rig.ackWords(0);
    expect(rig.link.view.phase).toBe("CLOSED");
  });

  it("[W88] asks where its session was first, then at the next address, and takes pauses between", () => {
    const rig = readyRig();
    rig.advance(2_000);

    cut(rig);
    rig.link.lost("connection refused");
    rig.advance(999);
    expect(rig.hints).toEqual(["next", "same"]);
    rig.advance(1);
    expect(rig.hints).toEqual(["next", "same", "next"]);
    rig.link.opened();

    expect(rig.sent.at(-1)?.type).toBe("control.resume");
  });

  it("[W88] does not ask a scheduler first that fell silent on the line, or leaves heartbeats unanswered", () => {
    const onTheLine = readyRig();
    onTheLine.advance(2_000);
    onTheLine.link.lost("pings stay unanswered", "next");
    onTheLine.advance(0);
    const inWords = readyRig({}, { heartbeat_interval_ms: 2_000, lease_ms: 30_000 });
    inWords.advance(6_000);

    expect(onTheLine.hints).toEqual(["next", "next"]);
    expect(inWords.hangUps).toEqual([{ code: 1001, reason: "the scheduler leaves heartbeats unanswered" }]);
    expect(inWords.hints).toEqual(["next", "next"]);
    inWords.link.opened();
    expect(inWords.sent.at(-1)?.type).toBe("control.resume");
  });
});

describe("a session that cannot go on", () => {
  it("[W87] registers at once, and where it was refused, with all it holds, and loses no result", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });
    rig.dispatch("b", { fence: 4 });
    rig.finish("a");
    rig.advance(2_000);
    cut(rig);
    rig.link.opened();

    reset(rig, "E.SESSION.UNKNOWN");
    rig.advance(0);
    expect(rig.hints).toEqual(["next", "same", "same"]);
    rig.connect({ session_id: "another" });

    expect(rig.payload("control.register").running).toEqual([
      { task_id: "a", fence: 3 },
      { task_id: "b", fence: 4 },
    ]);
    expect(rig.work().map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [0, "a"],
    ]);
    expect(rig.noted("reset")[0]).toMatchObject({ level: "info", details: { code: "E.SESSION.UNKNOWN" } });
    rig.dispatch("c");
    expect(rig.started.at(-1)?.task).toBe("c");
  });

  it("[W87] pauses where another process has its identity", () => {
    for (const code of ["E.SESSION.SUPERSEDED", "E.SESSION.DENIED"]) {
      const rig = readyRig();
      rig.advance(2_000);
      cut(rig);
      rig.link.opened();

      reset(rig, code);
      rig.advance(4_999);
      expect([code, rig.dials]).toEqual([code, 2]);
      rig.advance(1);

      expect([code, rig.dials]).toEqual([code, 3]);
    }
  });

  it("[W87] gives a resume up that is not accepted within ten seconds", () => {
    const rig = readyRig();
    rig.advance(2_000);
    cut(rig);
    rig.link.opened();
    rig.ackNamed(rig.last("control.resume").id);

    rig.advance(9_999);
    expect(rig.hangUps).toEqual([]);
    rig.advance(1);
    expect(rig.hangUps).toEqual([{ code: 1002, reason: "no answer from the scheduler while HANDSHAKING" }]);
    rig.advance(1_000);
    rig.link.opened();

    expect(rig.sent.at(-1)?.type).toBe("control.handshake");
  });

  it("[W87] takes no other session for its own", () => {
    for (const part of [{ resumed: false }, { resumed: true, session_id: "another" }]) {
      const rig = readyRig();
      cut(rig);
      rig.resume(-1, part);

      expect(rig.link.view.phase).toBe("BACKOFF");
      rig.advance(2_000);
      rig.link.opened();
      expect(rig.sent.at(-1)?.type).toBe("control.handshake");
    }
  });

  it("[W91] parts from a scheduler that has forgotten what it acked, or acks what never was", () => {
    for (const ackSeq of [-1, 1]) {
      const rig = readyRig();
      rig.dispatch("a");
      rig.dispatch("b");
      rig.finish("a");
      rig.ackWords(0);
      cut(rig);

      rig.resume(ackSeq);

      expect([ackSeq, rig.link.view]).toMatchObject([ackSeq, { phase: "BACKOFF", held: 1 }]);
      rig.advance(2_000);
      rig.link.opened();
      expect(rig.sent.at(-1)?.type).toBe("control.handshake");
    }
  });

  it("[W97] fences itself before it hears that the session goes on, and registers what it has kept", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.finish("a");
    rig.advance(26_000);
    rig.link.lost("gone");
    rig.advance(0);
    rig.link.opened();

    rig.now += 2_000; // stopped and continued: no timer has fired yet
    rig.ackNamed(rig.last("control.resume").id);

    expect(rig.attempt("b").stop.isStopped).toBe(true);
    expect(rig.link.view).toMatchObject({ phase: "BACKOFF", held: 1 });
    rig.advance(2_000);
    rig.connect();
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
  });

  it("[W97] does not ask for a session whose lease ended while it was offline, whether a timer or the new socket comes first", () => {
    for (const isTimerFirst of [true, false]) {
      const rig = readyRig();
      rig.dispatch("a");
      rig.flush();
      rig.link.lost("gone");
      rig.advance(0);

      if (isTimerFirst) rig.advance(27_000);
      else rig.now += 27_000;
      rig.link.opened();

      expect([isTimerFirst, rig.sent.at(-1)?.type]).toEqual([isTimerFirst, "control.handshake"]);
      expect(rig.attempt("a").stop.isStopped).toBe(true);
    }
  });

  it("[W97] starts nothing that waited for a slot after a sleep longer than its lease", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("a");
    rig.dispatch("b");
    rig.flush();

    rig.now += 60_000;
    rig.link.settled(rig.attempt("a"));

    expect(rig.started.map(({ task }) => task)).toEqual(["a"]);
  });
});
