// Short words for tests of streams: items, frames, streams of any size, and a stream's frames taken in one go.

import type { Dialect } from "@astraflow/protocol";
import { dialectRules } from "../dialect-rules.ts";
import type { Outgoing } from "../lane.ts";
import type { Sent } from "../send-window.ts";
import { type ArrivedFrame, Stream, type StreamSizes } from "../stream.ts";

export interface Parcel extends Outgoing {
  readonly label: string;
}

export type TestStream = Stream<Parcel, string>;

const sizes: StreamSizes = {
  sendFrames: 8,
  sendBytes: 1_000_000,
  recvFrames: 8,
  recvBytes: 1_000_000,
  batchMax: 1,
  batchBytesMax: 1_000_000,
};

export function openStream(over: Partial<StreamSizes> = {}, dialect: Dialect = "v2"): TestStream {
  return new Stream(dialectRules[dialect], { ...sizes, ...over });
}

export function command(label: string, over: Partial<Outgoing> = {}): Parcel {
  return { lane: "command", bytes: 10, batch: null, id: `id-${label}`, label, ...over };
}

export const feedback = (label: string, over: Partial<Outgoing> = {}): Parcel => command(label, { lane: "feedback", ...over });

/** A frame of the peer; without a number where that is undefined. */
export function frame(number: number | undefined, over: Partial<ArrivedFrame> = {}): ArrivedFrame {
  return { number, id: `in-${number}`, corr: undefined, isAsked: false, bytes: 10, ...over };
}

/** Everything that may leave now. */
export function takeAll(stream: TestStream, now = 0): Sent<Parcel>[] {
  const all: Sent<Parcel>[] = [];
  for (
    let sent = stream.take(now, () => `batch-${all.length}`);
    sent !== null;
    sent = stream.take(now, () => `batch-${all.length}`)
  )
    all.push(sent);
  return all;
}

export const labelsOf = (items: readonly Parcel[] | "unsent"): string | string[] =>
  items === "unsent" ? items : items.map((item) => item.label);

export const numbersOf = (sent: readonly Sent<Parcel>[] | "unsent"): string | number[] =>
  sent === "unsent" ? sent : sent.map(({ number }) => number);
