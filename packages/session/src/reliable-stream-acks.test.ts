import { describe, expect, it } from "vitest";
import { frame, openStream, type TestStream } from "./testing/stream-fixture.ts";

const ticketOf = (stream: TestStream, ...args: Parameters<typeof frame>) => {
  const [delivered] = stream.receive(frame(...args), "item", 0).deliver;
  if (delivered === undefined) throw new Error("nothing was delivered");
  return delivered.tag;
};
const asked = { isAsked: true };

describe("acks", () => {
  it("[N8] several numbered frames get one ack without an id; a single frame that requested an ack gets one with its id", () => {
    const stream = openStream();
    for (const number of [0, 1, 2]) stream.settle(ticketOf(stream, number, asked));
    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: 2, ack_bitmap: 0, recv_window: 8 }]);
    expect(stream.takeAcks()).toEqual([]);

    stream.settle(ticketOf(stream, 3, asked));

    expect(stream.takeAcks()).toEqual([{ ok: true, for: "in-3", ack_seq: 3, ack_bitmap: 0, recv_window: 8 }]);
  });

  it("[N8] an ack by id carries the window too, so that numbered frames need no ack of their own", () => {
    const stream = openStream();
    stream.settle(ticketOf(stream, 0, asked));
    stream.queueNamedAck("heartbeat-1");
    stream.queueNamedAck("heartbeat-1");
    stream.queueNamedAck("unheard-of", "E.CMD.UNKNOWN");
    expect(stream.hasPendingAcks).toBe(true);

    expect(stream.takeAcks()).toEqual([
      { ok: true, for: "heartbeat-1", ack_seq: 0, ack_bitmap: 0, recv_window: 8 },
      { ok: false, for: "unheard-of", info: "E.CMD.UNKNOWN", ack_seq: 0, ack_bitmap: 0, recv_window: 8 },
    ]);
    expect(stream.hasPendingAcks).toBe(false);
  });

  it("[N8] acks in v1 are by id only, one for each frame that requested one", () => {
    const stream = openStream({}, "v1");
    for (const id of ["a", "b"]) stream.settle(ticketOf(stream, 7, { id, isAsked: true }));
    stream.settle(ticketOf(stream, undefined, { id: "c" }));

    expect(stream.takeAcks()).toEqual([
      { ok: true, for: "a" },
      { ok: true, for: "b" },
    ]);
    expect(stream.buildWindowAck("d")).toEqual({ ok: true, for: "d" });
  });

  it("[N8] a control frame can be settled by a ticket made for it", () => {
    const stream = openStream();

    stream.settle({ number: null, id: "beat", isAsked: true, bytes: 0 });

    expect(stream.takeAcks()).toMatchObject([{ ok: true, for: "beat" }]);
  });

  it("[N9] the ack of an invalid frame confirms its arrival and, if the frame requested an ack, reports the refusal by id", () => {
    const stream = openStream();
    stream.refuse(ticketOf(stream, 0, asked), "E.FRAME.INVALID");
    expect(stream.takeAcks()).toEqual([
      { ok: false, for: "in-0", info: "E.FRAME.INVALID", ack_seq: 0, ack_bitmap: 0, recv_window: 8 },
    ]);

    stream.refuse(ticketOf(stream, 1), "E.FRAME.INVALID");
    stream.refuse(ticketOf(stream, undefined), "E.FRAME.INVALID");

    expect(stream.takeAcks()).toEqual([{ ok: true, ack_seq: 1, ack_bitmap: 0, recv_window: 8 }]);
    expect(stream.counts.unsettled).toBe(0);
  });

  it("[N9] a refused frame that arrives again gets the same refusal again, in v2 and in v1, and never an ack that it was accepted", () => {
    const numbered = openStream();
    numbered.refuse(ticketOf(numbered, 0, asked), "E.CMD.UNKNOWN: nobody");
    numbered.settle(ticketOf(numbered, 1, asked));
    numbered.takeAcks();
    const refused = { ok: false, for: "in-0", info: "E.CMD.UNKNOWN: nobody" };
    for (let more = 0; more < 2; more += 1) {
      expect(numbered.receive(frame(0, asked), "again", 0).verdict).toBe("repeat");
      expect(numbered.takeAcks()).toEqual([{ ...refused, ack_seq: 1, ack_bitmap: 0, recv_window: 8 }]);
    }
    numbered.receive(frame(1, asked), "again", 0);
    expect(numbered.takeAcks()).toMatchObject([{ ok: true, for: "in-1" }]);

    const named = openStream({}, "v1");
    named.refuse(ticketOf(named, undefined, { id: "a", isAsked: true }), "E.CMD.UNKNOWN: nobody");
    named.takeAcks();
    expect(named.receive(frame(undefined, { id: "a", isAsked: true }), "again", 0).verdict).toBe("repeat");
    expect(named.takeAcks()).toEqual([{ ok: false, for: "a", info: "E.CMD.UNKNOWN: nobody" }]);
  });

  it("[N9] a stream keeps the refusal reasons of the last 1,024 refused frames only", () => {
    const stream = openStream();
    for (let number = 0; number < 1_025; number += 1) stream.refuse(ticketOf(stream, number, asked), `reason ${number}`);
    stream.takeAcks();

    for (const number of [0, 1]) stream.receive(frame(number, asked), "again", 0);

    expect(stream.takeAcks()).toMatchObject([{ ok: false, for: "in-1", info: "reason 1" }]);
  });

  it("[N5] a stream distinguishes a number that has arrived from one that has not, wherever its frame is now", () => {
    const stream = openStream();
    ticketOf(stream, 0);
    stream.receive(frame(2), "held", 0);

    expect([0, 1, 2, 3].map((number) => stream.hasSeen(number))).toEqual([true, false, true, false]);
    expect(openStream({}, "v1").hasSeen(-1)).toBe(false);
  });

  it("[N11] a v1 frame with a repeated (id, corr) is not handed up, and is acked again once the first is settled", () => {
    const stream = openStream({}, "v1");
    const send = (id: string, corr: string | undefined) => stream.receive(frame(undefined, { id, corr, isAsked: true }), id, 0);
    const [first] = send("a", "task").deliver;

    expect(send("a", "task")).toEqual({ verdict: "repeat", deliver: [] });
    expect(stream.hasPendingAcks).toBe(false);
    expect(send("a", "other").verdict).toBe("taken");
    expect(send("a", undefined).verdict).toBe("taken");
    if (first) stream.settle(first.tag);
    expect(stream.takeAcks()).toEqual([{ ok: true, for: "a" }]);
    expect(send("a", "task").verdict).toBe("repeat");
    expect(stream.takeAcks()).toEqual([{ ok: true, for: "a" }]);
  });

  it("[N11] the repeat detection of v1 keeps the last 4096 (id, corr) pairs and distinguishes pairs that read alike", () => {
    const stream = openStream({}, "v1");
    const send = (id: string, corr?: string) => stream.receive(frame(undefined, { id, corr }), id, 0).verdict;
    expect([send("a:b", "c"), send("a", "b:c"), send("3:a:b:c")]).toEqual(["taken", "taken", "taken"]);
    for (let at = 0; at < 4_094; at += 1) send(`${at}`);

    expect(send("a", "b:c")).toBe("repeat");
    expect(send("a:b", "c")).toBe("taken");
  });
});
