import { describe, expect, it } from "vitest";
import { dialectRules } from "./dialect-rules.ts";
import { command, frame, labelsOf, numbersOf, openStream, takeAllFrames } from "./testing/stream-fixture.ts";

describe("a stream whose peer has not shown its dialect", () => {
  it("[N30] an undecided stream sends one numbered frame at a time, acks by id without a window, and takes an ack by its id alone", () => {
    const stream = openStream({}, "undecided");
    for (const label of ["a", "b", "c"]) stream.enqueue(command(label));

    expect(numbersOf(takeAllFrames(stream))).toEqual([0]);
    // A worker of the first generation counts by another field, so its window says 0 whatever it has received.
    expect(labelsOf(stream.handleAck({ ack_seq: 0, ack_bitmap: 0, recv_window: 64, for: "id-other" }, undefined))).toEqual([]);
    expect(labelsOf(stream.handleAck({ ack_seq: 0, ack_bitmap: 0, recv_window: 64 }, "id-a"))).toEqual(["a"]);
    expect(numbersOf(takeAllFrames(stream))).toEqual([1]);
    expect(labelsOf(stream.handleAck({ ack_seq: 0, ack_bitmap: 0, recv_window: 64 }, "id-a"))).toEqual([]);
    // A worker of the specification may ack by number alone.
    expect(labelsOf(stream.handleAck({ ack_seq: 1, ack_bitmap: 0, recv_window: 8 }, undefined))).toEqual(["b"]);

    stream.queueNamedAck("control.register-1");
    expect(stream.takeAcks()).toEqual([{ ok: true, for: "control.register-1" }]);
  });

  it("[N30] an undecided stream recognises a repeated frame without a number by its id and corr", () => {
    const stream = openStream({}, "undecided");
    const header = frame(undefined, { id: "result-1", corr: "t", isAsked: true });
    const [first] = stream.receive(header, "item", 0).deliver;
    if (first === undefined) throw new Error("not delivered");
    stream.settle(first.tag);

    expect(stream.receive(header, "item", 1)).toEqual({ verdict: "repeat", deliver: [] });
    expect(stream.takeAcks()).toEqual([{ ok: true, for: "result-1" }]);
  });

  it("[N30] a stream that becomes basic continues its numbers with a full window, and receives from 0", () => {
    const stream = openStream({}, "undecided");
    for (const label of ["a", "b", "c"]) stream.enqueue(command(label));
    takeAllFrames(stream);

    stream.changeDialect(dialectRules.basic);

    expect(numbersOf(takeAllFrames(stream))).toEqual([1, 2]);
    expect(stream.receive(frame(0), "item", 0).verdict).toBe("taken");
    expect(labelsOf(stream.handleAck({ ack_seq: 1, ack_bitmap: 0, recv_window: 64 }, undefined))).toEqual(["a", "b"]);
    expect(stream.buildWindowAck(undefined)).toMatchObject({ ack_seq: -1, recv_window: 8 });
    stream.pause();
    expect(numbersOf(stream.resume(1, 10))).toEqual([2]);
  });

  it("[N30] a stream that becomes first generation numbers from 1, and what was sent before stays without a number until it is acked by id", () => {
    const stream = openStream({}, "undecided");
    for (const label of ["a", "b", "c"]) stream.enqueue(command(label));
    takeAllFrames(stream);

    stream.changeDialect(dialectRules.first);

    expect(numbersOf(takeAllFrames(stream))).toEqual([1, 2]);
    expect(stream.receive(frame(1), "item", 0).verdict).toBe("taken");
    const { resend } = stream.checkTimeouts(6_001, () => 0.5);
    expect(resend.map(({ number, id }) => [number, id])).toEqual([
      [undefined, "id-a"],
      [1, "id-b"],
      [2, "id-c"],
    ]);
    expect(labelsOf(stream.handleAck({ ack_seq: 2, ack_bitmap: 0, recv_window: 64, for: "id-c" }, undefined))).toEqual([
      "b",
      "c",
    ]);
    expect(stream.counts.inFlight).toBe(1);
    expect(labelsOf(stream.handleAck({ ack_seq: 2, ack_bitmap: 0, recv_window: 64, for: "id-a" }, undefined))).toEqual(["a"]);
    expect(stream.counts).toMatchObject({ inFlight: 0, inFlightBytes: 0 });
  });

  it("[N30] a frame without a number that is withdrawn leaves nothing behind, as its number is not missed", () => {
    const stream = openStream({}, "undecided");
    stream.enqueue(command("a"));
    takeAllFrames(stream);
    stream.changeDialect(dialectRules.first);

    expect(stream.withdraw(({ label }) => label === "a")).toBe(1);

    expect(stream.counts.inFlight).toBe(0);
    expect(stream.checkTimeouts(60_000, () => 0.5)).toEqual({ resend: [], verdict: "alive" });
  });
});
