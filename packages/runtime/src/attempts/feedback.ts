// Feedback of running handlers: converted to frames, and merged per attempt for as long as it cannot be sent.

import {
  type Fault,
  type FeedbackPayload,
  fault,
  isRecord,
  type JsonObject,
  limits,
  type OutputChunk,
} from "@astraflow/protocol";
import type { FeedbackChunk, FeedbackInput } from "@astraflow/sdk";
import type { LocalAttempt } from "./attempt.ts";
import { checkReportText } from "./report-limits.ts";

/** Characters of chunk text in one frame: a third of the frame's bytes, since a character may take three. */
const frameTextCharsMax = Math.floor(limits.feedbackBytesMax / 3);
/** Any name may be a channel that fits a frame. */
const isChannelName = (channel: unknown): channel is string =>
  typeof channel === "string" && channel.length > 0 && channel.length <= limits.idCharsMax && !/\p{Cc}/u.test(channel);

interface BufferedFeedback {
  body: FeedbackPayload;
  /** Characters of metrics and metadata, as JSON; repeated keys count again. */
  bodyChars: number;
  chunks: OutputChunk[];
  charCount: number;
}

/** What a handler reported, read back from its JSON text; a Fault where the scheduler could not read it. */
export function readFeedbackText(text: string | undefined): FeedbackInput | Fault {
  const problem = text === undefined ? null : checkReportText("the feedback", text);
  if (problem !== null) return problem;
  const input: unknown = text === undefined ? undefined : JSON.parse(text);
  if (!isRecord(input)) return invalidFeedback("it must be an object");
  const { metrics, metadata, chunks } = input;
  if (metrics !== undefined && !isRecord(metrics)) return invalidFeedback("metrics must be an object of numbers");
  if (metadata !== undefined && !isRecord(metadata)) return invalidFeedback("metadata must be an object");
  if (chunks !== undefined && !Array.isArray(chunks)) return invalidFeedback("chunks must be a list");
  for (const chunk of chunks ?? []) {
    if (!isRecord(chunk)) return invalidFeedback("a chunk must be an object");
    if (chunk["metadata"] !== undefined && !isRecord(chunk["metadata"]))
      return invalidFeedback("metadata of a chunk must be an object");
    if (chunk["mime_type"] !== undefined && !isName(chunk["mime_type"]))
      return invalidFeedback(`mime_type of a chunk must be a text of at most ${limits.nameCharsMax} characters`);
  }
  return input as FeedbackInput;
}

const invalidFeedback = (problem: string): Fault => fault("E.FRAME.INVALID", `the feedback cannot be sent: ${problem}`);

const isName = (value: unknown): boolean =>
  typeof value === "string" && value.length <= limits.nameCharsMax && !/\p{Cc}/u.test(value);

export class FeedbackBuffer {
  readonly #buffered = new Map<LocalAttempt, BufferedFeedback>();
  /** Number of chunks so far by attempt; a reader recognises repeats by their index. */
  readonly #nextChunkIndex = new WeakMap<LocalAttempt, number>();

  get size(): number {
    return this.#buffered.size;
  }

  /** Adds to what waits for this attempt. Gives the payloads that became full on the way. */
  add(attempt: LocalAttempt, input: FeedbackInput): string[] {
    const full: string[] = [];
    let draft = this.#bufferFor(attempt);
    const results = asObject(input.metadata?.["results"]);
    const bodyChars = countBodyChars(input);
    // Many small reports must not become one frame with more keys than a reader takes.
    const isFull = draft.bodyChars > 0 && draft.bodyChars + bodyChars > limits.feedbackBytesMax;
    if (isFull || !canMergePatches(asObject(draft.body.metadata?.["results"]), results)) {
      full.push(this.take(attempt) as string);
      draft = this.#bufferFor(attempt);
    }
    draft.bodyChars += bodyChars;
    mergeFeedback(draft.body, input);
    for (const piece of splitChunks(input.chunks ?? [])) {
      const metadataChars = piece.metadata === undefined ? 0 : JSON.stringify(piece.metadata).length;
      const chars = (piece.text ?? piece.data_base64 ?? "").length + metadataChars;
      const isFull = draft.charCount + chars > frameTextCharsMax || draft.chunks.length >= limits.chunksMax;
      if (isFull && draft.chunks.length > 0) {
        full.push(this.take(attempt) as string);
        draft = this.#bufferFor(attempt);
      }
      const index = this.#nextChunkIndex.get(attempt) ?? 0;
      this.#nextChunkIndex.set(attempt, index + 1);
      draft.chunks.push({ ...piece, index });
      draft.charCount += chars;
    }
    return full;
  }

  /** The payload that waits for this attempt, as JSON text. */
  take(attempt: LocalAttempt): string | undefined {
    const draft = this.#buffered.get(attempt);
    if (draft === undefined) return undefined;
    this.#buffered.delete(attempt);
    return JSON.stringify(draft.chunks.length === 0 ? draft.body : { ...draft.body, chunks: draft.chunks });
  }

  /** Attempts with something waiting, oldest first. */
  attemptsWithFeedback(): LocalAttempt[] {
    return [...this.#buffered.keys()];
  }

  discard(attempt: LocalAttempt): void {
    this.#buffered.delete(attempt);
  }

  #bufferFor(attempt: LocalAttempt): BufferedFeedback {
    let draft = this.#buffered.get(attempt);
    if (draft === undefined) {
      const body = { run_id: attempt.run, task_id: attempt.task, fence: attempt.fence };
      draft = { body, bodyChars: 0, chunks: [], charCount: 0 };
      this.#buffered.set(attempt, draft);
    }
    return draft;
  }
}

/** The newest value wins; results are merged key by key, as the scheduler does, so two patches in one frame have the effect of two frames. */
function mergeFeedback(body: FeedbackPayload, input: FeedbackInput): void {
  if (typeof input.stage === "string" && input.stage !== "") body.stage = input.stage.slice(0, limits.nameCharsMax);
  if (typeof input.progress === "number" && Number.isFinite(input.progress))
    body.progress = Math.min(1, Math.max(0, input.progress));
  if (typeof input.message === "string") body.message = input.message.slice(0, limits.textCharsMax);
  if (input.metrics !== undefined) body.metrics = { ...body.metrics, ...keepFiniteNumbers(input.metrics) };
  if (input.metadata !== undefined) {
    const results = mergePatches(asObject(body.metadata?.["results"]), asObject(input.metadata["results"]));
    body.metadata = { ...body.metadata, ...input.metadata, ...(Object.keys(results).length > 0 && { results }) };
  }
}

const countBodyChars = ({ metrics, metadata }: FeedbackInput): number =>
  metrics === undefined && metadata === undefined ? 0 : JSON.stringify({ metrics, metadata }).length;

/** A null stays a null: it removes what the scheduler has. */
function mergePatches(first: JsonObject, second: JsonObject): JsonObject {
  const merged = { ...first };
  for (const [key, value] of Object.entries(second)) {
    const before = merged[key];
    merged[key] = isRecord(before) && isRecord(value) ? mergePatches(before, value) : value;
  }
  return merged;
}

/** False where the first replaces or removes what the second adds to: one patch cannot express both. */
function canMergePatches(first: JsonObject, second: JsonObject): boolean {
  return Object.entries(second).every(([key, value]) => {
    if (!Object.hasOwn(first, key) || !isRecord(value)) return true;
    const before = first[key];
    return isRecord(before) && canMergePatches(before, value);
  });
}

function keepFiniteNumbers(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}

const asObject = (value: unknown): JsonObject => (isRecord(value) ? (value as JsonObject) : {});

/** Chunks as frames carry them; long ones are split into pieces that continue each other. */
function* splitChunks(chunks: readonly FeedbackChunk[]): Generator<OutputChunk> {
  for (const { channel, text, data_base64, mime_type, metadata } of chunks) {
    const name = isChannelName(channel) ? channel : "log";
    const about = { channel: name, ...(mime_type !== undefined && { mime_type }), ...(metadata !== undefined && { metadata }) };
    if (typeof text === "string") for (const piece of splitText(text, cutBeforeSurrogate)) yield { ...about, text: piece };
    else if (typeof data_base64 === "string")
      for (const piece of splitText(data_base64, cutAtWholeBytes)) yield { ...about, data_base64: piece };
    else yield about;
  }
}

function* splitText(body: string, endOf: (body: string, to: number) => number): Generator<string> {
  if (body.length <= frameTextCharsMax) return yield body;
  for (let from = 0; from < body.length; ) {
    const to = from + frameTextCharsMax >= body.length ? body.length : endOf(body, from + frameTextCharsMax);
    yield body.slice(from, to);
    from = to;
  }
}

/** Never inside a surrogate pair. */
const cutBeforeSurrogate = (body: string, to: number): number => (/[\ud800-\udbff]/.test(body.charAt(to - 1)) ? to - 1 : to);

/** Whole bytes: four characters are three of them. `from` is a multiple of four, as the pieces before were. */
const cutAtWholeBytes = (_: string, to: number): number => to - (to % 4);
