import { describe, expect, it } from "vitest";
import type { TimeoutResult } from "./reliable-stream.ts";
import {
  command,
  feedback,
  labelsOf,
  numbersOf,
  openStream,
  type TestItem,
  type TestStream,
  takeAllFrames,
} from "./testing/stream-fixture.ts";

const offerAll = (stream: TestStream, labels: string) => [...labels].forEach((label) => stream.enqueue(command(label)));
const ackUpTo = (stream: TestStream, ack_seq: number, more: object = {}) =>
  labelsOf(stream.handleAck({ ack_seq, ...more }, undefined));
const shown = (stream: TestStream, now = 0) =>
  takeAllFrames(stream, now).map(({ number, items }) => `${number}${String(labelsOf(items))}`);

describe("frames that leave", () => {
  it("[N12] frames get their number when they are sent, and commands overtake the feedback that waits", () => {
    const stream = openStream({ sendFrames: 1 });
    stream.enqueue(feedback("f"));
    expect(shown(stream)).toEqual(["0f"]);
    stream.enqueue(feedback("g"));
    stream.enqueue(command("c"));
    expect(shown(stream)).toEqual([]);

    ackUpTo(stream, 0);

    expect(shown(stream)).toEqual(["1c"]);
    ackUpTo(stream, 1);
    expect(shown(stream)).toEqual(["2g"]);
  });

  it("[N13] a quarter of the send window's frames is reserved for commands", () => {
    const stream = openStream({ sendFrames: 8 });
    for (const label of "abcdefgh") stream.enqueue(feedback(label));
    expect(shown(stream)).toHaveLength(6);
    expect(stream.canSendNow("feedback")).toBe(false);
    expect(stream.canSendNow("command")).toBe(true);

    offerAll(stream, "xyz");

    expect(shown(stream)).toEqual(["6x", "7y"]);
    expect(stream.canSendNow("command")).toBe(false);
    expect(stream.counts).toMatchObject({ inFlight: 8, waiting: 3 });
  });

  it("[N13] a quarter of the send window's bytes is reserved for commands, and feedback does not take room that a command waits for", () => {
    const stream = openStream({ sendBytes: 100 });
    for (const label of "ab") stream.enqueue(feedback(label, { bytes: 40 }));
    expect(shown(stream)).toEqual(["0a"]);
    stream.enqueue(command("x", { bytes: 50 }));
    stream.enqueue(command("y", { bytes: 20 }));
    expect(shown(stream)).toEqual(["1x"]);

    ackUpTo(stream, 0);

    expect(shown(stream)).toEqual(["2y"]);
    expect(stream.counts).toMatchObject({ inFlightBytes: 70, waiting: 1, waitingBytes: 40 });
  });

  it.each([
    [1, 1],
    [2, 1],
    [3, 2],
    [4, 3],
    [5, 3],
    [6, 4],
    [7, 5],
  ])("[N13] of a send window of %i frames feedback takes %i: the quarter for commands is rounded up", (sendFrames, taken) => {
    const stream = openStream({ sendFrames });
    for (const label of "abcdefgh") stream.enqueue(feedback(label));

    expect(shown(stream)).toHaveLength(taken);
    expect(stream.canSendNow("command")).toBe(sendFrames > 1);
  });

  it("[N13] feedback can be sent in the smallest send windows too when nothing else is in flight", () => {
    for (const sendFrames of [1, 2, 3, 4]) {
      const stream = openStream({ sendFrames, sendBytes: 1 });
      stream.enqueue(feedback("f"));
      expect(shown(stream)).toEqual(["0f"]);
    }
  });

  it("[N14] frames in flight stay within the smaller of both windows, measured from the first that is not acked", () => {
    const stream = openStream({ sendFrames: 4 });
    offerAll(stream, "abcdefghij");
    expect(shown(stream)).toEqual(["0a", "1b", "2c", "3d"]);
    expect(ackUpTo(stream, -1, { ack_bitmap: 0b110 })).toEqual(["b", "c"]);
    expect(shown(stream)).toEqual([]);
    expect(stream.counts).toMatchObject({ inFlight: 2, inFlightBytes: 20 });

    expect(ackUpTo(stream, 2, { recv_window: 2 })).toEqual(["a"]);
    expect(shown(stream)).toEqual(["4e"]);
    ackUpTo(stream, 4, { recv_window: 0 });
    expect(shown(stream)).toEqual(["5f"]);
    ackUpTo(stream, 5, { recv_window: 900 });
    expect(shown(stream)).toEqual(["6g", "7h", "8i", "9j"]);
  });

  it("[N14] a frame larger than the send window is sent alone", () => {
    const stream = openStream({ sendBytes: 100 });
    stream.enqueue(command("a"));
    stream.enqueue(command("heavy", { bytes: 5_000 }));
    stream.enqueue(command("b"));
    expect(shown(stream)).toEqual(["0a"]);

    ackUpTo(stream, 0);

    expect(shown(stream)).toEqual(["1heavy"]);
    ackUpTo(stream, 1);
    expect(shown(stream)).toEqual(["2b"]);
    expect(stream.counts).toMatchObject({ inFlightBytes: 10, waitingBytes: 0 });
  });

  it("[N15] a frame carries several items of one batch key in order, up to limits of count and bytes, and has an id of its own", () => {
    const stream = openStream({ batchMax: 3, batchBytesMax: 35 });
    for (const label of "abcd") stream.enqueue(command(label, { batch: "results" }));
    stream.enqueue(command("e", { batch: "errors" }));
    stream.enqueue(command("f"));
    stream.enqueue(command("g"));
    stream.enqueue(command("h", { batch: "results", bytes: 20 }));
    stream.enqueue(command("i", { batch: "results", bytes: 20 }));

    const sent = takeAllFrames(stream);

    expect(sent.map(({ id, items }) => `${id}: ${items.map(({ label }) => label).join("")}`)).toEqual([
      "batch-0: abc",
      "id-d: d",
      "id-e: e",
      "id-f: f",
      "id-g: g",
      "id-h: h",
      "id-i: i",
    ]);
    expect(ackUpTo(stream, 1)).toEqual(["a", "b", "c", "d"]);
  });

  it("[N15] a batch does not grow beyond the room that is left in the send window", () => {
    const stream = openStream({ batchMax: 64, sendBytes: 45 });
    stream.enqueue(command("a"));
    for (const label of "bcdef") stream.enqueue(command(label, { batch: "w" }));

    expect(shown(stream)).toEqual(["0a", "1b,c,d"]);
  });
});

describe("acks of the peer", () => {
  it("[N16] an ack confirms frames up to ack_seq and by bitmap, beyond 53 bits too, each item once", () => {
    const stream = openStream({ sendFrames: 1_024 });
    for (let at = 0; at < 1_024; at += 1) stream.enqueue(command(`${at}`));
    takeAllFrames(stream);

    expect(ackUpTo(stream, 1, { ack_bitmap: 0b100 })).toEqual(["0", "1", "4"]);
    expect(ackUpTo(stream, 1, { ack_bitmap: `2${"0".repeat(253)}14` })).toEqual(["6", "1023"]);
  });

  it("[N16] an ack that was overtaken by a later one changes nothing, not even the window", () => {
    const stream = openStream({ sendFrames: 4 });
    offerAll(stream, "abcdef");
    takeAllFrames(stream);
    ackUpTo(stream, 1);

    expect(ackUpTo(stream, 0, { ack_bitmap: 0b100, recv_window: 1 })).toEqual([]);
    expect(ackUpTo(stream, 1)).toEqual([]);

    expect(shown(stream)).toEqual(["4e", "5f"]);
    expect(stream.counts.inFlight).toBe(4);
  });

  it("[N16] an ack for what was never sent is reported as such and changes nothing", () => {
    const stream = openStream();
    offerAll(stream, "ab");
    takeAllFrames(stream);
    offerAll(stream, "c");

    expect(ackUpTo(stream, 2)).toBe("unsent");
    expect(ackUpTo(stream, -1, { ack_bitmap: 0b101 })).toBe("unsent");
    expect(ackUpTo(stream, 0, { ack_bitmap: "2" })).toBe("unsent");

    expect(stream.counts.inFlight).toBe(2);
    expect(ackUpTo(stream, 0, { ack_bitmap: "1" })).toEqual(["a", "b"]);
    expect(ackUpTo(stream, 0, { ack_bitmap: 0b10 })).toBe("unsent");
  });

  it("[N17] an ack with a number counts by number, whatever id it names; without one the id closes its frame", () => {
    const stream = openStream();
    offerAll(stream, "abc");
    takeAllFrames(stream);

    expect(labelsOf(stream.handleAck({ for: "id-b", ack_seq: -1 }, "id-b"))).toEqual([]);
    expect(labelsOf(stream.handleAck({ for: "id-b" }, undefined))).toEqual(["b"]);
    expect(labelsOf(stream.handleAck({ ok: false }, "id-a"))).toEqual(["a"]);
    expect(labelsOf(stream.handleAck({ for: "id-a" }, "register-1"))).toEqual([]);
    expect(labelsOf(stream.handleAck({}, undefined))).toEqual([]);

    expect(stream.counts).toMatchObject({ inFlight: 1, inFlightBytes: 10 });
  });

  it("[N17] an ack in v1 counts by id only", () => {
    const stream = openStream({ sendFrames: 2 }, "v1");
    offerAll(stream, "abc");
    takeAllFrames(stream);

    expect(labelsOf(stream.handleAck({ ok: true, for: "id-b", ack_seq: 1 }, undefined))).toEqual(["b"]);
    expect(shown(stream)).toEqual([]);
    expect(labelsOf(stream.handleAck({ ok: true, for: "id-a" }, undefined))).toEqual(["a"]);
    expect(takeAllFrames(stream)).toHaveLength(1);
  });
});

describe("frames that nobody acks", () => {
  it("[N18] an unacked frame is resent after about five seconds, then at growing intervals with jitter, and is sent at most six times", () => {
    const stream = openStream();
    offerAll(stream, "a");
    takeAllFrames(stream, 1_000);
    const repeats: [number, number][] = [];
    let verdict = "alive";
    while (verdict === "alive") {
      const now = stream.nextTimeoutAt;
      expect(stream.checkTimeouts(now - 1, () => 0)).toEqual({ resend: [], verdict: "alive" });
      const due = stream.checkTimeouts(now, () => 1);
      verdict = due.verdict;
      repeats.push([now, due.resend.length]);
    }

    const [[first] = [0]] = repeats;
    expect(first - 1_000).toBeGreaterThanOrEqual(4_000);
    expect(first - 1_000).toBeLessThanOrEqual(6_000);
    // Then 10, 20, 30, 30 and 30 s, each a fifth longer.
    expect(repeats.map(([at, count]) => [at - first, count])).toEqual([
      [0, 1],
      [12_000, 1],
      [36_000, 1],
      [72_000, 1],
      [108_000, 1],
      [144_000, 0],
    ]);
    expect(verdict).toBe("exhausted");
    expect(stream.counts.inFlight).toBe(1);
  });

  it.each([
    ["v2", 5_000],
    ["v1", 200],
  ] as const)(
    "[N18] unacked frames of %s that were sent together, or by other peers at nearly the same time, are not all resent together",
    (dialect, aboutMs) => {
      const firstRepeats = (sentAt: number, labels: string) => {
        const stream = openStream({}, dialect);
        offerAll(stream, labels);
        takeAllFrames(stream, sentAt);
        const waits: number[] = [];
        while (waits.length < labels.length) {
          const now = stream.nextTimeoutAt;
          for (const _ of stream.checkTimeouts(now, () => 0.5).resend) waits.push(now - sentAt);
        }
        return waits;
      };

      const waits = firstRepeats(1_000, "abcdefgh");
      const otherEnds = Array.from({ length: 8 }, (_, at) => firstRepeats(1_000 + at / 1_000, "a")[0] ?? 0);

      for (const spread of [waits, otherEnds]) {
        expect(Math.min(...spread)).toBeGreaterThanOrEqual(aboutMs * 0.8);
        expect(Math.max(...spread)).toBeLessThanOrEqual(aboutMs * 1.2);
      }
      expect(Math.max(...waits) - Math.min(...waits)).toBeGreaterThan(aboutMs * 0.2);
      expect(new Set(otherEnds.map((wait) => Math.round(wait))).size).toBeGreaterThan(4);
    },
  );

  it("[N18] unacked frames are timed separately: an ack ends the resends of its frames only", () => {
    const stream = openStream();
    offerAll(stream, "a");
    takeAllFrames(stream, 0);
    offerAll(stream, "b");
    takeAllFrames(stream, 3_000);
    const firstDue = stream.nextTimeoutAt;
    expect(firstDue).toBeLessThanOrEqual(6_000);

    ackUpTo(stream, 0);

    expect(stream.checkTimeouts(firstDue, () => 0.5).resend).toEqual([]);
    const secondDue = stream.nextTimeoutAt;
    expect(secondDue).toBeGreaterThanOrEqual(7_000);
    expect(numbersOf(stream.checkTimeouts(secondDue, () => 0.5).resend)).toEqual([1]);
    ackUpTo(stream, 1);
    expect(stream.nextTimeoutAt).toBe(Number.POSITIVE_INFINITY);
  });

  it("[N18] a resent frame keeps its number, its id and the text that the caller left on it", () => {
    const stream = openStream();
    offerAll(stream, "a");
    const [sent] = takeAllFrames(stream, 0);
    if (sent) sent.text = "the text";

    const [again] = stream.checkTimeouts(6_000, () => 0.5).resend;

    expect(again).toMatchObject({ number: 0, id: "id-a", text: "the text", sends: 2 });
  });

  it("[N27] all unacked frames are resent at once and in order when the peer reports a missing frame; each time is one of their six sends", () => {
    const stream = openStream({}, "v1");
    offerAll(stream, "abcd");
    takeAllFrames(stream, 0);
    stream.handleAck({ ok: true, for: "id-b" }, undefined);
    offerAll(stream, "e");
    const labels = ({ resend: repeat }: TimeoutResult<TestItem>) =>
      repeat.flatMap(({ items }) => items.map(({ label }) => label));

    const again = stream.resendAll(10, () => 0.5);
    expect([again.verdict, ...labels(again)]).toEqual(["alive", "a", "c", "d"]);
    expect(stream.nextTimeoutAt).toBe(410);
    // Reported for every frame behind the missing one: resending once is enough.
    expect(stream.resendAll(209, () => 0.5)).toEqual({ resend: [], verdict: "alive" });
    for (let now = 210; now < 1_000; now += 200) expect(stream.resendAll(now, () => 0.5).resend).toHaveLength(3);

    expect(stream.resendAll(1_010, () => 0.5)).toEqual({ resend: [], verdict: "exhausted" });
    expect(stream.counts).toMatchObject({ inFlight: 3, waiting: 1 });
    stream.pause();
    expect(stream.resendAll(2_000, () => 0.5)).toEqual({ resend: [], verdict: "alive" });
  });
});
