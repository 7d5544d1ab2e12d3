// One session as its worker sees it: names, token, windows, and how frames of work come and go in it. It outlives its sockets; what it
// does not deliver moves to the next. Whether there is a socket, and which phase the link is in, is link.ts.

import { type AckPayload, type Envelope, limits, type SessionAcceptPayload } from "@astraflow/protocol";
import { type Due, dialectRules, type Sent, Stream, type StreamCounts } from "@astraflow/session";
import type { FrameWriter } from "./frame-writer.ts";
import type { Intake } from "./link-intake.ts";
import type { LinkPorts, LinkSettings } from "./link-ports.ts";
import type { Word, WordStream } from "./outbox.ts";
import type { Work } from "./work.ts";

export interface SessionParts {
  readonly ports: Pick<LinkPorts, "now" | "roll" | "buffered">;
  readonly settings: LinkSettings;
  readonly writer: FrameWriter;
  readonly work: Work;
  readonly intake: Intake;
  noteIgnored(envelope: Envelope, problem: string): void;
}

export class LinkSession {
  readonly id: string;
  /** Shown at a resume. Every accept brings another and ends the one before. */
  token: string;
  readonly #parts: SessionParts;
  readonly #stream: WordStream;

  /** A fresh one: numbers start at 0, and all that was not acked goes into it. */
  constructor(accept: SessionAcceptPayload, parts: SessionParts) {
    const { session_id, session_token, send_window, recv_window, features } = accept;
    const { windowDefault, outbox, bytesHeldMax } = parts.settings;
    this.id = session_id;
    this.token = session_token;
    this.#parts = parts;
    this.#stream = new Stream(dialectRules.v2, {
      sendFrames: recv_window ?? windowDefault,
      sendBytes: outbox.bytesInFlightMax,
      recvFrames: send_window ?? windowDefault,
      recvBytes: bytesHeldMax,
      batchMax: features?.includes("batch") ? limits.batchItemsMax : 1,
      batchBytesMax: limits.resultInlineBytesMax,
    });
    parts.work.attach(this.#stream);
  }

  get lastSeen(): number {
    return this.#stream.lastSeen;
  }

  get counts(): StreamCounts {
    return this.#stream.counts;
  }

  get nextDue(): number {
    return this.#stream.nextDue;
  }

  get isOwing(): boolean {
    return this.#stream.isOwing;
  }

  /** A frame of work. The stream puts them in order and drops repeats; each is acked once it was taken in. */
  arrive(envelope: Envelope, bytes: number): void {
    const { ports, intake, noteIgnored } = this.#parts;
    const { seq: number, id, corr, ack } = envelope;
    const frame = { number, id, corr, isAsked: ack?.request === true, bytes };
    for (const { ticket, item } of this.#stream.arrive(frame, envelope, ports.now()).deliver) {
      const problem = intake.take(item);
      if (problem === null) {
        this.#stream.settle(ticket);
        continue;
      }
      noteIgnored(item, problem);
      this.#stream.refuse(ticket, problem);
    }
  }

  /** One ack for all that came, then the words that may travel. */
  flush(): void {
    const { writer, work } = this.#parts;
    if (this.#stream.isOwing) {
      for (const ack of this.#stream.takeAcks()) writer.control("control.ack", ack, { ackFor: ack.for });
    }
    if (this.#isCrowded) return;
    work.pump((sent) => {
      writer.words(sent);
      return !this.#isCrowded;
    });
  }

  /** Sends again what was not acked in time; says whether the session can go on. */
  repeatDue(): Due<Word>["verdict"] {
    const { ports, writer } = this.#parts;
    const now = ports.now();
    if (this.#stream.nextDue > now) return "alive";
    const { repeat, verdict } = this.#stream.due(now, () => ports.roll());
    for (const sent of repeat) writer.words(sent);
    return verdict;
  }

  /** The socket is gone. */
  pause(): void {
    this.#stream.pause();
  }

  /** A new socket; the scheduler's window is as this ack says. Gives the frames to be sent again; null: the two ends disagree. */
  resume(ack: AckPayload | null): readonly Sent<Word>[] | null {
    const { ports, work } = this.#parts;
    if (ack !== null && !work.acked(ack, undefined)) return null;
    const again = this.#stream.resume(ack?.ack_seq ?? null, ports.now());
    return again === "unsent" ? null : again;
  }

  send(frames: readonly Sent<Word>[]): void {
    for (const sent of frames) this.#parts.writer.words(sent);
  }

  /** So much waits in the socket that another frame would only wait there, with a number that nothing can overtake any more. */
  get #isCrowded(): boolean {
    const { ports, settings } = this.#parts;
    return ports.buffered !== undefined && ports.buffered() >= settings.bufferedBytesMax;
  }
}
