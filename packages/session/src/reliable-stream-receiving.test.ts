import { describe, expect, it } from "vitest";
import { frame, openStream, type TestStream } from "./testing/stream-fixture.ts";

const arrive = (stream: TestStream, number: number, overrides: Parameters<typeof frame>[1] = {}) => {
  const { verdict, deliver } = stream.receive(frame(number, overrides), `item ${number}`, 0);
  return { verdict, deliver, numbers: deliver.map(({ tag }) => tag.number) };
};
const windowOf = (stream: TestStream) => {
  const { ack_seq, ack_bitmap } = stream.buildWindowAck(undefined);
  return [ack_seq, ack_bitmap];
};

describe("frames of the peer", () => {
  it("[N4] received frames are handed up in the order of their numbers, each once", () => {
    const stream = openStream();

    expect(arrive(stream, 2)).toMatchObject({ verdict: "held", numbers: [] });
    expect(arrive(stream, 1)).toMatchObject({ verdict: "held", numbers: [] });
    expect(arrive(stream, 4)).toMatchObject({ verdict: "held", numbers: [] });
    expect(arrive(stream, 0)).toMatchObject({ verdict: "taken", numbers: [0, 1, 2] });
    expect(arrive(stream, 3)).toMatchObject({ verdict: "taken", numbers: [3, 4] });
    expect(stream.counts).toMatchObject({ buffered: 0, bufferedBytes: 0, unsettled: 5 });
  });

  it("[N4] frames that arrive early are held up to the window's bytes; the next in order is taken whatever its size", () => {
    const stream = openStream({ recvBytes: 100 });

    expect(arrive(stream, 1, { bytes: 60 }).verdict).toBe("held");
    expect(arrive(stream, 2, { bytes: 60 }).verdict).toBe("outside");
    expect(arrive(stream, 3, { bytes: 40 }).verdict).toBe("held");
    expect(stream.counts).toMatchObject({ buffered: 2, bufferedBytes: 100 });
    expect(arrive(stream, 0, { bytes: 10_000 }).numbers).toEqual([0, 1]);
    expect(stream.counts).toMatchObject({ buffered: 1, bufferedBytes: 40 });
  });

  it("[N4] an early frame larger than the receive buffer is held while it is the only one", () => {
    const stream = openStream({ recvBytes: 100 });

    expect(arrive(stream, 1, { bytes: 500 }).verdict).toBe("held");
    expect(arrive(stream, 2, { bytes: 1 }).verdict).toBe("outside");
  });

  it("[N5] a received frame that arrives again has no effect and is acked again", () => {
    const stream = openStream();
    const [first] = arrive(stream, 0).deliver;
    if (first) stream.settle(first.tag);
    expect(stream.takeAcks()).toHaveLength(1);
    expect(stream.hasPendingAcks).toBe(false);

    expect(arrive(stream, 0)).toMatchObject({ verdict: "repeat", numbers: [] });

    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 8 }]);
  });

  it("[N5] a received frame that arrives again before it is settled is acked neither by id nor by number", () => {
    const stream = openStream();
    const [first] = arrive(stream, 0, { isAsked: true }).deliver;
    arrive(stream, 0, { isAsked: true });
    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: -1, ack_bitmap: 0, recv_window: 8 }]);
    arrive(stream, 2, { isAsked: true });
    expect(stream.hasPendingAcks).toBe(false);

    expect(arrive(stream, 2, { isAsked: true }).verdict).toBe("repeat");

    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: -1, ack_bitmap: 0, recv_window: 8 }]);
    if (first) stream.settle(first.tag);
    arrive(stream, 0, { isAsked: true });
    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 8 }]);
    arrive(stream, 0, { isAsked: true });
    expect(stream.takeAcks()).toEqual([{ ok: true, for: "in-0", ack_seq: 0, ack_bitmap: 0, recv_window: 8 }]);
  });

  it("[N6] frames beyond the receive window are dropped and not acked; the window begins after what is settled, not what was handed up", () => {
    const stream = openStream({ recvFrames: 2 });
    expect(arrive(stream, 2).verdict).toBe("outside");
    const [first] = arrive(stream, 0).deliver;
    arrive(stream, 1);
    expect(arrive(stream, 2).verdict).toBe("outside");
    expect(stream.hasPendingAcks).toBe(false);

    if (first) stream.settle(first.tag);

    expect(arrive(stream, 2).verdict).toBe("taken");
    expect(arrive(stream, 3).verdict).toBe("outside");
    expect(arrive(stream, Number.MAX_SAFE_INTEGER).verdict).toBe("outside");
  });

  it("[N7] received frames are settled in any order: acks hold the contiguous part and a bitmap of the rest, never what is only held", () => {
    const stream = openStream();
    const tickets = [0, 1, 2].flatMap((number) => arrive(stream, number).deliver.map(({ tag }) => tag));
    arrive(stream, 4);
    const settle = (number: number) => tickets.filter((tag) => tag.number === number).forEach((tag) => stream.settle(tag));

    expect(windowOf(stream)).toEqual([-1, 0]);
    settle(2);
    expect(windowOf(stream)).toEqual([-1, 0b100]);
    settle(0);
    expect(windowOf(stream)).toEqual([0, 0b10]);
    settle(0);
    expect(windowOf(stream)).toEqual([0, 0b10]);
    settle(1);
    expect(windowOf(stream)).toEqual([2, 0]);
    expect(stream.counts).toMatchObject({ unsettled: 0, buffered: 1 });
  });

  it("[N7] a received frame cannot be settled before it was handed up", () => {
    const stream = openStream();
    arrive(stream, 1);

    expect(() => stream.settle({ number: 1, id: "in-1", isAsked: false, bytes: 10 })).toThrow("before it was delivered");
  });

  it("[N10] a received frame without a number is handed up at once and acked by id once settled, if it requested an ack", () => {
    const stream = openStream();
    arrive(stream, 1);
    const [asked] = stream.receive(frame(undefined, { id: "a", isAsked: true }), "a", 0).deliver;
    const [silent] = stream.receive(frame(undefined, { id: "b" }), "b", 0).deliver;
    expect(stream.hasPendingAcks).toBe(false);
    expect(stream.counts.unsettled).toBe(2);

    for (const one of [asked, silent]) if (one) stream.settle(one.tag);

    expect(stream.takeAcks()).toEqual([{ ok: true, for: "a", ack_seq: -1, ack_bitmap: 0, recv_window: 8 }]);
    expect(stream.counts.unsettled).toBe(0);
  });

  it("[N19] a gap in the received numbers is given up after 16 seconds, counted for each gap and only while there is a socket", () => {
    const stream = openStream();
    const verdictAt = (now: number) => stream.checkTimeouts(now, () => 0.5).verdict;
    stream.receive(frame(1), "1", 1_000);
    stream.receive(frame(3), "3", 9_000);
    expect(stream.nextTimeoutAt).toBe(17_000);
    expect([16_999, 17_000].map(verdictAt)).toEqual(["alive", "gap"]);

    stream.receive(frame(0), "0", 17_000);
    expect([32_999, 33_000].map(verdictAt)).toEqual(["alive", "gap"]);

    stream.pause();
    expect(stream.nextTimeoutAt).toBe(Number.POSITIVE_INFINITY);
    expect(verdictAt(99_000)).toBe("alive");
    expect(stream.receive(frame(4), "4", 99_000).verdict).toBe("held");
    stream.resume(null, 100_000);
    expect([115_999, 116_000].map(verdictAt)).toEqual(["alive", "gap"]);

    stream.receive(frame(2), "2", 116_000);
    expect(stream.nextTimeoutAt).toBe(Number.POSITIVE_INFINITY);
    expect(verdictAt(999_000)).toBe("alive");
  });

  it("[N19] a gap is also given up if all frames after it lie beyond the window, but never if the receiver itself is slow to settle", () => {
    const lost = openStream();
    expect(lost.receive(frame(9), "9", 1_000).verdict).toBe("outside");
    expect(lost.checkTimeouts(16_999, () => 0.5).verdict).toBe("alive");
    expect(lost.checkTimeouts(17_000, () => 0.5).verdict).toBe("gap");

    const slow = openStream();
    for (let number = 0; number < 8; number++) slow.receive(frame(number), String(number), 1_000);
    expect(slow.receive(frame(9), "9", 1_000).verdict).toBe("outside");
    expect(slow.checkTimeouts(99_000, () => 0.5).verdict).toBe("alive");
  });
});
