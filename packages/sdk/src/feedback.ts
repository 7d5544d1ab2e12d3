// What a handler reports while it runs.

import type { JsonObject } from "./json.ts";

/** A piece of output: text, or bytes in base64; on the channel `log` unless it names another. Its index is counted by the worker. */
export interface FeedbackChunk {
  readonly channel?: string;
  readonly text?: string;
  readonly data_base64?: string;
  readonly mime_type?: string;
  readonly metadata?: JsonObject;
}

/** What a handler may report; `metadata.results` is merged into the node's results while it runs. */
export interface FeedbackInput {
  readonly stage?: string;
  /** 0 to 1. */
  readonly progress?: number;
  readonly message?: string;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly metadata?: JsonObject;
  readonly chunks?: readonly FeedbackChunk[];
}

export interface FeedbackSender {
  /** Reports progress, messages, chunks of output, or results so far (`metadata.results`). Never waits. */
  send(input: FeedbackInput): void;
  /** One piece of text on a channel; `log` by default. */
  emitText(text: string, options?: Pick<FeedbackInput, "stage" | "progress" | "metadata"> & Pick<FeedbackChunk, "channel">): void;
}
