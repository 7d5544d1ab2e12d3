import { type AckPayload, limits } from "@astraflow/protocol";
import { createSeededRandom } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import type { DeliveredFrame } from "./receive-window.ts";
import { command, feedback, frame, openStream } from "./testing/stream-fixture.ts";

const odd = [-1, 0, 1, 52, 53, 54, 1_023, 1_024, 2 ** 31, 2 ** 32, 2 ** 40, Number.MAX_SAFE_INTEGER];

/** Anything that the schema of an ack lets through. */
function wildAck(random: (sides: number) => number, near: number): AckPayload {
  const number = () => (random(4) === 0 ? (odd[random(odd.length)] ?? 0) : Math.max(-1, near + random(20) - 10));
  const hex = () =>
    Array.from({ length: 1 + random(random(20) === 0 ? limits.bitmapHexCharsMax : 4) }, () => random(16).toString(16)).join("");
  const ack: AckPayload = {};
  if (random(10) > 0) ack.ack_seq = number();
  if (random(2) > 0) ack.ack_bitmap = random(2) === 0 ? Math.abs(number()) : hex();
  if (random(3) === 0) ack.recv_window = Math.max(1, number());
  if (random(3) === 0) ack.for = `id-${number()}`;
  if (random(9) === 0) ack.ok = false;
  return ack;
}

describe("whatever a peer says", () => {
  const window = 16;
  const recvBytes = 500;

  it.each(["v2", "first", "v1"] as const)(
    "[N26] a stream of %s neither throws nor keeps more than its windows allow, whatever a peer sends",
    { timeout: 120_000 },
    (dialect) => {
      const random = createSeededRandom(dialect.length + dialect.charCodeAt(0));
      const stream = openStream({ sendFrames: window, recvFrames: window, recvBytes, batchMax: 4 }, dialect);
      const open: DeliveredFrame<string>[] = [];
      const most = { inFlight: 0, buffered: 0, bufferedBytes: 0, unsettled: 0, acks: 0 };
      let sent = 0;
      let last = -1;
      let acked = 0;
      for (let at = 0; at < 350_000; at += 1) {
        if (at % 4 === 0) stream.enqueue((at % 8 === 0 ? command : feedback)(`${sent++}`, { batch: at % 3 === 0 ? "w" : null }));
        for (
          let left = stream.takeNextFrame(at, () => `batch-${at}`);
          left !== null;
          left = stream.takeNextFrame(at, () => `batch-${at}`)
        )
          last = left.number ?? last;
        const answer = stream.handleAck(wildAck(random, last), random(9) === 0 ? `id-${sent - random(30)}` : undefined);
        if (answer !== "unsent") acked += answer.length;
        const number =
          random(20) === 0
            ? undefined
            : random(10) === 0
              ? Math.abs(odd[random(odd.length)] ?? 0)
              : Math.max(0, stream.lastSeen + random(24) - 6);
        const overrides = {
          id: `in-${random(50)}`,
          corr: random(2) === 0 ? `${random(3)}` : undefined,
          isAsked: random(2) === 0,
          bytes: 1 + random(300),
        };
        open.push(...stream.receive(frame(number, overrides), "item", at).deliver);
        while (open.length > 12) for (const { tag } of open.splice(random(open.length), 1)) stream.settle(tag);
        if (at % 7 === 0) most.acks = Math.max(most.acks, stream.takeAcks().length);
        if (at % 50 === 0 && stream.checkTimeouts(at, () => random(100) / 100).verdict !== "alive") {
          stream.pause();
          stream.resume(null, at);
        }
        // Hostile acks alone do not empty the window in time; what waits is bounded by the caller.
        if (at % 1_000 === 0) stream.withdraw(() => true);
        const { inFlight, buffered, bufferedBytes, unsettled } = stream.counts;
        most.inFlight = Math.max(most.inFlight, inFlight);
        most.buffered = Math.max(most.buffered, buffered);
        most.bufferedBytes = Math.max(most.bufferedBytes, bufferedBytes);
        most.unsettled = Math.max(most.unsettled, unsettled);
      }

      expect(most.inFlight).toBeLessThanOrEqual(window);
      expect(most.buffered).toBeLessThan(window);
      expect(most.bufferedBytes).toBeLessThanOrEqual(recvBytes);
      expect(most.unsettled).toBeLessThanOrEqual(window + 12);
      expect(most.acks).toBeLessThanOrEqual(7);
      expect(acked).toBeGreaterThan(1_000);
      expect(stream.counts.inFlightBytes).toBeGreaterThanOrEqual(0);
    },
  );
});
