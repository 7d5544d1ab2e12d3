// Words that must reach the scheduler: results and errors (upper lane) and feedback (lower lane), kept until acked.
// A word gets its transport number when it is sent and loses it with the session; its id and text stay the same for ever. Where the
// scheduler reads batches, results that wait together travel under one number.
// All in memory: where results are kept on disk too, they come here only once they are (work.ts, outbox-keeper.ts).

import { type Ack, type FrameType, limits } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import { Fifo } from "./fifo.ts";

export interface Word {
  readonly lane: "result" | "feedback";
  readonly type: FrameType;
  readonly id: string;
  readonly corr: string;
  /** JSON text of the payload, built once. */
  readonly payload: string;
  /** The attempt that this word ends, if it ends one. */
  readonly attempt: Attempt | null;
  /** Its key in the outbox on disk; null where it is not kept there. */
  readonly key: number | null;
}

/** Words that left in one frame, under one number. */
interface Parcel {
  readonly words: readonly Word[];
  readonly bytes: number;
  isAcked: boolean;
}

export interface OutboxSettings {
  /** Characters that may be under way unacked. */
  readonly bytesInFlightMax: number;
  /** Feedback words that may wait to be sent; the oldest gives way. */
  readonly feedbackWaitingMax: number;
}

export class Outbox {
  readonly #settings: OutboxSettings;
  readonly #results = new Fifo<Word>();
  readonly #feedback = new Fifo<Word>();
  /** Sent in this session and not yet released, in the order of their numbers; the first has number #base. */
  readonly #inFlight = new Fifo<Parcel>();
  #wordsInFlight = 0;
  #base = 0;
  #bytesInFlight = 0;
  #window = 64;
  #batchMax = 1;
  /** Words still to be sent one by one, because the scheduler choked on one of them. */
  #suspects = 0;

  constructor(settings: OutboxSettings) {
    this.#settings = settings;
  }

  /** Words that the scheduler has not acked. */
  get size(): number {
    return this.#results.size + this.#feedback.size + this.#wordsInFlight;
  }

  /** Whether feedback would leave now; while it would not, it is better merged than queued. */
  get hasRoomForFeedback(): boolean {
    return this.#feedback.size === 0 && this.#hasRoom(this.#feedbackWindow);
  }

  /** Keeps a word. Gives back the feedback that had to go to make room. */
  put(word: Word): Word | undefined {
    if (word.lane === "result") {
      this.#results.push(word);
      return undefined;
    }
    this.#feedback.push(word);
    return this.#feedback.size > this.#settings.feedbackWaitingMax ? this.#feedback.shift() : undefined;
  }

  /** Hands all words that may travel now to `send`, as many at once as share a number. Results pass feedback that waits. */
  pump(send: (words: readonly Word[], number: number) => void): void {
    while (this.#results.size > 0 && this.#hasRoom(this.#window)) this.#send(this.#results, send);
    while (this.#results.size === 0 && this.#feedback.size > 0 && this.#hasRoom(this.#feedbackWindow)) {
      this.#send(this.#feedback, send);
    }
  }

  /** What the scheduler has received: all up to ack_seq, and above it the set bits. Gives the words that are settled by it. */
  acked(ack: Ack): Word[] {
    const settled: Word[] = [];
    if (ack.recv_window !== undefined) this.#window = ack.recv_window;
    if (ack.ack_seq === undefined) return settled;
    markBits(ack.ack_bitmap, (bit) => this.#settle((ack.ack_seq as number) + 1 + bit - this.#base, settled));
    // An ack beyond what was sent is nonsense of the other end; taking it for the words that exist would lose them.
    if (ack.ack_seq >= this.#base + this.#inFlight.size) return settled;
    for (let index = ack.ack_seq - this.#base; index >= 0; index--) this.#settle(index, settled);
    while (this.#inFlight.peek()?.isAcked) {
      this.#inFlight.shift();
      this.#base++;
    }
    return settled;
  }

  /** A new session: numbers start at 0 and all that was not acked is sent again, in its old order, so many results in a frame. */
  rewind(window: number, batchMax: number): void {
    const unacked = this.#takeUnacked();
    this.#results.putBack(unacked.filter((word) => word.lane === "result"));
    this.#feedback.putBack(unacked.filter((word) => word.lane === "feedback"));
    this.#base = 0;
    this.#wordsInFlight = 0;
    this.#bytesInFlight = 0;
    this.#window = window;
    this.#batchMax = batchMax;
  }

  /**
   * The scheduler refused a frame as malformed. It did not say which, so what was under way goes again one by one; a word
   * that is refused alone is taken out and given back, or it would end every session from now on.
   */
  distrust(): Word | undefined {
    const unacked = this.#takeUnacked();
    const culprit = this.#suspects > 0 && unacked.length === 1 ? unacked.pop() : undefined;
    if (culprit !== undefined) this.#suspects--;
    else this.#suspects = Math.max(this.#suspects, unacked.length);
    this.#wordsInFlight = unacked.length;
    if (unacked.length > 0) this.#inFlight.push({ words: unacked, bytes: 0, isAcked: false });
    return culprit;
  }

  #takeUnacked(): Word[] {
    return this.#inFlight.drain().flatMap(({ isAcked, words }) => (isAcked ? [] : words));
  }

  get #feedbackWindow(): number {
    return Math.max(1, Math.floor((this.#window * 3) / 4));
  }

  #hasRoom(window: number): boolean {
    const framesMax = this.#suspects > 0 ? 1 : window;
    return this.#inFlight.size < framesMax && this.#bytesInFlight < this.#settings.bytesInFlightMax;
  }

  #send(lane: Fifo<Word>, send: (words: readonly Word[], number: number) => void): void {
    const words: Word[] = [];
    let bytes = 0;
    const framed = this.#suspects > 0 ? 1 : this.#batchMax;
    for (let word = lane.peek(); word !== undefined && words.length < framed; word = lane.peek()) {
      const isAlone = word.type !== "biz.exec.result" || words[0]?.type !== "biz.exec.result";
      if (words.length > 0 && (isAlone || bytes + word.payload.length > limits.resultInlineBytesMax)) break;
      lane.shift();
      words.push(word);
      bytes += word.payload.length;
    }
    const number = this.#base + this.#inFlight.size;
    this.#inFlight.push({ words, bytes, isAcked: false });
    this.#wordsInFlight += words.length;
    this.#bytesInFlight += bytes;
    send(words, number);
  }

  #settle(index: number, settled: Word[]): void {
    const parcel = index < 0 ? undefined : this.#inFlight.at(index);
    if (parcel === undefined || parcel.isAcked) return;
    parcel.isAcked = true;
    this.#bytesInFlight -= parcel.bytes;
    this.#wordsInFlight -= parcel.words.length;
    this.#suspects = Math.max(0, this.#suspects - parcel.words.length);
    for (const word of parcel.words) settled.push(word);
  }
}

/** Calls `hear` with each set bit of a bitmap, which is a number or lowercase hex. */
function markBits(bitmap: number | string | undefined, hear: (bit: number) => void): void {
  if (bitmap === undefined || bitmap === 0) return;
  let bits = typeof bitmap === "number" ? BigInt(bitmap) : BigInt(`0x${bitmap}`);
  for (let bit = 0; bits > 0n; bit++, bits >>= 1n) if (bits & 1n) hear(bit);
}
