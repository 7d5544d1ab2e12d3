// What a handler says while it works: made fit for the wire, and merged per attempt for as long as it cannot leave.
// When it leaves, and that a result may overtake it, is decided in link.ts.

import type { FeedbackPayload, JsonObject, OutputChunk } from "@astraflow/protocol";
import { limits } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";

export interface FeedbackChunk {
  readonly channel?: OutputChunk["channel"];
  readonly text?: string;
  readonly data_base64?: string;
  readonly mime_type?: string;
  readonly metadata?: JsonObject;
}

/** What a handler may report; `metadata.results` is merged into the node's results while it runs. */
export interface FeedbackInput {
  readonly stage?: string;
  readonly progress?: number;
  readonly message?: string;
  readonly chunks?: readonly FeedbackChunk[];
  readonly metrics?: Readonly<Record<string, number>>;
  readonly metadata?: JsonObject;
}

/** Characters of chunk text in one frame: a third of the frame's bytes, since a character may take three. */
const draftCharsMax = Math.floor(limits.feedbackBytesMax / 3);
const channels: ReadonlySet<string> = new Set(["stdout", "stderr", "log", "llm", "metric", "custom"]);

interface Draft {
  body: FeedbackPayload;
  chunks: OutputChunk[];
  chars: number;
}

export class FeedbackDrafts {
  readonly #drafts = new Map<Attempt, Draft>();
  /** Chunks said so far by each attempt: their index tells a reader what it has already seen. */
  readonly #indexes = new WeakMap<Attempt, number>();

  get size(): number {
    return this.#drafts.size;
  }

  /** Adds to what waits for this attempt. Gives the payloads that became full on the way. */
  add(attempt: Attempt, input: FeedbackInput): string[] {
    const full: string[] = [];
    let draft = this.#draftOf(attempt);
    const results = asObject(input.metadata?.["results"]);
    if (!canFollow(asObject(draft.body.metadata?.["results"]), results)) {
      full.push(this.take(attempt) as string);
      draft = this.#draftOf(attempt);
    }
    mergeInto(draft.body, input);
    for (const piece of piecesOf(input.chunks ?? [])) {
      const chars = (piece.text ?? piece.data_base64 ?? "").length;
      const isFull = draft.chars + chars > draftCharsMax || draft.chunks.length >= limits.chunksMax;
      if (isFull && draft.chunks.length > 0) {
        full.push(this.take(attempt) as string);
        draft = this.#draftOf(attempt);
      }
      const index = this.#indexes.get(attempt) ?? 0;
      this.#indexes.set(attempt, index + 1);
      draft.chunks.push({ ...piece, index });
      draft.chars += chars;
    }
    return full;
  }

  /** The payload that waits for this attempt, as JSON text. */
  take(attempt: Attempt): string | undefined {
    const draft = this.#drafts.get(attempt);
    if (draft === undefined) return undefined;
    this.#drafts.delete(attempt);
    return JSON.stringify(draft.chunks.length === 0 ? draft.body : { ...draft.body, chunks: draft.chunks });
  }

  /** Attempts with something waiting, oldest first. */
  attempts(): Attempt[] {
    return [...this.#drafts.keys()];
  }

  forget(attempt: Attempt): void {
    this.#drafts.delete(attempt);
  }

  #draftOf(attempt: Attempt): Draft {
    let draft = this.#drafts.get(attempt);
    if (draft === undefined) {
      draft = { body: { run_id: attempt.run, task_id: attempt.task, fence: attempt.fence }, chunks: [], chars: 0 };
      this.#drafts.set(attempt, draft);
    }
    return draft;
  }
}

/** The newest word wins; results are merged key by key, as the scheduler would: two patches in one frame do what they would in two. */
function mergeInto(body: FeedbackPayload, input: FeedbackInput): void {
  if (typeof input.stage === "string" && input.stage !== "") body.stage = input.stage.slice(0, limits.nameCharsMax);
  if (typeof input.progress === "number" && Number.isFinite(input.progress)) body.progress = clampShare(input.progress);
  if (typeof input.message === "string") body.message = input.message.slice(0, limits.textCharsMax);
  if (input.metrics !== undefined) body.metrics = { ...body.metrics, ...finiteOnly(input.metrics) };
  if (input.metadata !== undefined) {
    const results = mergePatches(asObject(body.metadata?.["results"]), asObject(input.metadata["results"]));
    body.metadata = { ...body.metadata, ...input.metadata, ...(Object.keys(results).length > 0 && { results }) };
  }
}

/** A null stays a null: it removes what the scheduler has. */
function mergePatches(first: JsonObject, second: JsonObject): JsonObject {
  const merged = { ...first };
  for (const [key, value] of Object.entries(second)) {
    const before = merged[key];
    merged[key] = isObject(before) && isObject(value) ? mergePatches(before, value) : value;
  }
  return merged;
}

/** False where the first replaces or removes what the second adds to: one patch cannot say both. */
function canFollow(first: JsonObject, second: JsonObject): boolean {
  return Object.entries(second).every(([key, value]) => {
    if (!Object.hasOwn(first, key) || !isObject(value)) return true;
    const before = first[key];
    return isObject(before) && canFollow(before, value);
  });
}

function clampShare(share: number): number {
  return Math.min(1, Math.max(0, share));
}

function finiteOnly(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}

const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);

const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Chunks in the words of the wire; long ones in pieces that read on as if they were one. */
function* piecesOf(chunks: readonly FeedbackChunk[]): Generator<OutputChunk> {
  for (const { channel, text, data_base64, ...rest } of chunks) {
    const about = { channel: channel !== undefined && channels.has(channel) ? channel : "log", ...rest } as const;
    if (typeof text === "string") for (const piece of cut(text, cutText)) yield { ...about, text: piece };
    else if (typeof data_base64 === "string")
      for (const piece of cut(data_base64, cutBase64)) yield { ...about, data_base64: piece };
    else yield about;
  }
}

function* cut(body: string, endOf: (body: string, to: number) => number): Generator<string> {
  if (body.length <= draftCharsMax) return yield body;
  for (let from = 0; from < body.length; ) {
    const to = from + draftCharsMax >= body.length ? body.length : endOf(body, from + draftCharsMax);
    yield body.slice(from, to);
    from = to;
  }
}

/** Never inside a surrogate pair. */
const cutText = (body: string, to: number): number => (isHighSurrogate(body.charCodeAt(to - 1)) ? to - 1 : to);

/** Whole bytes: four characters are three of them. `from` is a multiple of four, as the pieces before were. */
const cutBase64 = (_: string, to: number): number => to - (to % 4);

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
