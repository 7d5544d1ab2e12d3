// Frames of work within one session: order, repeats, holes, and how much is under way.
import { describe, expect, it } from "vitest";
import { type LinkHarness, readyLinkHarness } from "../../test/link-harness.ts";

/** Answers heartbeats for so long, and nothing else. */
function beatFor(harness: LinkHarness, ms: number): void {
  for (const until = harness.now + ms; harness.now < until; ) {
    harness.advance(Math.min(1_000, until - harness.now));
    const beat = harness.frames("control.heartbeat").at(-1);
    if (beat !== undefined) harness.ackById(beat.id);
  }
}

const numbers = (harness: LinkHarness) => harness.workFrames().map(({ seq }) => seq);

describe("frames of work in a session", () => {
  it("[W89] the worker resends an unacked frame after about five seconds, byte for byte the same, and not once it is acked", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.dispatch("b");
    harness.finish("a");
    harness.finish("b");
    harness.ackUpTo(-1, 0b10);

    harness.advance(3_999);
    expect(numbers(harness)).toEqual([0, 1]);
    harness.advance(2_001);
    expect(numbers(harness)).toEqual([0, 1, 0]);
    const texts = harness.texts.filter((text) => text.includes(`"type":"biz.exec.result"`));
    expect(texts[2]).toBe(texts[0]);
    harness.ackUpTo(1);
    beatFor(harness, 60_000);

    expect(numbers(harness)).toEqual([0, 1, 0]);
  });

  it("[W89] the worker doubles the wait before each resend up to 30 seconds, and after six sends closes the socket and resumes the session", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.finish("a");
    const sentAt: number[] = [0];
    while (harness.closedConnections.length === 0 && harness.now < 300_000) {
      const before = harness.workFrames().length;
      beatFor(harness, 1_000);
      if (harness.workFrames().length > before) sentAt.push(harness.now);
    }

    // The first wait is spread by a fifth without dice; the dice of this rig stand in the middle.
    const [, first = 0] = sentAt;
    expect(first).toBeGreaterThanOrEqual(4_000);
    expect(first).toBeLessThanOrEqual(6_000);
    expect(sentAt.slice(1).map((at) => at - first)).toEqual([0, 10_000, 30_000, 60_000, 90_000]);
    expect(harness.closedConnections).toEqual([{ code: 1001, reason: "the scheduler does not acknowledge work frames" }]);
    harness.resumeSession(-1);
    expect(numbers(harness)).toEqual([0, 0, 0, 0, 0, 0, 0]);
    harness.ackUpTo(0);
    expect(harness.link.status).toMatchObject({ phase: "READY", held: 0, unacked: 0 });
  });

  it("[W90] the worker holds frames that arrive too early and processes all frames in order", () => {
    const harness = readyLinkHarness();
    harness.dispatch("c", { seq: 2 });
    harness.dispatch("b", { seq: 1 });
    harness.flush();
    expect(harness.started).toEqual([]);
    expect(harness.frames("control.ack")).toEqual([]);

    harness.dispatch("a", { seq: 0 });
    harness.flush();

    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 2, ack_bitmap: 0 });
  });

  it("[W90] the worker drops frames beyond its window without an ack", () => {
    const harness = readyLinkHarness({}, { send_window: 2 });

    harness.dispatch("c", { seq: 2 });
    harness.dispatch("a", { seq: 0 });
    harness.dispatch("b", { seq: 1 });
    harness.flush();
    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b"]);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 1, recv_window: 2 });
    harness.dispatch("c", { seq: 2 });

    expect(harness.started).toHaveLength(3);
  });

  it("[W90] the worker ends a session in which a frame stays missing for sixteen seconds, and registers anew", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { seq: 0 });
    harness.dispatch("c", { seq: 2 });

    beatFor(harness, 15_999);
    expect(harness.closedConnections).toEqual([]);
    harness.advance(1);
    expect(harness.closedConnections).toEqual([{ code: 1002, reason: "a frame of the scheduler did not come in time" }]);
    harness.openSession();

    expect(harness.frames("control.resume")).toEqual([]);
    expect(harness.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
  });

  it("[W91] the worker leaves a scheduler that acks what was never sent, and keeps its unacked results", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.finish("a");

    harness.ackUpTo(7);

    expect(harness.link.status).toMatchObject({ phase: "BACKOFF", held: 1, unacked: 1 });
    harness.advance(0);
    harness.openSession();
    expect(harness.frames("control.resume")).toEqual([]);
    expect(numbers(harness)).toEqual([0, 0]);
  });

  it("[W91] the worker does not resume a session in which the scheduler sent an unreadable frame", () => {
    for (const text of ["{", JSON.stringify({ type: "control.reset", payload: {} })]) {
      const harness = readyLinkHarness();
      harness.advance(2_000);

      harness.link.messageReceived(text);
      harness.advance(0);
      harness.link.connectionOpened();

      expect([text, harness.sent.at(-1)?.type]).toEqual([text, "control.handshake"]);
    }
  });

  it("[W91] the worker accepts late and repeated acks without harm", () => {
    const harness = readyLinkHarness();
    for (const task of ["a", "b", "c"]) harness.dispatch(task);
    harness.finish("a");
    harness.finish("b");
    harness.ackUpTo(1);

    harness.ackUpTo(0);
    harness.ackUpTo(-1, 1);
    harness.finish("c");

    expect(numbers(harness)).toEqual([0, 1, 2]);
    expect(harness.link.status).toMatchObject({ phase: "READY", unacked: 1 });
  });

  it("[W99] the worker numbers no frame while 256 KiB wait in the socket, and continues when a frame from the scheduler arrives", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.bufferedBytes = 256 * 1024;
    harness.finish("a");
    expect(numbers(harness)).toEqual([]);
    harness.advance(10_000);
    harness.bufferedBytes = 256 * 1024 - 1;

    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.flush();

    expect(numbers(harness)).toEqual([0]);
  });

  it("[W93] the worker takes the new token of an accept within the session and nothing else", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.finish("a");
    harness.sendToLink("control.session.accept", { session_id: "s", session_token: "renewed", resumed: true, recv_window: 1 });
    harness.sendToLink("control.session.accept", { session_id: "other", session_token: "not ours" });
    harness.ackUpTo(0);
    expect(harness.link.status).toMatchObject({ phase: "READY", unacked: 0 });
    expect(harness.eventsNamed("frame-ignored")).toHaveLength(1);

    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.link.connectionOpened();

    expect(harness.payload("control.resume")).toMatchObject({ session_token: "renewed", last_seen_seq: 0 });
  });
});
