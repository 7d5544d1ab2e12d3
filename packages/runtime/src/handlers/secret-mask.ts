// Removes a task's secrets, found by value, from what its handler reports. Pieces of a secret and rare encodings are not found.

import type { JsonObject } from "@astraflow/protocol";
import type { FeedbackChunk, FeedbackInput } from "../attempts/feedback.ts";
import type { HandlerOutcome } from "../attempts/outcome.ts";

const maskPlaceholder = "***";
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

interface SecretPattern {
  readonly text: string;
  /** For each of its beginnings: the length of the longest shorter beginning that it ends with. */
  readonly failureTable: readonly number[];
}

export class SecretMask {
  /** Longest first, so that one that holds another goes whole. */
  readonly #patterns: readonly SecretPattern[];
  /** By channel: the end of the output so far, while it may be the beginning of a secret. */
  readonly #heldByChannel = new Map<string, string>();

  constructor(values: readonly string[]) {
    const forms = new Set(values.flatMap(encodingsOf));
    this.#patterns = [...forms]
      .sort((a, b) => b.length - a.length)
      .map((text) => ({ text, failureTable: buildFailureTable(text) }));
  }

  maskText(text: string): string {
    let clean = text;
    for (const form of this.#patterns) if (clean.includes(form.text)) clean = clean.replaceAll(form.text, maskPlaceholder);
    return clean;
  }

  /** The next piece of a channel. What may become a secret with the piece after it is held back until then. */
  maskStreamText(channel: string, text: string): string {
    const clean = this.maskText((this.#heldByChannel.get(channel) ?? "") + text);
    const held = Math.max(...this.#patterns.map((form) => partialMatchLength(form, clean)));
    this.#heldByChannel.set(channel, clean.slice(clean.length - held));
    return clean.slice(0, clean.length - held);
  }

  /** The handler has ended: what was held back was none. */
  takeHeldChunks(): FeedbackChunk[] {
    const held = [...this.#heldByChannel].flatMap(([channel, text]) => (text === "" ? [] : [{ channel, text } as FeedbackChunk]));
    this.#heldByChannel.clear();
    return held;
  }

  /** The very same value where nothing is in it. Throws where it cannot be written as JSON. */
  maskJson<T>(value: T): T {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined || !this.#patterns.some((form) => text.includes(form.text))) return value;
    return this.#maskValue(JSON.parse(text)) as T;
  }

  maskBase64(text: string): string {
    const bytes = Buffer.from(text, "base64").toString("latin1");
    let clean = bytes;
    for (const form of this.#patterns) clean = clean.replaceAll(Buffer.from(form.text).toString("latin1"), maskPlaceholder);
    return clean === bytes ? text : Buffer.from(clean, "latin1").toString("base64");
  }

  #maskValue(value: unknown): unknown {
    if (typeof value === "string") return this.maskText(value);
    if (typeof value === "number") return this.#patterns.some((form) => form.text === String(value)) ? maskPlaceholder : value;
    if (Array.isArray(value)) return value.map((one) => this.#maskValue(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [this.maskText(key), this.#maskValue(one)]));
  }
}

/** What a handler reports, without its secrets; null where nothing of it may be sent yet. Throws where it cannot be written as JSON. */
export function maskFeedback(mask: SecretMask, input: FeedbackInput): FeedbackInput | null {
  const { chunks, stage, message, metadata, ...rest } = input;
  const masked = Array.isArray(chunks) ? chunks.flatMap((chunk) => maskChunk(mask, chunk)) : [];
  const isAll = masked.length === 0 && Object.keys(input).every((key) => key === "chunks");
  if (isAll && (chunks?.length ?? 0) > 0) return null;
  return {
    ...rest,
    ...(stage !== undefined && { stage: typeof stage === "string" ? mask.maskText(stage) : stage }),
    ...(message !== undefined && { message: typeof message === "string" ? mask.maskText(message) : message }),
    ...(metadata !== undefined && { metadata: mask.maskJson(metadata) }),
    ...(masked.length > 0 && { chunks: masked }),
  };
}

/** How an attempt ended, without its secrets; the very same where none is in it. Throws where a result cannot be written as JSON. */
export function maskOutcome(mask: SecretMask, outcome: HandlerOutcome): HandlerOutcome {
  if (outcome.type === "error") return { ...outcome, message: mask.maskText(outcome.message) };
  const { type, status, durationMs, ...content } = outcome;
  const clean = mask.maskJson(content);
  return clean === content ? outcome : { type, status, durationMs, ...clean };
}

function maskChunk(mask: SecretMask, chunk: FeedbackChunk): FeedbackChunk[] {
  const { text, data_base64, metadata, ...rest } = chunk;
  const about = metadata === undefined ? rest : { ...rest, metadata: mask.maskJson(metadata) };
  if (typeof text !== "string")
    return [typeof data_base64 === "string" ? { ...about, data_base64: mask.maskBase64(data_base64) } : about];
  const clean = mask.maskStreamText(chunk.channel ?? "log", text);
  return clean === "" && text !== "" && metadata === undefined ? [] : [{ ...about, text: clean }];
}

/** The secret as it is, in JSON, in a URL and in base64. */
function encodingsOf(value: string): string[] {
  const base64 = Buffer.from(value).toString("base64").replace(/=+$/, "");
  return [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed()), base64];
}

function buildFailureTable(text: string): number[] {
  const back = [0];
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = back[length - 1] ?? 0;
    if (text[at] === text[length]) length++;
    back.push(length);
  }
  return back;
}

/** How much of the text's end is a beginning of the form, never all of it. */
function partialMatchLength({ text: form, failureTable: back }: SecretPattern, text: string): number {
  let length = 0;
  for (let at = Math.max(0, text.length - form.length + 1); at < text.length; at++) {
    while (length > 0 && text[at] !== form[length]) length = back[length - 1] ?? 0;
    if (text[at] === form[length]) length++;
  }
  return length;
}
