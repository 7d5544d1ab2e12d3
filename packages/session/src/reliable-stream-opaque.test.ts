// The stream is the part of the control layer that both ends run: it must carry business and vendor frames without ever looking into them.

import { describe, expect, it } from "vitest";
import { dialectRules } from "./dialect-rules.ts";
import { ReliableStream } from "./reliable-stream.ts";
import type { OutgoingItem } from "./send-lane.ts";
import { frame } from "./testing/stream-fixture.ts";

/** A body that ends the test if anybody looks into it. */
function sealedBody(): object {
  const refuse = (): never => {
    throw new Error("the stream looked into a payload");
  };
  return new Proxy({}, { get: refuse, has: refuse, ownKeys: refuse, getOwnPropertyDescriptor: refuse, getPrototypeOf: refuse });
}

type SealedItem = OutgoingItem & { readonly body: object };
const openStream = () =>
  new ReliableStream<SealedItem, object>(dialectRules.v2, {
    sendFrames: 8,
    sendBytes: 1_000_000,
    recvFrames: 8,
    recvBytes: 1_000_000,
    batchMax: 4,
    batchBytesMax: 1_000_000,
  });
const bodies = () => Array.from({ length: 5 }, sealedBody);

describe("payloads in a stream", () => {
  it("[N35] a stream sends, resends, resumes and releases frames without looking into their payloads", () => {
    const stream = openStream();
    const sent = bodies();
    for (const [n, body] of sent.entries())
      stream.enqueue({ lane: n % 2 === 0 ? "command" : "feedback", bytes: 10, batch: null, id: `f-${n}`, body });
    const numbers: (number | undefined)[] = [];
    for (let out = stream.takeNextFrame(0, () => "batch"); out !== null; out = stream.takeNextFrame(0, () => "batch"))
      numbers.push(out.number);
    stream.checkTimeouts(6_000, () => 0.5);
    stream.pause();
    const resumed = stream.resume(1, 7_000);
    const released = stream.handleAck({ ok: true, ack_seq: 4, ack_bitmap: 0, recv_window: 8 }, undefined);

    expect(numbers).toEqual([0, 1, 2, 3, 4]);
    expect(resumed === "unsent" ? resumed : resumed.map(({ number }) => number)).toEqual([2, 3, 4]);
    expect(released === "unsent" ? released : released.every(({ body }) => sent.includes(body))).toBe(true);
    expect(stream.counts).toMatchObject({ inFlight: 0, waiting: 0 });
  });

  it("[N35] a stream orders, deduplicates, hands up and acks received frames without looking into their payloads", () => {
    const stream = openStream();
    const received = bodies();
    const order = [2, 0, 1, 1, 4, 3];
    const delivered = order.flatMap((number) => {
      const body = received[number] as object;
      return stream.receive(frame(number), body, 0).deliver.map(({ item, tag }) => {
        stream.settle(tag);
        return received.indexOf(item);
      });
    });

    expect(delivered).toEqual([0, 1, 2, 3, 4]);
    expect(stream.takeAcks().at(-1)).toMatchObject({ ack_seq: 4 });
  });
});
