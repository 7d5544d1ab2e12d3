// Frames of work within one session: order, repeats, holes, and how much is under way.
import { describe, expect, it } from "vitest";
import { type Rig, readyRig } from "../test/link-rig.ts";

/** Answers heartbeats for so long, and nothing else. */
function beatFor(rig: Rig, ms: number): void {
  for (const until = rig.now + ms; rig.now < until; ) {
    rig.advance(Math.min(1_000, until - rig.now));
    const beat = rig.frames("control.heartbeat").at(-1);
    if (beat !== undefined) rig.ackNamed(beat.id);
  }
}

const numbers = (rig: Rig) => rig.work().map(({ seq }) => seq);

describe("frames of work in a session", () => {
  it("[W89] sends a frame again after about five seconds without an ack, the same to the letter, and not once it is acked", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.finish("a");
    rig.finish("b");
    rig.ackWords(-1, 0b10);

    rig.advance(3_999);
    expect(numbers(rig)).toEqual([0, 1]);
    rig.advance(2_001);
    expect(numbers(rig)).toEqual([0, 1, 0]);
    const texts = rig.texts.filter((text) => text.includes(`"type":"biz.exec.result"`));
    expect(texts[2]).toBe(texts[0]);
    rig.ackWords(1);
    beatFor(rig, 60_000);

    expect(numbers(rig)).toEqual([0, 1, 0]);
  });

  it("[W89] waits twice as long each time, and after six sends ends the socket and goes on with the session", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.finish("a");
    const sentAt: number[] = [0];
    while (rig.hangUps.length === 0 && rig.now < 300_000) {
      const before = rig.work().length;
      beatFor(rig, 1_000);
      if (rig.work().length > before) sentAt.push(rig.now);
    }

    // The first wait is spread by a fifth without dice; the dice of this rig stand in the middle.
    const [, first = 0] = sentAt;
    expect(first).toBeGreaterThanOrEqual(4_000);
    expect(first).toBeLessThanOrEqual(6_000);
    expect(sentAt.slice(1).map((at) => at - first)).toEqual([0, 10_000, 30_000, 60_000, 90_000]);
    expect(rig.hangUps).toEqual([{ code: 1001, reason: "the scheduler leaves frames of work unacked" }]);
    rig.resume(-1);
    expect(numbers(rig)).toEqual([0, 0, 0, 0, 0, 0, 0]);
    rig.ackWords(0);
    expect(rig.link.view).toMatchObject({ phase: "READY", held: 0, unacked: 0 });
  });

  it("[W90] holds what comes too early and takes everything in order", () => {
    const rig = readyRig();
    rig.dispatch("c", { seq: 2 });
    rig.dispatch("b", { seq: 1 });
    rig.flush();
    expect(rig.started).toEqual([]);
    expect(rig.frames("control.ack")).toEqual([]);

    rig.dispatch("a", { seq: 0 });
    rig.flush();

    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 2, ack_bitmap: 0 });
  });

  it("[W90] drops what is beyond its window without an ack", () => {
    const rig = readyRig({}, { send_window: 2 });

    rig.dispatch("c", { seq: 2 });
    rig.dispatch("a", { seq: 0 });
    rig.dispatch("b", { seq: 1 });
    rig.flush();
    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b"]);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 1, recv_window: 2 });
    rig.dispatch("c", { seq: 2 });

    expect(rig.started).toHaveLength(3);
  });

  it("[W90] ends a session in which a frame stays missing for sixteen seconds, and registers anew", () => {
    const rig = readyRig();
    rig.dispatch("a", { seq: 0 });
    rig.dispatch("c", { seq: 2 });

    beatFor(rig, 15_999);
    expect(rig.hangUps).toEqual([]);
    rig.advance(1);
    expect(rig.hangUps).toEqual([{ code: 1002, reason: "a frame of the scheduler did not come in time" }]);
    rig.connect();

    expect(rig.frames("control.resume")).toEqual([]);
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
  });

  it("[W91] parts from a scheduler that acks what was never sent, and keeps what it has to say", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.finish("a");

    rig.ackWords(7);

    expect(rig.link.view).toMatchObject({ phase: "BACKOFF", held: 1, unacked: 1 });
    rig.advance(0);
    rig.connect();
    expect(rig.frames("control.resume")).toEqual([]);
    expect(numbers(rig)).toEqual([0, 0]);
  });

  it("[W91] does not go back to a session in which the scheduler sent what cannot be read", () => {
    for (const text of ["{", JSON.stringify({ type: "control.reset", payload: {} })]) {
      const rig = readyRig();
      rig.advance(2_000);

      rig.link.received(text);
      rig.advance(0);
      rig.link.opened();

      expect([text, rig.sent.at(-1)?.type]).toEqual([text, "control.handshake"]);
    }
  });

  it("[W91] takes late and repeated acks without harm", () => {
    const rig = readyRig();
    for (const task of ["a", "b", "c"]) rig.dispatch(task);
    rig.finish("a");
    rig.finish("b");
    rig.ackWords(1);

    rig.ackWords(0);
    rig.ackWords(-1, 1);
    rig.finish("c");

    expect(numbers(rig)).toEqual([0, 1, 2]);
    expect(rig.link.view).toMatchObject({ phase: "READY", unacked: 1 });
  });

  it("[W99] gives no frame a number while 256 KiB wait in the socket, and goes on when the scheduler is heard", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.buffered = 256 * 1024;
    rig.finish("a");
    expect(numbers(rig)).toEqual([]);
    rig.advance(10_000);
    rig.buffered = 256 * 1024 - 1;

    rig.ackNamed(rig.last("control.heartbeat").id);
    rig.flush();

    expect(numbers(rig)).toEqual([0]);
  });

  it("[W93] takes the new token of an accept within the session and nothing else", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.finish("a");
    rig.say("control.session.accept", { session_id: "s", session_token: "renewed", resumed: true, recv_window: 1 });
    rig.say("control.session.accept", { session_id: "other", session_token: "not ours" });
    rig.ackWords(0);
    expect(rig.link.view).toMatchObject({ phase: "READY", unacked: 0 });
    expect(rig.noted("frame-ignored")).toHaveLength(1);

    rig.link.lost("gone");
    rig.advance(0);
    rig.link.opened();

    expect(rig.payload("control.resume")).toMatchObject({ session_token: "renewed", last_seen_seq: 0 });
  });
});
