// Words that must reach the scheduler: outcomes, feedback, calls, removed resources, refused packages, vendor frames; kept until acked, whatever becomes of sessions and sockets.
// Numbers, windows and repeats are the stream's (packages/session); here is what waits for one, and what moves from one to the next.
// All in memory: where outcomes are kept on disk too, they come here only once they are (work.ts, outbox-keeper.ts).

import type { AckPayload, Envelope, OutgoingFrame } from "@astraflow/protocol";
import type { Outgoing, Sent, Stream } from "@astraflow/session";
import type { Attempt } from "./attempt.ts";
import { Fifo } from "./fifo.ts";

export interface Word extends Outgoing {
  readonly kind: "outcome" | "feedback" | "ext" | "next" | "removed" | "package";
  readonly type: OutgoingFrame["type"];
  readonly corr: string | undefined;
  /** JSON text of the payload, built once. */
  readonly payload: string;
  /** The attempt that this word ends, if it ends one. */
  readonly attempt: Attempt | null;
  /** Its key in the outbox on disk; null where it is not kept there. */
  readonly key: number | null;
}

/** The numbered frames of one session, both ways. */
export type WordStream = Stream<Word, Envelope>;

export interface OutboxSettings {
  /** Bytes that may be under way unacked. */
  readonly bytesInFlightMax: number;
  /** Feedback words that may wait to be sent; the oldest gives way. */
  readonly feedbackWaitingMax: number;
  /** Vendor frames, and their bytes, that may be unacked; what is more is not taken. */
  readonly extMax: number;
  readonly extBytesMax: number;
}

/** About what the envelope around a payload weighs. */
const envelopeBytes = 250;

export function makeWord(given: {
  readonly kind: Word["kind"];
  readonly type: Word["type"];
  readonly id: string;
  readonly corr: string | undefined;
  readonly payload: string;
  /** The last words of an attempt travel with its outcome, not behind everybody's feedback. */
  readonly isUrgent?: boolean;
  readonly attempt?: Attempt | null;
  readonly key?: number | null;
}): Word {
  const { kind, type, id, corr, payload, isUrgent = kind !== "feedback" && kind !== "ext", attempt = null, key = null } = given;
  const lane = isUrgent ? "command" : "feedback";
  const batch = type === "biz.exec.result" ? "result" : null;
  return { lane, bytes: payload.length + envelopeBytes, batch, id, kind, type, corr, payload, attempt, key };
}

export class Outbox {
  readonly #settings: OutboxSettings;
  #stream: WordStream | null = null;
  /** Words that no stream has yet: there is none, it has no room for the lower lane, or one word at a time is on trial. */
  readonly #urgent = new Fifo<Word>();
  readonly #ext = new Fifo<Word>();
  readonly #feedback = new Fifo<Word>();
  /** Words that left in the stream's frames and are not acked. */
  #inFlight = 0;
  #size = 0;
  #outcomes = 0;
  #extCount = 0;
  #extBytes = 0;
  /** Words still to be sent one by one, because the scheduler choked on one of them. */
  #suspects = 0;

  constructor(settings: OutboxSettings) {
    this.#settings = settings;
  }

  /** Words that the scheduler has not acked. */
  get size(): number {
    return this.#size;
  }

  get outcomes(): number {
    return this.#outcomes;
  }

  /** Whether feedback would leave now; while it would not, it is better merged than queued. */
  get hasRoomForFeedback(): boolean {
    return this.#feedback.size === 0 && this.#suspects === 0 && this.#stream?.hasRoomFor("feedback") === true;
  }

  /** Whether a vendor frame of so many characters is taken. */
  hasRoomForExt(chars: number): boolean {
    return this.#extCount < this.#settings.extMax && this.#extBytes + chars <= this.#settings.extBytesMax;
  }

  /** Keeps a word. Gives back the feedback that had to go to make room. */
  put(word: Word): Word | undefined {
    this.#count(word, 1);
    if (word.lane === "command") {
      if (word.kind === "feedback") this.#bringForward(word.corr);
      this.#enterUrgent(word);
    } else if (word.kind === "ext") this.#ext.push(word);
    else {
      this.#feedback.push(word);
      if (this.#feedback.size > this.#settings.feedbackWaitingMax) return this.#dropOldest();
    }
    return undefined;
  }

  /** A new session: all that was not acked goes into its stream, outcomes first, each kind in its old order. */
  attach(stream: WordStream): void {
    this.#stream = stream;
    if (this.#suspects === 0) this.#offerUrgent(stream);
  }

  /** The session is over: what it did not deliver waits for the next. */
  detach(): void {
    const { flown, waiting } = this.#takeBack();
    this.#putBack([...flown, ...waiting]);
  }

  /**
   * The scheduler refused a frame as malformed, and with it the session. It did not say which, so what was under way goes again one by
   * one; a word that is refused alone is taken out and given back, or it would end every session from now on.
   */
  distrust(): Word | undefined {
    const { flown, waiting } = this.#takeBack();
    const culprit = this.#suspects > 0 && flown.length === 1 ? flown.pop() : undefined;
    if (culprit !== undefined) {
      this.#suspects--;
      this.#count(culprit, -1);
    } else this.#suspects = Math.max(this.#suspects, flown.length);
    this.#putBack([...flown, ...waiting]);
    return culprit;
  }

  /** Hands every frame that may leave now to `send`, for as long as that says that it takes more. */
  pump(now: number, nameOf: () => string, send: (sent: Sent<Word>) => boolean): void {
    const stream = this.#stream;
    if (stream === null) return;
    for (;;) {
      const sent = stream.take(now, nameOf) ?? (this.#offerNext(stream) ? stream.take(now, nameOf) : null);
      if (sent === null) return;
      this.#inFlight += sent.items.length;
      if (!send(sent)) return;
    }
  }

  /** What the scheduler has received. Gives the words that are settled by it; "unsent": it names what never left. */
  acked(ack: AckPayload, envelopeFor: string | undefined): readonly Word[] | "unsent" {
    const settled = this.#stream?.heardAck(ack, envelopeFor) ?? [];
    if (settled === "unsent") return settled;
    for (const word of settled) this.#count(word, -1);
    this.#inFlight -= settled.length;
    if (this.#suspects > 0) {
      this.#suspects = Math.max(0, this.#suspects - settled.length);
      if (this.#suspects === 0 && this.#stream !== null) this.#offerUrgent(this.#stream);
    }
    return settled;
  }

  #enterUrgent(word: Word): void {
    if (this.#stream !== null && this.#suspects === 0) this.#stream.offer(word);
    else this.#urgent.push(word);
  }

  /** What the attempt said before its last words goes before them: chunks that come after a later one are taken for repeats. */
  #bringForward(task: string | undefined): void {
    for (const word of this.#feedback.drain())
      if (word.corr === task) this.#enterUrgent({ ...word, lane: "command" });
      else this.#feedback.push(word);
  }

  #offerUrgent(stream: WordStream): void {
    for (let word = this.#nextUrgent(); word !== undefined; word = this.#nextUrgent()) stream.offer(word);
  }

  /**
   * What an attempt said last may pass everybody's feedback but its own: pieces of what it printed are counted, and one that came after
   * a later one would be taken for a repeat.
   */
  #nextUrgent(): Word | undefined {
    const word = this.#urgent.shift();
    if (word?.kind !== "feedback" || this.#feedback.size === 0) return word;
    const isOlder = (one: Word): boolean => one.corr === word.corr;
    const all = this.#feedback.drain();
    const [first, ...older] = all.filter(isOlder).map((one): Word => ({ ...one, lane: "command" }));
    this.#feedback.putBack(all.filter((one) => !isOlder(one)));
    if (first === undefined) return word;
    this.#urgent.putBack([...older, word]);
    return first;
  }

  /** The lower lane enters the stream only where it would leave at once: in here it can still give way, or be overtaken. */
  #offerNext(stream: WordStream): boolean {
    const isOnTrial = this.#suspects > 0;
    if (isOnTrial ? this.#inFlight > 0 || stream.counts.waiting > 0 : !stream.hasRoomFor("feedback")) return false;
    const word = this.#nextUrgent() ?? this.#ext.shift() ?? this.#feedback.shift();
    if (word === undefined) return false;
    stream.offer(word);
    return true;
  }

  #takeBack(): { flown: Word[]; waiting: Word[] } {
    const left = this.#stream?.takeLeft() ?? [];
    const flown = left.slice(0, this.#inFlight);
    const waiting = left.slice(this.#inFlight);
    this.#stream = null;
    this.#inFlight = 0;
    return { flown, waiting };
  }

  #putBack(older: readonly Word[]): void {
    this.#urgent.putBack(older.filter((word) => word.lane === "command"));
    this.#ext.putBack(older.filter((word) => word.kind === "ext"));
    this.#feedback.putBack(older.filter((word) => word.lane === "feedback" && word.kind === "feedback"));
  }

  #dropOldest(): Word | undefined {
    const oldest = this.#feedback.shift();
    if (oldest !== undefined) this.#count(oldest, -1);
    return oldest;
  }

  #count(word: Word, by: 1 | -1): void {
    this.#size += by;
    if (word.kind === "outcome") this.#outcomes += by;
    else if (word.kind === "ext") {
      this.#extCount += by;
      this.#extBytes += by * word.payload.length;
    }
  }
}
