import { describe, expect, it } from "vitest";
import {
  command,
  feedback,
  frame,
  labelsOf,
  numbersOf,
  openStream,
  type TestStream,
  takeAllFrames,
} from "./testing/stream-fixture.ts";

const offerAll = (stream: TestStream, labels: string) => [...labels].forEach((label) => stream.enqueue(command(label)));

describe("a session without a socket", () => {
  it("[N20] a stream without a socket sends nothing and resends nothing, and accepts new items", () => {
    const stream = openStream();
    offerAll(stream, "a");
    takeAllFrames(stream, 0);
    stream.pause();

    offerAll(stream, "b");

    expect(takeAllFrames(stream)).toEqual([]);
    expect(stream.canSendNow("command")).toBe(false);
    expect(stream.nextTimeoutAt).toBe(Number.POSITIVE_INFINITY);
    expect(stream.checkTimeouts(999_999, () => 0.5)).toEqual({ resend: [], verdict: "alive" });
  });
});

describe("a session on a new socket", () => {
  it("[N20] a stream on a new socket resends what the peer has not seen, in order, and continues with the next number", () => {
    const stream = openStream();
    offerAll(stream, "abcd");
    takeAllFrames(stream, 0);
    stream.handleAck({ ack_seq: 0, ack_bitmap: 0b010 }, undefined);
    stream.pause();
    offerAll(stream, "e");

    const again = stream.resume(1, 60_000);

    expect(numbersOf(again)).toEqual([3]);
    expect(takeAllFrames(stream, 60_000).map(({ number }) => number)).toEqual([4]);
    expect(stream.counts.inFlight).toBe(3);
    expect(numbersOf(stream.checkTimeouts(66_000, () => 0.5).resend)).toEqual([1, 3, 4]);
  });

  it("[N20] a stream on a new socket resends everything unacked when the peer does not report what it saw", () => {
    const stream = openStream();
    offerAll(stream, "abc");
    takeAllFrames(stream, 0);
    stream.handleAck({ ack_seq: 0 }, undefined);
    stream.pause();

    expect(numbersOf(stream.resume(null, 0))).toEqual([1, 2]);
  });

  it("[N20] a stream on a new socket gives every unacked frame all its send attempts again", () => {
    const stream = openStream();
    offerAll(stream, "a");
    takeAllFrames(stream, 0);
    while (stream.checkTimeouts(stream.nextTimeoutAt, () => 0.5).verdict === "alive");
    stream.pause();

    const [again] = stream.resume(-1, 500_000);

    expect(again).toMatchObject({ number: 0, sends: 7 });
    expect(stream.nextTimeoutAt).toBeGreaterThanOrEqual(504_000);
    expect(stream.checkTimeouts(506_000, () => 0.5)).toMatchObject({ verdict: "alive", resend: [{ number: 0, sends: 8 }] });
  });

  it("[N20] a stream on a new socket acks the state of its window again, as acks in flight were lost", () => {
    const stream = openStream();
    const [first] = stream.receive(frame(0), "a", 0).deliver;
    if (first) stream.settle(first.tag);
    stream.takeAcks();
    stream.pause();
    expect(stream.hasPendingAcks).toBe(false);

    stream.resume(-1, 0);

    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 8 }]);
    expect(stream.buildWindowAck("resume-1")).toEqual({ ok: true, for: "resume-1", ack_seq: 0, ack_bitmap: 0, recv_window: 8 });
  });

  it("[N21] a stream cannot resume when the peer saw what was never sent, or forgot what it had acked", () => {
    const stream = openStream();
    offerAll(stream, "abc");
    takeAllFrames(stream, 0);
    stream.handleAck({ ack_seq: 1 }, undefined);
    stream.pause();

    expect(stream.resume(3, 0)).toBe("unsent");
    expect(stream.resume(0, 0)).toBe("unsent");
    expect(takeAllFrames(stream)).toEqual([]);

    expect(numbersOf(stream.resume(1, 0))).toEqual([2]);
  });
});

describe("items that are taken back", () => {
  it("[N22] a withdrawn item is removed where it waits; where it is in flight its number stays and is resent without it", () => {
    const stream = openStream({ sendFrames: 2 });
    offerAll(stream, "abc");
    stream.enqueue(feedback("f"));
    const [sent] = takeAllFrames(stream, 0);
    if (sent) sent.text = "the text";

    expect(stream.withdraw(({ label }) => "acf".includes(label))).toBe(3);

    expect(stream.counts).toMatchObject({ inFlight: 2, inFlightBytes: 10, waiting: 0, waitingBytes: 0 });
    expect(stream.checkTimeouts(6_000, () => 0.5).resend).toMatchObject([
      { number: 0, items: [], text: null },
      { number: 1, items: [{ label: "b" }] },
    ]);
    expect(labelsOf(stream.handleAck({ ack_seq: 1 }, undefined))).toEqual(["b"]);
  });

  it("[N22] a withdrawn item leaves the rest of its batch in the frame, under the same number and id", () => {
    const stream = openStream({ batchMax: 8 });
    for (const label of "abc") stream.enqueue(command(label, { batch: "w" }));
    takeAllFrames(stream, 0);

    expect(stream.withdraw(({ label }) => label === "b")).toBe(1);

    expect(stream.resume(null, 0)).toMatchObject([{ number: 0, id: "batch-0", items: [{ label: "a" }, { label: "c" }] }]);
    expect(stream.counts).toMatchObject({ inFlight: 1, inFlightBytes: 20 });
    expect(stream.withdraw(() => false)).toBe(0);
  });

  it("[N22] a withdrawn item ends its frame at once in v1, which has no numbers to keep", () => {
    const stream = openStream({ sendFrames: 2 }, "v1");
    offerAll(stream, "abc");
    takeAllFrames(stream, 0);

    stream.withdraw(({ label }) => label === "a");

    expect(stream.counts).toMatchObject({ inFlight: 1, inFlightBytes: 10, waiting: 1 });
    expect(takeAllFrames(stream, 0)).toHaveLength(1);
    expect(labelsOf(stream.handleAck({ for: "id-a" }, undefined))).toEqual([]);
  });
});

describe("the end of a session", () => {
  it("[N23] a stream returns everything unacked at the end of a session: in flight by number, then commands, then feedback", () => {
    const stream = openStream({ sendFrames: 4 });
    stream.enqueue(feedback("f"));
    takeAllFrames(stream, 0);
    offerAll(stream, "abcde");
    stream.enqueue(feedback("g"));
    takeAllFrames(stream, 0);
    stream.handleAck({ ack_seq: -1, ack_bitmap: 0b10 }, undefined);
    const seen: string[] = [];
    stream.forEachUnacked(({ label }) => seen.push(label));

    const left = stream.takeUnacked();

    expect(labelsOf(left)).toEqual(["f", "b", "c", "d", "e", "g"]);
    expect(seen).toEqual(labelsOf(left));
    expect(stream.takeUnacked()).toEqual([]);
    expect(stream.counts).toMatchObject({ inFlight: 0, inFlightBytes: 0, waiting: 0, waitingBytes: 0 });
    expect(stream.nextTimeoutAt).toBe(Number.POSITIVE_INFINITY);
  });
});
