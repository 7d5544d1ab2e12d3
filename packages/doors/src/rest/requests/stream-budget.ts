// What all readers of streams may cost together. A reader that takes nothing holds what waits for it: the slowest ones are cut off when that is too
// much, and continue from their cursors when they come back.

import { type Fault, fault } from "@astraflow/protocol";
import { evictAboveTotal } from "../../environment/byte-total.ts";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";
import type { EventSink } from "./event-stream.ts";

const KiB = 1024;
export const streamBudgetLimits = {
  /** Open at once, in all and of one user or token of the configuration. */
  streamsMax: 5_000,
  streamsPerUserMax: 100,
  /** Bytes that wait for all readers together. */
  waitingBytesTotalMax: 64 * 1024 * KiB,
  /** What waits is counted anew after so many bytes were written. */
  checkBytes: 1024 * KiB,
  /** A reader is fed up to this much, less where there are many readers. */
  feedBytesMax: 512 * KiB,
  feedBytesMin: 16 * KiB,
} as const;
export type StreamBudgetLimits = Readonly<Record<keyof typeof streamBudgetLimits, number>>;

/** Who reads: a stream counts for its user. */
export interface StreamReader {
  readonly tenant: string;
  readonly user: string;
}

export interface BudgetedStream extends StreamReader {
  readonly sink: Pick<EventSink, "waitingBytes" | "destroy">;
  /** The stream is over; its sink is cut off already. */
  onEvicted(): void;
}

export class StreamBudget {
  readonly #limits: StreamBudgetLimits;
  readonly #metrics: ReturnType<typeof createStreamMetrics> | null;
  readonly #streams = new Set<BudgetedStream>();
  readonly #streamsByUser = new Map<string, number>();
  #uncheckedBytes = 0;

  constructor(metrics: MetricsRegistry | null = null, limits: Partial<StreamBudgetLimits> = {}) {
    this.#limits = { ...streamBudgetLimits, ...limits };
    this.#metrics = metrics === null ? null : createStreamMetrics(metrics, () => this.#measure());
  }

  /** Why there is no room for another stream of this reader; null where there is. */
  capacityFault(reader: StreamReader): Fault | null {
    const { streamsMax, streamsPerUserMax } = this.#limits;
    if (this.#streams.size >= streamsMax)
      return fault("E.OVERLOADED", `this scheduler has ${streamsMax} streams open already; try again later`);
    if ((this.#streamsByUser.get(userKey(reader)) ?? 0) < streamsPerUserMax) return null;
    return fault("E.OVERLOADED", `${reader.user} has ${streamsPerUserMax} streams open already; close one, or try again later`);
  }

  /** The returned function ends that. */
  add(stream: BudgetedStream): () => void {
    const key = userKey(stream);
    this.#streams.add(stream);
    this.#streamsByUser.set(key, (this.#streamsByUser.get(key) ?? 0) + 1);
    return () => {
      if (!this.#streams.delete(stream)) return;
      const left = (this.#streamsByUser.get(key) ?? 0) - 1;
      if (left > 0) this.#streamsByUser.set(key, left);
      else this.#streamsByUser.delete(key);
    };
  }

  /** How much may wait for one reader before it is fed no more: half of the total if all of them were silent. */
  get feedBytesMax(): number {
    const { waitingBytesTotalMax, feedBytesMax, feedBytesMin } = this.#limits;
    const share = waitingBytesTotalMax / 2 / Math.max(1, this.#streams.size);
    return Math.min(feedBytesMax, Math.max(feedBytesMin, share));
  }

  /** To be called after a write. */
  countWritten(bytes: number): void {
    this.#uncheckedBytes += bytes;
    if (this.#uncheckedBytes < this.#limits.checkBytes) return;
    this.#uncheckedBytes = 0;
    evictAboveTotal(this.#streams, {
      bytesOf: ({ sink }) => sink.waitingBytes,
      bytesMax: this.#limits.waitingBytesTotalMax,
      evict: (stream) => this.#evict(stream),
    });
  }

  #measure(): { readonly streams: number; readonly bytes: number } {
    let bytes = 0;
    for (const { sink } of this.#streams) bytes += sink.waitingBytes;
    return { streams: this.#streams.size, bytes };
  }

  #evict(stream: BudgetedStream): void {
    // An end with a last word would wait behind what the reader does not take.
    stream.sink.destroy();
    stream.onEvicted();
    this.#metrics?.evicted(stream.tenant);
  }
}

const userKey = ({ tenant, user }: StreamReader): string => `${tenant}\n${user}`;

function createStreamMetrics(metrics: MetricsRegistry, measure: () => { readonly streams: number; readonly bytes: number }) {
  const open = metrics.gauge("sse_streams_open", "Streams of server-sent events that are open.", []).withLabels();
  const waiting = metrics.gauge("sse_waiting_bytes", "Bytes that wait for readers of streams.", []).withLabels();
  const evicted = metrics.counter("sse_streams_evicted_total", "Streams cut off because too much waited for all readers.", [
    "tenant",
  ]);
  metrics.onScrape(() => {
    const { streams, bytes } = measure();
    open.set(streams);
    waiting.set(bytes);
  });
  return { evicted: (tenant: string) => evicted.withLabels(tenant).add(1) };
}
