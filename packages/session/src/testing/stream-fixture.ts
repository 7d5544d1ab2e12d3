// Helpers for tests of streams: items, frames, streams of any size, and a stream's frames taken in one go.

import type { Dialect } from "@astraflow/protocol";
import { dialectRules } from "../dialect-rules.ts";
import { type ReceivedFrameHeader, ReliableStream, type StreamSizes } from "../reliable-stream.ts";
import type { OutgoingItem } from "../send-lane.ts";
import type { SentFrame } from "../send-window.ts";

export interface TestItem extends OutgoingItem {
  readonly label: string;
}

export type TestStream = ReliableStream<TestItem, string>;

const sizes: StreamSizes = {
  sendFrames: 8,
  sendBytes: 1_000_000,
  recvFrames: 8,
  recvBytes: 1_000_000,
  batchMax: 1,
  batchBytesMax: 1_000_000,
};

export function openStream(overrides: Partial<StreamSizes> = {}, dialect: Dialect = "v2"): TestStream {
  return new ReliableStream(dialectRules[dialect], { ...sizes, ...overrides });
}

export function command(label: string, overrides: Partial<OutgoingItem> = {}): TestItem {
  return { lane: "command", bytes: 10, batch: null, id: `id-${label}`, label, ...overrides };
}

export const feedback = (label: string, overrides: Partial<OutgoingItem> = {}): TestItem =>
  command(label, { lane: "feedback", ...overrides });

/** A frame of the peer; without a number where that is undefined. */
export function frame(number: number | undefined, overrides: Partial<ReceivedFrameHeader> = {}): ReceivedFrameHeader {
  return { number, id: `in-${number}`, corr: undefined, isAsked: false, bytes: 10, ...overrides };
}

/** Everything that may leave now. */
export function takeAllFrames(stream: TestStream, now = 0): SentFrame<TestItem>[] {
  const all: SentFrame<TestItem>[] = [];
  for (
    let sent = stream.takeNextFrame(now, () => `batch-${all.length}`);
    sent !== null;
    sent = stream.takeNextFrame(now, () => `batch-${all.length}`)
  )
    all.push(sent);
  return all;
}

export const labelsOf = (items: readonly TestItem[] | "unsent"): string | string[] =>
  items === "unsent" ? items : items.map((item) => item.label);

export const numbersOf = (sent: readonly SentFrame<TestItem>[] | "unsent"): string | (number | undefined)[] =>
  sent === "unsent" ? sent : sent.map(({ number }) => number);
