import { type Dialect, toWireType } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { dialectRules, fillerFrameType } from "./dialect-rules.ts";
import { command, frame, openStream, takeAllFrames } from "./testing/stream-fixture.ts";

describe("the rules of a dialect", () => {
  it("[N1] frames are numbered from 1 in the first generation and from 0 elsewhere; only v2 and basic resume and only v1 has no numbers", () => {
    for (const [dialect, first] of [
      ["v2", 0] as const,
      ["basic", 0] as const,
      ["undecided", 0] as const,
      ["first", 1] as const,
    ]) {
      const stream = openStream({}, dialect);
      stream.enqueue(command("a"));
      expect(takeAllFrames(stream).map(({ number }) => number)).toEqual([first]);
    }

    expect(Object.values(dialectRules).map(({ dialect, canResume, isNumbered }) => [dialect, canResume, isNumbered])).toEqual([
      ["v2", true, true],
      ["basic", true, true],
      ["undecided", false, true],
      ["first", false, true],
      ["v1", false, false],
    ]);
  });

  it("[N1] a window is at least 1, at most 1024 in v2, 53 in the other dialects and 1 while undecided, whatever was requested", () => {
    const inFlight = (dialect: Dialect, frames: number) => {
      const stream = openStream({ sendFrames: frames, recvFrames: frames }, dialect);
      for (let at = 0; at < 2_000; at += 1) stream.enqueue(command(`${at}`));
      return takeAllFrames(stream).length;
    };

    expect([0, 64, 5_000].map((frames) => inFlight("v2", frames))).toEqual([1, 64, 1_024]);
    expect([0, 64, 5_000].map((frames) => inFlight("first", frames))).toEqual([1, 53, 53]);
    expect([0, 64, 5_000].map((frames) => inFlight("basic", frames))).toEqual([1, 53, 53]);
    expect([0, 64, 5_000].map((frames) => inFlight("undecided", frames))).toEqual([1, 1, 1]);
    expect([0, 64, 5_000].map((frames) => inFlight("v1", frames))).toEqual([1, 53, 53]);
    expect(openStream({ recvFrames: 5_000 }).buildWindowAck(undefined).recv_window).toBe(1_024);
    expect(openStream({ recvFrames: 5_000 }, "first").buildWindowAck(undefined).recv_window).toBe(53);
  });

  it("[N3] a stream that received nothing acks the number before the first, and does not take the first frame for a repeat", () => {
    for (const [dialect, first] of [["v2", 0] as const, ["first", 1] as const]) {
      const stream = openStream({}, dialect);
      expect(stream.buildWindowAck(undefined).ack_seq).toBe(first - 1);
      expect(stream.lastSeen).toBe(first - 1);

      const arrival = stream.receive(frame(first), "a", 0);

      expect(arrival.verdict).toBe("taken");
      expect(stream.lastSeen).toBe(first);
    }
  });

  it("[N3] frame number 0 in the first generation is always a repeat", () => {
    expect(openStream({}, "first").receive(frame(0), "a", 0).verdict).toBe("repeat");
  });

  it("[N22] an empty frame has a type that exactly the dialects with frame numbers can carry", () => {
    const carriers = Object.values(dialectRules).filter(
      ({ dialect }) => toWireType(dialect, fillerFrameType) === fillerFrameType,
    );

    expect(carriers).toEqual(Object.values(dialectRules).filter(({ isNumbered }) => isNumbered));
  });
});
