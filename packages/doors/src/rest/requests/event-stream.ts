// Server-sent events: their text, and one reader's stream with its keep-alives and its bounded buffer. What is told on it is its route's business,
// how bytes reach the reader the transport's.

import type { Fault } from "@astraflow/protocol";
import type { DoorEnvironment } from "../../environment/door-environment.ts";

/** The transport's end of an answer that goes on. */
export interface EventSink {
  write(text: string): void;
  /** Bytes written that the reader has not taken yet. */
  readonly waitingBytes: number;
  /** Nothing more will be written; what waits may still be taken. */
  end(): void;
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

/** An event; `data` is on one line already, as JSON text always is. Without data only the reader's cursor moves. */
function formatServerSentEvent(event: { id?: number | string; type?: string; data?: string }): string {
  const id = event.id === undefined ? "" : `id: ${event.id}\n`;
  const type = event.type === undefined ? "" : `event: ${event.type}\n`;
  const data = event.data === undefined ? "" : `data: ${event.data}\n`;
  return `${id}${type}${data}\n`;
}

export interface EventStream {
  send(event: { id?: number | string; type?: string; data?: string }): void;
  /** A last event that says why, then the end. */
  closeWithError(why: Fault): void;
  /** The reader has gone: silence. */
  stop(): void;
}

export interface EventStreamOptions {
  readonly environment: DoorEnvironment;
  /** Asked again and again: null, or why the reader may not listen any longer. */
  readonly findObjection: () => Fault | null;
  /** The reader was slower than what came; it was told so and sent away. */
  readonly overloadFault: () => Fault;
  /** Heard once, however the stream ended. */
  readonly onEnd: () => void;
}

export function openEventStream(sink: EventSink, options: EventStreamOptions): EventStream {
  let isOpen = true;
  const stop = (): void => {
    if (!isOpen) return;
    isOpen = false;
    stopKeepAlive();
    stopChecking();
    options.onEnd();
  };
  const closeWithError = (why: Fault): void => {
    if (!isOpen) return;
    stop();
    sink.write(formatServerSentEvent({ type: "stream.error", data: JSON.stringify(why) }));
    sink.end();
  };
  const write = (text: string): void => {
    if (!isOpen) return;
    if (sink.waitingBytes > streamLimits.waitingBytesMax) closeWithError(options.overloadFault());
    else sink.write(text);
  };
  const { timers } = options.environment;
  const stopKeepAlive = timers.every(streamLimits.keepAliveMs, () => write(": alive\n\n"));
  const stopChecking = timers.every(streamLimits.authorizationCheckMs, () => {
    const why = options.findObjection();
    if (why !== null) closeWithError(why);
  });
  sink.write(`retry: ${streamLimits.retryMs}\n\n`);
  return { send: (event) => write(formatServerSentEvent(event)), closeWithError, stop };
}
