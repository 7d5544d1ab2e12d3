// Secrets that a task was granted, taken out of what its handler says: known by their values, whatever names they stand under. What is
// told of them in pieces, or changed beyond the usual spellings, is not found. Bindings as a whole are left out elsewhere.

import type { JsonObject } from "@astraflow/protocol";
import type { FeedbackChunk, FeedbackInput } from "./feedback.ts";
import type { KnownOutcome } from "./outcome.ts";

/** What stands in the place of a secret. */
const secretMark = "***";
/** Anything shorter stands in too many texts by chance. */
const secretCharsMin = 8;

/** Null where the parameters hold no secret, as nearly all do. `openKeys`: what is granted under these is no secret. */
export function maskFor(params: JsonObject, openKeys: ReadonlySet<string> = noKeys): SecretMask | null {
  const bindings = params["__resourceBindings"];
  if (typeof bindings !== "object" || bindings === null) return null;
  const values = Object.entries(bindings).flatMap(([key, binding]) => {
    const value: unknown = (binding as { value?: unknown } | null)?.value;
    return typeof value === "string" && value.length >= secretCharsMin && !openKeys.has(key) ? [value] : [];
  });
  return values.length === 0 ? null : new SecretMask(values);
}

const noKeys: ReadonlySet<string> = new Set();

interface Form {
  readonly text: string;
  /** For each of its beginnings: the length of the longest shorter beginning that it ends with. */
  readonly back: readonly number[];
}

export class SecretMask {
  /** Longest first, so that one that holds another goes whole. */
  readonly #forms: readonly Form[];
  /** By channel: the end of what was said, while it may be the beginning of a secret. */
  readonly #held = new Map<string, string>();

  constructor(values: readonly string[]) {
    const forms = new Set(values.flatMap(spellings));
    this.#forms = [...forms].sort((a, b) => b.length - a.length).map((text) => ({ text, back: backOf(text) }));
  }

  text(text: string): string {
    let clean = text;
    for (const form of this.#forms) if (clean.includes(form.text)) clean = clean.replaceAll(form.text, secretMark);
    return clean;
  }

  /** The next piece of a channel. What may become a secret with the piece after it is held back until then. */
  piece(channel: string, text: string): string {
    const clean = this.text((this.#held.get(channel) ?? "") + text);
    const held = Math.max(...this.#forms.map((form) => beginningAtEnd(form, clean)));
    this.#held.set(channel, clean.slice(clean.length - held));
    return clean.slice(0, clean.length - held);
  }

  /** The handler has ended: what was held back was none. */
  takeHeld(): FeedbackChunk[] {
    const held = [...this.#held].flatMap(([channel, text]) => (text === "" ? [] : [{ channel, text } as FeedbackChunk]));
    this.#held.clear();
    return held;
  }

  /** The very same value where nothing is in it. Throws where it cannot be written as JSON. */
  json<T>(value: T): T {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined || !this.#forms.some((form) => text.includes(form.text))) return value;
    return this.#walk(JSON.parse(text)) as T;
  }

  /** Bytes as base64 text. */
  base64(text: string): string {
    const bytes = Buffer.from(text, "base64").toString("latin1");
    let clean = bytes;
    for (const form of this.#forms) clean = clean.replaceAll(Buffer.from(form.text).toString("latin1"), secretMark);
    return clean === bytes ? text : Buffer.from(clean, "latin1").toString("base64");
  }

  #walk(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (typeof value === "number") return this.#forms.some((form) => form.text === String(value)) ? secretMark : value;
    if (Array.isArray(value)) return value.map((one) => this.#walk(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [this.text(key), this.#walk(one)]));
  }
}

/** What a handler reports, without its secrets; null where nothing of it may be said yet. Throws where it cannot be written as JSON. */
export function maskFeedback(mask: SecretMask, input: FeedbackInput): FeedbackInput | null {
  const { chunks, stage, message, metadata, ...rest } = input;
  const said = Array.isArray(chunks) ? chunks.flatMap((chunk) => maskChunk(mask, chunk)) : [];
  const isAll = said.length === 0 && Object.keys(input).every((key) => key === "chunks");
  if (isAll && (chunks?.length ?? 0) > 0) return null;
  return {
    ...rest,
    ...(stage !== undefined && { stage: typeof stage === "string" ? mask.text(stage) : stage }),
    ...(message !== undefined && { message: typeof message === "string" ? mask.text(message) : message }),
    ...(metadata !== undefined && { metadata: mask.json(metadata) }),
    ...(said.length > 0 && { chunks: said }),
  };
}

/** How an attempt ended, without its secrets; the very same where none is in it. Throws where a result cannot be written as JSON. */
export function maskOutcome(mask: SecretMask, outcome: KnownOutcome): KnownOutcome {
  if (outcome.type === "error") return { ...outcome, message: mask.text(outcome.message) };
  const { type, status, durationMs, ...said } = outcome;
  const clean = mask.json(said);
  return clean === said ? outcome : { type, status, durationMs, ...clean };
}

function maskChunk(mask: SecretMask, chunk: FeedbackChunk): FeedbackChunk[] {
  const { text, data_base64, metadata, ...rest } = chunk;
  const about = metadata === undefined ? rest : { ...rest, metadata: mask.json(metadata) };
  if (typeof text !== "string")
    return [typeof data_base64 === "string" ? { ...about, data_base64: mask.base64(data_base64) } : about];
  const clean = mask.piece(chunk.channel ?? "log", text);
  return clean === "" && text !== "" && metadata === undefined ? [] : [{ ...about, text: clean }];
}

/** As it is, and as it stands in JSON, in an address and in base64. */
function spellings(value: string): string[] {
  const base64 = Buffer.from(value).toString("base64").replace(/=+$/, "");
  return [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed()), base64];
}

function backOf(text: string): number[] {
  const back = [0];
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = back[length - 1] ?? 0;
    if (text[at] === text[length]) length++;
    back.push(length);
  }
  return back;
}

/** How much of the text's end is a beginning of the form, never all of it. */
function beginningAtEnd({ text: form, back }: Form, text: string): number {
  let length = 0;
  for (let at = Math.max(0, text.length - form.length + 1); at < text.length; at++) {
    while (length > 0 && text[at] !== form[length]) length = back[length - 1] ?? 0;
    if (text[at] === form[length]) length++;
  }
  return length;
}
