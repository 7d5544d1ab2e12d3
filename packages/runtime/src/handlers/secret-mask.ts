// Removes a task's secrets, found by value and in the encodings of secret-patterns.ts, from what its handler reports. Pieces of a secret are
// not found.

import type { JsonObject } from "@astraflow/protocol";
import type { FeedbackChunk, FeedbackInput, HandlerVendorFrames } from "@astraflow/sdk";
import type { HandlerOutcome } from "../attempts/outcome.ts";
import { createBase64Patterns, MaskedBase64Stream, toByteText } from "./base64-mask.ts";
import { encodingsOf, MaskedStream, maskPlaceholder, SecretPatterns } from "./secret-patterns.ts";

/** Shorter values occur in too many texts by chance. */
const secretCharsMin = 8;

/** Null where the parameters hold no secret, as nearly all do. `openKeys`: what is granted under these is no secret. */
export function createSecretMask(params: JsonObject, nonSecretKeys: ReadonlySet<string> = noKeys): SecretMask | null {
  const bindings = params["__resourceBindings"];
  if (typeof bindings !== "object" || bindings === null) return null;
  const values = Object.entries(bindings).flatMap(([key, binding]) => {
    const value: unknown = (binding as { value?: unknown } | null)?.value;
    return typeof value === "string" && value.length >= secretCharsMin && !nonSecretKeys.has(key) ? [value] : [];
  });
  return values.length === 0 ? null : new SecretMask(values);
}

const noKeys: ReadonlySet<string> = new Set();

export class SecretMask {
  readonly #patterns: SecretPatterns;
  readonly #bytePatterns: SecretPatterns;
  readonly #base64Patterns: SecretPatterns;
  /** By channel: the output so far ends with what may be the beginning of a secret. */
  readonly #streams = new Map<string, MaskedStream>();
  readonly #base64Streams = new Map<string, { readonly stream: MaskedBase64Stream; about: FeedbackChunk }>();

  constructor(values: readonly string[]) {
    const forms = values.flatMap(encodingsOf);
    this.#patterns = new SecretPatterns(forms);
    this.#bytePatterns = new SecretPatterns(forms.map(toByteText));
    this.#base64Patterns = createBase64Patterns(values);
  }

  maskText(text: string): string {
    return this.#patterns.mask(text);
  }

  /** The next piece of a channel. What may become a secret with the piece after it is held back until then. */
  maskStreamText(channel: string, text: string): string {
    let stream = this.#streams.get(channel);
    if (stream === undefined) this.#streams.set(channel, (stream = new MaskedStream(this.#patterns)));
    return stream.next(text);
  }

  /** The same for bytes: the chunks that may be sent now. `about`: what the chunk says beside its bytes. */
  maskStreamBase64(about: FeedbackChunk, text: string): string[] {
    const channel = about.channel ?? "log";
    let entry = this.#base64Streams.get(channel);
    if (entry === undefined) {
      entry = { stream: new MaskedBase64Stream(this.#base64Patterns, this.#bytePatterns), about };
      this.#base64Streams.set(channel, entry);
    }
    entry.about = about;
    return entry.stream.next(text);
  }

  /** The handler has ended: what was held back was none. */
  takeHeldChunks(): FeedbackChunk[] {
    const held: FeedbackChunk[] = [];
    for (const [channel, stream] of this.#streams) {
      const text = stream.end();
      if (text !== "") held.push({ channel, text });
    }
    for (const { stream, about } of this.#base64Streams.values())
      held.push(...stream.end().map((data_base64) => ({ ...about, data_base64 })));
    this.#streams.clear();
    this.#base64Streams.clear();
    return held;
  }

  /** For a file that is read piece by piece, one character a byte. */
  createByteStream(): MaskedStream {
    return new MaskedStream(this.#bytePatterns);
  }

  /** The same for a file that is decoded to text first. */
  createTextStream(): MaskedStream {
    return new MaskedStream(this.#patterns);
  }

  /** The very same value where nothing is in it. Throws where it cannot be written as JSON. */
  maskJson<T>(value: T): T {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined || !this.#patterns.occursIn(text)) return value;
    return this.#maskValue(JSON.parse(text)) as T;
  }

  #maskValue(value: unknown): unknown {
    if (typeof value === "string") return this.maskText(value);
    if (typeof value === "number") return this.#patterns.occursIn(String(value)) ? maskPlaceholder : value;
    if (Array.isArray(value)) return value.map((one) => this.#maskValue(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [this.maskText(key), this.#maskValue(one)]));
  }
}

/** What a handler reports, without its secrets; null where nothing of it may be sent yet. Throws where it cannot be written as JSON. */
export function maskFeedback(mask: SecretMask, input: FeedbackInput): FeedbackInput | null {
  const { chunks, stage, message, metrics, metadata, ...rest } = input;
  const masked = Array.isArray(chunks) ? chunks.flatMap((chunk) => maskChunk(mask, chunk)) : [];
  const isAll = masked.length === 0 && Object.keys(input).every((key) => key === "chunks");
  if (isAll && (chunks?.length ?? 0) > 0) return null;
  return {
    ...rest,
    ...(stage !== undefined && { stage: typeof stage === "string" ? mask.maskText(stage) : stage }),
    ...(message !== undefined && { message: typeof message === "string" ? mask.maskText(message) : message }),
    // A number that is a secret becomes a text, which no metric is: it is left out.
    ...(metrics !== undefined && { metrics: mask.maskJson(metrics) }),
    ...(metadata !== undefined && { metadata: mask.maskJson(metadata) }),
    ...(masked.length > 0 && { chunks: masked }),
  };
}

/** How an attempt ended, without its secrets; the very same where none is in it. Throws where a result cannot be written as JSON. */
export function maskOutcome(mask: SecretMask, outcome: HandlerOutcome): HandlerOutcome {
  if (outcome.type === "error") {
    const { message, stack } = outcome;
    return { ...outcome, message: mask.maskText(message), ...(stack !== undefined && { stack: mask.maskText(stack) }) };
  }
  const { type, status, durationMs, ...content } = outcome;
  const clean = mask.maskJson(content);
  return clean === content ? outcome : { type, status, durationMs, ...clean };
}

export function maskVendorFrames(mask: SecretMask, frames: HandlerVendorFrames): HandlerVendorFrames {
  return { ...frames, send: async (type, payload, options) => frames.send(type, mask.maskJson(payload), options) };
}

function maskChunk(mask: SecretMask, chunk: FeedbackChunk): FeedbackChunk[] {
  const { text, data_base64, ...others } = chunk;
  const about = mask.maskJson(others);
  if (typeof text !== "string") {
    if (typeof data_base64 !== "string") return [about];
    return mask.maskStreamBase64(about, data_base64).map((data) => ({ ...about, data_base64: data }));
  }
  const clean = mask.maskStreamText(about.channel ?? "log", text);
  return clean === "" && text !== "" && about.metadata === undefined ? [] : [{ ...about, text: clean }];
}
