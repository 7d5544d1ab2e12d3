import type { AckPayload } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { ReliableStream } from "./reliable-stream.ts";
import { ExhaustiveSearch } from "./testing/exhaustive-search.ts";
import { type CreateStream, streamSizes } from "./testing/stream-endpoints.ts";
import type { TestItem, TestStream } from "./testing/stream-fixture.ts";

const scopes = [
  { window: 1, frames: 6, acksMax: 2, refusalsMax: 2 },
  { window: 2, frames: 6, acksMax: 2, refusalsMax: 2 },
  { window: 3, frames: 6, acksMax: 2, refusalsMax: 2 },
  { window: 4, frames: 6, acksMax: 2, refusalsMax: 1 },
];
/** So many states are reached at least; fewer would mean that the search leaves something out. */
const statesMin = [3_000, 30_000, 250_000, 800_000];

describe("two streams and a network that drops, doubles, reorders and cuts as it likes", () => {
  it.each(scopes.map((scope, at) => [scope.window, scope, statesMin[at] ?? 0] as const))(
    "[N25] two streams over a network that drops, doubles, reorders and cuts keep all guarantees in every state at window %i, and can finish from each",
    { timeout: 180_000 },
    (window, scope, atLeast) => {
      const statistics = new ExhaustiveSearch(scope).explore();

      process.stdout.write(`window ${window}, ${scope.frames} frames: ${statistics.states} states, ${statistics.moves} moves\n`);
      expect(statistics.states).toBeGreaterThan(atLeast);
    },
  );

  const search = (open: CreateStream) => () =>
    new ExhaustiveSearch({ window: 2, frames: 4, acksMax: 2, refusalsMax: 1 }, open).explore();

  it("[N25] the exhaustive search finds a stream whose ack covers what is not settled", () => {
    class Hasty extends ReliableStream<TestItem, string> {
      override takeAcks(): readonly AckPayload[] {
        return super.takeAcks().map((ack) => ({ ...ack, ack_seq: this.lastSeen }));
      }
    }

    expect(search((rules, frames) => new Hasty(rules, streamSizes(frames)))).toThrow("acked before it was settled");
  });

  it("[N25] the exhaustive search finds a stream that takes what its peer has seen for settled", () => {
    class Trusting extends ReliableStream<TestItem, string> {
      override resume(peerLastSeen: number | null, now: number): ReturnType<TestStream["resume"]> {
        if (peerLastSeen !== null) this.handleAck({ ack_seq: peerLastSeen }, undefined);
        return super.resume(peerLastSeen, now);
      }
    }

    expect(search((rules, frames) => new Trusting(rules, streamSizes(frames)))).toThrow("something was not settled");
  });

  it("[N25] the exhaustive search finds a send window that is one too wide, and a stream that never resends", () => {
    class Mute extends ReliableStream<TestItem, string> {
      override checkTimeouts(): ReturnType<TestStream["checkTimeouts"]> {
        return { resend: [], verdict: "alive" };
      }
    }

    expect(search((rules, frames) => new ReliableStream(rules, { ...streamSizes(frames), sendFrames: frames + 1 }))).toThrow(
      "more in flight than the window allows",
    );
    expect(search((rules, frames) => new Mute(rules, streamSizes(frames)))).toThrow("goes round in circles");
  });
});
