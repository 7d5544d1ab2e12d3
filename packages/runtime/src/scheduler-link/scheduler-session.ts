// One session as its worker sees it: names, token, windows, and how frames of work come and go in it. It outlives its sockets; what it
// does not deliver moves to the next. Whether there is a socket, and which phase the link is in, is link.ts.

import { type AckPayload, type Envelope, limits, type SessionAcceptPayload } from "@astraflow/protocol";
import { dialectRules, ReliableStream, type SentFrame, type StreamCounts, type TimeoutResult } from "@astraflow/session";
import type { OutboxMessage, OutboxStream } from "../outbox/outbox.ts";
import type { AttemptManager } from "./attempt-manager.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { LinkPorts, LinkSettings } from "./link-ports.ts";
import type { WorkFrameDispatcher } from "./work-frame-dispatcher.ts";

export interface SchedulerSessionParts {
  readonly ports: Pick<LinkPorts, "now" | "random" | "bufferedBytes">;
  readonly settings: LinkSettings;
  readonly writer: FrameWriter;
  readonly attempts: AttemptManager;
  readonly dispatcher: WorkFrameDispatcher;
  logIgnoredFrame(envelope: Envelope, problem: string): void;
}

export class SchedulerSession {
  readonly id: string;
  /** Shown at a resume. Every accept brings another and ends the one before. */
  token: string;
  readonly #parts: SchedulerSessionParts;
  readonly #stream: OutboxStream;

  /** A fresh one: numbers start at 0, and all that was not acked goes into it. */
  constructor(accept: SessionAcceptPayload, parts: SchedulerSessionParts) {
    const { session_id, session_token, send_window, recv_window, features } = accept;
    const { windowDefault, outbox, reorderBytesMax: bytesHeldMax } = parts.settings;
    this.id = session_id;
    this.token = session_token;
    this.#parts = parts;
    this.#stream = new ReliableStream(dialectRules.v2, {
      sendFrames: recv_window ?? windowDefault,
      sendBytes: outbox.bytesInFlightMax,
      recvFrames: send_window ?? windowDefault,
      recvBytes: bytesHeldMax,
      batchMax: features?.includes("batch") ? limits.batchItemsMax : 1,
      batchBytesMax: limits.resultInlineBytesMax,
    });
    parts.attempts.attachStream(this.#stream);
  }

  get lastSeenSeq(): number {
    return this.#stream.lastSeen;
  }

  get counts(): StreamCounts {
    return this.#stream.counts;
  }

  get nextDueAt(): number {
    return this.#stream.nextTimeoutAt;
  }

  get hasPendingAcks(): boolean {
    return this.#stream.hasPendingAcks;
  }

  /** A frame of work. The stream puts them in order and drops repeats; each is acked once it was taken in. */
  receiveFrame(envelope: Envelope, bytes: number): void {
    const { ports, dispatcher, logIgnoredFrame } = this.#parts;
    const { seq: number, id, corr, ack } = envelope;
    const frame = { number, id, corr, isAsked: ack?.request === true, bytes };
    for (const { tag, item } of this.#stream.receive(frame, envelope, ports.now()).deliver) {
      const problem = dispatcher.handleFrame(item);
      if (problem === null) {
        this.#stream.settle(tag);
        continue;
      }
      logIgnoredFrame(item, problem);
      this.#stream.refuse(tag, problem);
    }
  }

  /** One ack for all that came, then the words that may travel. */
  flush(): void {
    const { writer, attempts } = this.#parts;
    if (this.#stream.hasPendingAcks) {
      for (const ack of this.#stream.takeAcks()) writer.sendControl("control.ack", ack, { ackFor: ack.for });
    }
    if (this.#isSocketBacklogged) return;
    attempts.sendPending((sent) => {
      writer.sendWork(sent);
      return !this.#isSocketBacklogged;
    });
  }

  /** Sends again what was not acked in time; says whether the session can go on. */
  retransmitDue(): TimeoutResult<OutboxMessage>["verdict"] {
    const { ports, writer } = this.#parts;
    const now = ports.now();
    if (this.#stream.nextTimeoutAt > now) return "alive";
    const { resend: repeat, verdict } = this.#stream.checkTimeouts(now, () => ports.random());
    for (const sent of repeat) writer.sendWork(sent);
    return verdict;
  }

  /** The socket is gone. */
  pause(): void {
    this.#stream.pause();
  }

  /** A new socket; the scheduler's window is as this ack says. Gives the frames to be sent again; null: the two ends disagree. */
  resume(ack: AckPayload | null): readonly SentFrame<OutboxMessage>[] | null {
    const { ports, attempts } = this.#parts;
    if (ack !== null && !attempts.handleAck(ack, undefined)) return null;
    const again = this.#stream.resume(ack?.ack_seq ?? null, ports.now());
    return again === "unsent" ? null : again;
  }

  resend(frames: readonly SentFrame<OutboxMessage>[]): void {
    for (const sent of frames) this.#parts.writer.sendWork(sent);
  }

  /** So much waits in the socket that another frame would only wait there, with a number that nothing can overtake any more. */
  get #isSocketBacklogged(): boolean {
    const { ports, settings } = this.#parts;
    return ports.bufferedBytes !== undefined && ports.bufferedBytes() >= settings.socketBufferBytesMax;
  }
}
