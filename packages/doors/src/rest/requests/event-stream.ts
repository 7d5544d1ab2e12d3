// Server-sent events: their text, and one reader's stream with its keep-alives and its bounded buffer.

import { type Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import type { StreamBudget, StreamReader } from "./stream-budget.ts";

/** The transport's end of an answer that goes on. */
export interface EventSink {
  write(text: string): void;
  /** Bytes written that the reader has not taken yet. */
  readonly waitingBytes: number;
  /** Nothing more will be written; what waits may still be taken. */
  end(): void;
  /** Ends at once; what waits is dropped. */
  destroy(): void;
}

/** Called once the head of the answer is out; the returned function when the reader has gone. */
export type OpenStream = (sink: EventSink) => () => void;

export const streamLimits = {
  /** A reader that lets more than this wait is too slow and is sent away. More than all that is kept for one that comes back. */
  waitingBytesMax: 2 * 1024 * 1024,
  keepAliveMs: 15_000,
  /** How soon a reader whose token was revoked hears nothing more. */
  authorizationCheckMs: 2_000,
  /** How long a reader that was sent away may take for its last words. */
  closeTimeoutMs: 10_000,
  /** What a reader is told to wait before it dials again. */
  retryMs: 1_000,
} as const;

/** `data` is on one line already, as JSON text always is. Without data only the reader's cursor moves. */
export interface StreamedMessage {
  readonly id?: number | string;
  readonly type?: string;
  readonly data?: string;
}

export interface EventStreamOptions {
  readonly environment: ServiceEnvironment;
  readonly budget: StreamBudget;
  /** Whose stream it is. */
  readonly reader: StreamReader;
  /** Asked again and again: whether the reader may still listen. */
  readonly isAuthorized: () => boolean;
  /** Called once, however the stream ended. */
  readonly onEnd: () => void;
}

/** One reader's stream. */
export class EventStream {
  readonly #sink: EventSink;
  readonly #stopTimers: (() => void)[];
  readonly #onEnd: () => void;
  readonly #budget: StreamBudget;
  #isOpen = true;

  constructor(sink: EventSink, { environment: { timers }, budget, reader, isAuthorized, onEnd }: EventStreamOptions) {
    const { tenant, user } = reader;
    const release = budget.add({ tenant, user, sink, onEvicted: () => this.stop() });
    this.#sink = sink;
    this.#budget = budget;
    this.#onEnd = () => {
      release();
      onEnd();
    };
    this.#stopTimers = [
      timers.every(streamLimits.keepAliveMs, () => this.#write(": alive\n\n")),
      timers.every(streamLimits.authorizationCheckMs, () => {
        if (!isAuthorized()) this.closeWithError(fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more"));
      }),
    ];
    sink.write(`retry: ${streamLimits.retryMs}\n\n`);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(message: StreamedMessage): void {
    this.#write(formatServerSentEvent(message));
  }

  /** A last event that says why, then the end. */
  closeWithError(why: Fault): void {
    if (!this.#isOpen) return;
    this.stop();
    this.#sink.write(formatServerSentEvent({ type: "stream.error", data: JSON.stringify(why) }));
    this.#sink.end();
  }

  /** The reader has gone: nothing more is sent. */
  stop(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const stopTimer of this.#stopTimers) stopTimer();
    this.#onEnd();
  }

  #write(text: string): void {
    if (!this.#isOpen) return;
    if (this.#sink.waitingBytes > streamLimits.waitingBytesMax)
      return this.closeWithError(fault("E.OVERLOADED", "this reader is too slow; reconnect with Last-Event-ID"));
    this.#sink.write(text);
    this.#budget.countWritten(text.length);
  }
}

const formatServerSentEvent = ({ id, type, data }: StreamedMessage): string =>
  `${formatField("id", id)}${formatField("event", type)}${formatField("data", data)}\n`;

const formatField = (name: string, value: number | string | undefined): string =>
  value === undefined ? "" : `${name}: ${value}\n`;
