// Messages to the scheduler, kept in memory until acked, whatever becomes of sessions. Numbers and resends are packages/session.

import type { AckPayload, Envelope, OutgoingFrame } from "@astraflow/protocol";
import { FifoQueue } from "@astraflow/protocol";
import type { OutgoingItem, ReliableStream, SentFrame } from "@astraflow/session";
import type { LocalAttempt } from "../attempts/attempt.ts";

export interface OutboxMessage extends OutgoingItem {
  readonly kind: "outcome" | "feedback" | "ext" | "next" | "removed" | "package";
  readonly type: OutgoingFrame["type"];
  readonly corr: string | undefined;
  /** JSON text of the payload, built once. */
  readonly payload: string;
  /** The attempt that this message ends, if it ends one. */
  readonly attempt: LocalAttempt | null;
  /** Its key in the outbox on disk; null where it is not kept there. */
  readonly key: number | null;
}

export type OutboxStream = ReliableStream<OutboxMessage, Envelope>;

export interface OutboxSettings {
  readonly bytesInFlightMax: number;
  /** Feedback messages that may wait to be sent; the oldest is dropped first. */
  readonly feedbackWaitingMax: number;
  /** Vendor frames, and their bytes, that may be unacked; what is more is not taken. */
  readonly vendorFramesMax: number;
  readonly vendorBytesMax: number;
}

const envelopeBytesEstimate = 250;

export type OutboxDraft = Pick<OutboxMessage, "kind" | "type" | "id" | "corr" | "payload"> &
  Partial<Pick<OutboxMessage, "attempt" | "key">> & {
    /** The last feedback of an attempt travels with its outcome, not behind the feedback of others. */
    readonly isUrgent?: boolean;
  };

function toMessage(draft: OutboxDraft): OutboxMessage {
  const { kind, type, id, corr, payload, isUrgent = kind !== "feedback" && kind !== "ext", attempt = null, key = null } = draft;
  const lane = isUrgent ? "command" : "feedback";
  const batch = type === "biz.exec.result" ? "result" : null;
  return { lane, bytes: payload.length + envelopeBytesEstimate, batch, id, kind, type, corr, payload, attempt, key };
}

export class Outbox {
  readonly #settings: OutboxSettings;
  #stream: OutboxStream | null = null;
  /** Messages that no stream has yet: there is none, the lower lane is full, or messages are being tried one at a time. */
  readonly #urgentQueue = new FifoQueue<OutboxMessage>();
  readonly #vendorQueue = new FifoQueue<OutboxMessage>();
  readonly #feedbackQueue = new FifoQueue<OutboxMessage>();
  /** Messages that left in the stream's frames and are not acked. */
  #inFlightCount = 0;
  #messageCount = 0;
  #outcomeCount = 0;
  #vendorCount = 0;
  #vendorBytes = 0;
  /** Messages still to be sent one by one, because the scheduler choked on one of them. */
  #suspectCount = 0;

  constructor(settings: OutboxSettings) {
    this.#settings = settings;
  }

  get messageCount(): number {
    return this.#messageCount;
  }

  get outcomeCount(): number {
    return this.#outcomeCount;
  }

  /** Whether feedback would leave now; while it would not, it is better merged than queued. */
  get hasRoomForFeedback(): boolean {
    return this.#feedbackQueue.size === 0 && this.#suspectCount === 0 && this.#stream?.canSendNow("feedback") === true;
  }

  /** Whether a vendor frame of so many characters is taken. */
  hasRoomForVendorFrame(chars: number): boolean {
    return this.#vendorCount < this.#settings.vendorFramesMax && this.#vendorBytes + chars <= this.#settings.vendorBytesMax;
  }

  /** Adds a message. Gives the feedback that was dropped to make room. */
  addMessage(draft: OutboxDraft): OutboxMessage | undefined {
    const message = toMessage(draft);
    this.#adjustCounts(message, 1);
    if (message.lane === "command") {
      if (message.kind === "feedback") this.#promoteFeedback(message.corr);
      this.#enqueueUrgent(message);
    } else if (message.kind === "ext") this.#vendorQueue.push(message);
    else {
      this.#feedbackQueue.push(message);
      if (this.#feedbackQueue.size > this.#settings.feedbackWaitingMax) return this.#dropOldestFeedback();
    }
    return undefined;
  }

  /** A new session: all that was not acked goes into its stream, outcomes first, each kind in its old order. */
  attachStream(stream: OutboxStream): void {
    this.#stream = stream;
    if (this.#suspectCount === 0) this.#offerUrgentMessages(stream);
  }

  /** The session is over: what it did not deliver waits for the next. */
  detachStream(): void {
    const { inFlight: flown, waiting } = this.#reclaimFromStream();
    this.#requeue([...flown, ...waiting]);
  }

  /** An unnamed frame ended the session: what was in flight is sent one by one, and one that is refused alone is removed. */
  isolateRejected(): OutboxMessage | undefined {
    const { inFlight: flown, waiting } = this.#reclaimFromStream();
    const culprit = this.#suspectCount > 0 && flown.length === 1 ? flown.pop() : undefined;
    if (culprit !== undefined) {
      this.#suspectCount--;
      this.#adjustCounts(culprit, -1);
    } else this.#suspectCount = Math.max(this.#suspectCount, flown.length);
    this.#requeue([...flown, ...waiting]);
    return culprit;
  }

  /** Hands every frame that may leave now to `send`, for as long as that returns true. */
  sendPending(now: number, nameOf: () => string, send: (sent: SentFrame<OutboxMessage>) => boolean): void {
    const stream = this.#stream;
    if (stream === null) return;
    for (;;) {
      const sent =
        stream.takeNextFrame(now, nameOf) ?? (this.#offerNextMessage(stream) ? stream.takeNextFrame(now, nameOf) : null);
      if (sent === null) return;
      this.#inFlightCount += sent.items.length;
      if (!send(sent)) return;
    }
  }

  /** What the scheduler has received. Gives the messages that are settled by it; "unsent": it names what never left. */
  handleAck(ack: AckPayload, envelopeFor: string | undefined): readonly OutboxMessage[] | "unsent" {
    const settled = this.#stream?.handleAck(ack, envelopeFor) ?? [];
    if (settled === "unsent") return settled;
    for (const message of settled) this.#adjustCounts(message, -1);
    this.#inFlightCount -= settled.length;
    if (this.#suspectCount > 0) {
      this.#suspectCount = Math.max(0, this.#suspectCount - settled.length);
      if (this.#suspectCount === 0 && this.#stream !== null) this.#offerUrgentMessages(this.#stream);
    }
    return settled;
  }

  #enqueueUrgent(message: OutboxMessage): void {
    if (this.#stream !== null && this.#suspectCount === 0) this.#stream.enqueue(message);
    else this.#urgentQueue.push(message);
  }

  /** Earlier feedback of the attempt goes before its last: chunks that come after a later one are taken for repeats. */
  #promoteFeedback(task: string | undefined): void {
    for (const message of this.#feedbackQueue.drain())
      if (message.corr === task) this.#enqueueUrgent({ ...message, lane: "command" });
      else this.#feedbackQueue.push(message);
  }

  #offerUrgentMessages(stream: OutboxStream): void {
    for (let message = this.#takeNextUrgent(); message !== undefined; message = this.#takeNextUrgent()) stream.enqueue(message);
  }

  /** The last feedback of an attempt may pass that of others but not its own, which would be taken for a repeat. */
  #takeNextUrgent(): OutboxMessage | undefined {
    const message = this.#urgentQueue.shift();
    if (message?.kind !== "feedback" || this.#feedbackQueue.size === 0) return message;
    const isOlder = (one: OutboxMessage): boolean => one.corr === message.corr;
    const all = this.#feedbackQueue.drain();
    const [first, ...older] = all.filter(isOlder).map((one): OutboxMessage => ({ ...one, lane: "command" }));
    this.#feedbackQueue.putInFront(all.filter((one) => !isOlder(one)));
    if (first === undefined) return message;
    this.#urgentQueue.putInFront([...older, message]);
    return first;
  }

  /** The lower lane enters the stream only where it would leave at once: in here it can still give way, or be overtaken. */
  #offerNextMessage(stream: OutboxStream): boolean {
    const isOnTrial = this.#suspectCount > 0;
    if (isOnTrial ? this.#inFlightCount > 0 || stream.counts.waiting > 0 : !stream.canSendNow("feedback")) return false;
    const message = this.#takeNextUrgent() ?? this.#vendorQueue.shift() ?? this.#feedbackQueue.shift();
    if (message === undefined) return false;
    stream.enqueue(message);
    return true;
  }

  #reclaimFromStream(): { inFlight: OutboxMessage[]; waiting: OutboxMessage[] } {
    const left = this.#stream?.takeUnacked() ?? [];
    const flown = left.slice(0, this.#inFlightCount);
    const waiting = left.slice(this.#inFlightCount);
    this.#stream = null;
    this.#inFlightCount = 0;
    return { inFlight: flown, waiting };
  }

  #requeue(older: readonly OutboxMessage[]): void {
    this.#urgentQueue.putInFront(older.filter((message) => message.lane === "command"));
    this.#vendorQueue.putInFront(older.filter((message) => message.kind === "ext"));
    this.#feedbackQueue.putInFront(older.filter((message) => message.lane === "feedback" && message.kind === "feedback"));
  }

  #dropOldestFeedback(): OutboxMessage | undefined {
    const oldest = this.#feedbackQueue.shift();
    if (oldest !== undefined) this.#adjustCounts(oldest, -1);
    return oldest;
  }

  #adjustCounts(message: OutboxMessage, by: 1 | -1): void {
    this.#messageCount += by;
    if (message.kind === "outcome") this.#outcomeCount += by;
    else if (message.kind === "ext") {
      this.#vendorCount += by;
      this.#vendorBytes += by * message.payload.length;
    }
  }
}
