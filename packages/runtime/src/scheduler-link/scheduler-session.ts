// One session as its worker sees it: id, token, windows, and how work frames travel in it. It outlives its sockets.

import {
  type AckPayload,
  type Envelope,
  errorMessage,
  limits,
  type ResumePayload,
  type SessionAcceptPayload,
} from "@astraflow/protocol";
import { type DeliveryTag, dialectRules, ReliableStream, type SentFrame, type TimeoutResult } from "@astraflow/session";
import type { OutboxMessage, OutboxStream } from "../outbox/outbox.ts";
import type { AttemptManager } from "./attempt-manager.ts";
import { type LinkContext, logIgnoredFrame } from "./link-context.ts";
import type { SessionKey } from "./session-key.ts";
import type { WorkFrameDispatcher } from "./work-frame-dispatcher.ts";

export class SchedulerSession {
  readonly id: string;
  /** Shown at a resume. Every accept brings another and ends the one before. */
  #token: string;
  #tokenReceivedAt: number;
  /** Signs resumes; null where the scheduler does not ask for that. */
  readonly #key: SessionKey | null;
  readonly stream: OutboxStream;
  /** Extensions that the scheduler of this session knows. */
  readonly features: readonly string[];
  readonly #context: LinkContext;
  readonly #attempts: AttemptManager;
  readonly #dispatcher: WorkFrameDispatcher;

  /** A fresh one: numbers start at 0, and all that was not acked goes into it. */
  constructor(
    accept: SessionAcceptPayload,
    key: SessionKey | null,
    context: LinkContext,
    attempts: AttemptManager,
    dispatcher: WorkFrameDispatcher,
  ) {
    const { session_id, session_token, send_window, recv_window, features } = accept;
    const { windowDefault, outbox, reorderBytesMax } = context.settings;
    this.id = session_id;
    this.#token = session_token;
    this.#tokenReceivedAt = context.ports.now();
    this.#key = features?.includes("proof") ? key : null;
    this.features = features ?? [];
    this.#context = context;
    this.#attempts = attempts;
    this.#dispatcher = dispatcher;
    this.stream = new ReliableStream(dialectRules.v2, {
      sendFrames: recv_window ?? windowDefault,
      sendBytes: outbox.bytesInFlightMax,
      recvFrames: send_window ?? windowDefault,
      recvBytes: reorderBytesMax,
      batchMax: features?.includes("batch") ? limits.batchItemsMax : 1,
      batchBytesMax: limits.resultInlineBytesMax,
    });
    attempts.attachStream(this.stream);
  }

  setToken(token: string): void {
    this.#token = token;
    this.#tokenReceivedAt = this.#context.ports.now();
  }

  buildResume(boot: string): ResumePayload {
    const { lastSeen: last_seen_seq } = this.stream;
    const resume = { session_id: this.id, session_token: this.#token, last_seen_seq, boot_id: boot };
    return this.#key?.prove(resume, this.#context.ports.now() - this.#tokenReceivedAt) ?? resume;
  }

  /** Receives a work frame. The stream puts them in order and drops repeats; each is acked once it was handled. */
  receiveFrame(envelope: Envelope, bytes: number): void {
    const { seq: number, id, corr, ack } = envelope;
    const frame = { number, id, corr, isAsked: ack?.request === true, bytes };
    for (const { tag, item } of this.stream.receive(frame, envelope, this.#context.ports.now()).deliver) {
      const handled = this.#dispatcher.handleFrame(item);
      if (handled instanceof Promise) void this.#settleLater(handled, tag, item);
      else this.#settle(handled, tag, item);
    }
  }

  /** Once its effect is on disk. Where the session is over by then, the scheduler sends the frame again. */
  async #settleLater(handled: Promise<void>, tag: DeliveryTag, item: Envelope): Promise<void> {
    const problem = await handled.then(() => null, errorMessage);
    this.#settle(problem, tag, item);
    this.#context.requestFlush();
  }

  #settle(problem: string | null, tag: DeliveryTag, item: Envelope): void {
    if (problem === null) return this.stream.settle(tag);
    logIgnoredFrame(this.#context, item, problem);
    this.stream.refuse(tag, problem);
  }

  /** Sends one ack for all that came, then the messages that fit into the window. */
  flush(): void {
    const { writer } = this.#context;
    if (this.stream.hasPendingAcks) {
      for (const ack of this.stream.takeAcks()) writer.sendControl("control.ack", ack, { ackFor: ack.for });
    }
    if (this.#isSocketBacklogged) return;
    this.#attempts.sendPending((sent) => {
      writer.sendWork(sent);
      return !this.#isSocketBacklogged;
    });
  }

  /** Sends again what was not acked in time; gives whether the session can go on. */
  retransmitDue(): TimeoutResult<OutboxMessage>["verdict"] {
    const { ports, writer } = this.#context;
    const now = ports.now();
    if (this.stream.nextTimeoutAt > now) return "alive";
    const { resend, verdict } = this.stream.checkTimeouts(now, () => ports.random());
    for (const sent of resend) writer.sendWork(sent);
    return verdict;
  }

  /** A new socket; the ack carries the state of the scheduler's window. Gives the frames to be sent again; null: the two ends disagree. */
  resume(ack: AckPayload | null): readonly SentFrame<OutboxMessage>[] | null {
    if (ack !== null && !this.#attempts.handleAck(ack, undefined)) return null;
    const again = this.stream.resume(ack?.ack_seq ?? null, this.#context.ports.now());
    return again === "unsent" ? null : again;
  }

  resend(frames: readonly SentFrame<OutboxMessage>[]): void {
    for (const sent of frames) this.#context.writer.sendWork(sent);
  }

  /** So much waits in the socket that another frame would only wait there, with a number that nothing can overtake any more. */
  get #isSocketBacklogged(): boolean {
    const { ports, settings } = this.#context;
    return ports.bufferedBytes !== undefined && ports.bufferedBytes() >= settings.socketBufferBytesMax;
  }
}
