// One end of a session, which outlives its sockets: numbers, acks, resends and order in both directions. Time and ids are arguments.

import { type AckPayload, LruMap } from "@astraflow/protocol";
import type { DialectRules } from "./dialect-rules.ts";
import { PendingAcks } from "./pending-acks.ts";
import { type DeliveryTag, type ReceiveResult, ReceiveWindow } from "./receive-window.ts";
import { type OutgoingItem, SendLane } from "./send-lane.ts";
import { SendWindow, type SentFrame } from "./send-window.ts";

export interface StreamSizes {
  readonly sendFrames: number;
  readonly sendBytes: number;
  readonly recvFrames: number;
  readonly recvBytes: number;
  /** Items that may share one frame, and the bytes of such a frame. */
  readonly batchMax: number;
  readonly batchBytesMax: number;
}

export interface StreamCounts {
  readonly inFlight: number;
  readonly inFlightBytes: number;
  readonly waiting: number;
  readonly waitingBytes: number;
  readonly buffered: number;
  readonly bufferedBytes: number;
  readonly unsettled: number;
}

export interface ReceivedFrameHeader {
  readonly number: number | undefined;
  readonly id: string;
  readonly corr: string | undefined;
  readonly isAsked: boolean;
  readonly bytes: number;
}

/** alive: continue. exhausted: end the socket, keep the session. gap: end the session with a reset. */
export interface TimeoutResult<O> {
  readonly resend: readonly SentFrame<O>[];
  readonly verdict: "alive" | "exhausted" | "gap";
}

const noTimeout = Number.POSITIVE_INFINITY;
/** Frames without a number that are recognised when they come again. This only saves work: the engine applies nothing twice. */
const rememberedFramesMax = 4_096;
/** As many as the widest window: a peer repeats nothing that is older. */
const rememberedRefusalsMax = 1_024;

export class ReliableStream<O extends OutgoingItem, I> {
  private rules: DialectRules;
  private readonly sizes: StreamSizes;
  private readonly commands = new SendLane<O>();
  private readonly feedback = new SendLane<O>();
  private readonly sendWindow: SendWindow<O>;
  private receiveWindow: ReceiveWindow<I>;
  private readonly pendingAcks: PendingAcks;
  /** Delivered without a number and not settled yet. */
  private readonly unsettledUnnumbered = new Set<DeliveryTag>();
  /** First arrivals by id and corr, where frames may have no numbers; else null. */
  private readonly firstArrivals: LruMap<string, DeliveryTag> | null;
  /** Why frames were refused, by number or first arrival: a repeat whose ack was lost must not be acked as accepted. */
  private readonly refusals = new LruMap<number | DeliveryTag, string>({ entriesMax: rememberedRefusalsMax, touchOnGet: false });
  private isPaused = false;

  constructor(rules: DialectRules, sizes: StreamSizes) {
    this.rules = rules;
    this.sizes = sizes;
    this.sendWindow = new SendWindow(rules, clampFrames(rules, sizes.sendFrames));
    this.receiveWindow = this.createReceiveWindow();
    this.pendingAcks = new PendingAcks(rules, this.receiveWindow);
    this.firstArrivals = rules.isWindowAcked ? null : new LruMap({ entriesMax: rememberedFramesMax, touchOnGet: false });
  }

  /** The first numbered frame of an undecided peer shows its dialect. No numbered frame was received before. */
  changeDialect(rules: DialectRules): void {
    this.rules = rules;
    this.receiveWindow = this.createReceiveWindow();
    this.pendingAcks.changeDialect(rules, this.receiveWindow);
    this.sendWindow.changeDialect(rules, clampFrames(rules, this.sizes.sendFrames));
  }

  /** Highest number up to which everything was delivered: `last_seen_seq` of a resume. */
  get lastSeen(): number {
    return this.receiveWindow.delivered;
  }

  get hasPendingAcks(): boolean {
    return this.pendingAcks.hasAny;
  }

  get counts(): StreamCounts {
    const { commands, feedback, sendWindow, receiveWindow } = this;
    return {
      inFlight: sendWindow.size,
      inFlightBytes: sendWindow.bytes,
      waiting: commands.size + feedback.size,
      waitingBytes: commands.bytes + feedback.bytes,
      buffered: receiveWindow.buffered,
      bufferedBytes: receiveWindow.bufferedBytes,
      unsettled: receiveWindow.unsettled + this.unsettledUnnumbered.size,
    };
  }

  /** No timeout is due before this time; Infinity when none can become due. It may be earlier than the first one. */
  get nextTimeoutAt(): number {
    if (this.isPaused) return noTimeout;
    const since = this.receiveWindow.gapSince;
    return Math.min(this.sendWindow.earliestResendAt, since === null ? noTimeout : since + this.rules.gapTimeoutMs);
  }

  enqueue(item: O): void {
    (item.lane === "command" ? this.commands : this.feedback).push(item);
  }

  /** The next frame that may leave now, with its number. `nextId` gives the id of a frame that holds several items. */
  takeNextFrame(now: number, nextId: () => string): SentFrame<O> | null {
    // While a command waits for room, feedback must not take the room that becomes free.
    const lane = this.commands.size > 0 ? this.commands : this.feedback;
    const first = lane.peek();
    if (first === undefined || this.isPaused || !this.hasWindowRoom(first.lane, first.bytes)) return null;
    const items: O[] = [];
    let bytes = 0;
    for (let item = lane.peek(); item !== undefined; item = lane.peek()) {
      if (items.length > 0 && !this.canBatch(items, bytes, item)) break;
      lane.shift();
      items.push(item);
      bytes += item.bytes;
    }
    return this.sendWindow.addFrame(items, bytes, items.length === 1 ? first.id : nextId(), now);
  }

  /** Whether an item of that lane, enqueued now, would leave at once. */
  canSendNow(lane: OutgoingItem["lane"]): boolean {
    const isFirst = this.commands.size === 0 && (lane === "command" || this.feedback.size === 0);
    return isFirst && !this.isPaused && this.hasWindowRoom(lane, 1);
  }

  /** Removes unwanted items: waiting ones, and those in flight from their frames, whose numbers stay. Returns how many there were. */
  withdraw(isUnwanted: (item: O) => boolean): number {
    return this.commands.remove(isUnwanted) + this.feedback.remove(isUnwanted) + this.sendWindow.withdraw(isUnwanted);
  }

  /** Visits every unacknowledged item: in flight by number, then waiting commands, then feedback. */
  forEachUnacked(visit: (item: O) => void): void {
    this.sendWindow.forEachItem(visit);
    this.commands.forEach(visit);
    this.feedback.forEach(visit);
  }

  /** The items that are newly acknowledged. Numbers take precedence over the id; a late ack changes nothing. */
  handleAck(ack: AckPayload, envelopeFor: string | undefined): readonly O[] | "unsent" {
    const { sendWindow, rules } = this;
    const id = envelopeFor ?? ack.for;
    const ackSeq = rules.isNumbered && (rules.isWindowAcked || id === undefined) ? ack.ack_seq : undefined;
    if (ackSeq === undefined) return id === undefined ? [] : sendWindow.handleNamedAck(id);
    const acked = sendWindow.handleNumberedAck(ackSeq, ack.ack_bitmap, ack.recv_window);
    return acked === "unsent" || id === undefined ? acked : [...sendWindow.handleUnnumberedAck(id), ...acked];
  }

  /** What the peer sends shows that it has this frame: as good as an ack, unless the frame is acked by its number. */
  markReceived(id: string): readonly O[] {
    return this.rules.isWindowAcked ? this.sendWindow.handleUnnumberedAck(id) : this.sendWindow.handleNamedAck(id);
  }

  /** Whether a frame with this number was received before, under whatever id. */
  hasSeen(number: number): boolean {
    return this.rules.isNumbered && this.receiveWindow.hasSeen(number);
  }

  /** Receives a work frame of the peer. Without a number it is delivered at once. */
  receive(frame: ReceivedFrameHeader, item: I, now: number): ReceiveResult<I> {
    const number = this.rules.isNumbered ? (frame.number ?? null) : null;
    const tag: DeliveryTag = { number, id: frame.id, isAsked: frame.isAsked, bytes: frame.bytes };
    if (number === null) return this.receiveUnnumbered(tag, frame.corr, item);
    const arrival = this.receiveWindow.receive(number, tag, item, this.isPaused ? null : now);
    if (arrival.verdict === "repeat") this.reackDuplicate(tag, number);
    return arrival;
  }

  /** The frame's effect is durable, or it was decided that it has none. In any order. */
  settle(tag: DeliveryTag): void {
    if (tag.number === null) {
      this.unsettledUnnumbered.delete(tag);
      if (tag.isAsked) this.pendingAcks.addNamed(tag.id, null);
    } else if (this.receiveWindow.settle(tag.number)) this.pendingAcks.requestWindowAck(tag.isAsked ? tag.id : null);
  }

  /** The frame has no effect: it is settled, and acked as refused if it asked for an ack. */
  refuse(tag: DeliveryTag, info: string): void {
    const { number } = tag;
    // Without a number only a frame that is recognised when it comes again is worth remembering.
    const canComeAgain = number === null ? this.unsettledUnnumbered.delete(tag) && this.firstArrivals !== null : true;
    if (number !== null && this.receiveWindow.settle(number)) this.pendingAcks.requestWindowAck(null);
    if (!tag.isAsked) return;
    if (canComeAgain) this.refusals.set(number ?? tag, info);
    this.pendingAcks.addNamed(tag.id, info);
  }

  /** A control frame asked for an ack; with `info` it is refused. */
  queueNamedAck(id: string, info?: string): void {
    this.pendingAcks.addNamed(id, info ?? null);
  }

  /** All pending acks, merged. None covers a frame that is not settled. */
  takeAcks(): readonly AckPayload[] {
    return this.pendingAcks.takeAll();
  }

  /** The state of the window now, for the answer to a resume. */
  buildWindowAck(forId: string | undefined): AckPayload {
    return this.pendingAcks.buildAck(forId, null);
  }

  checkTimeouts(now: number, random: () => number): TimeoutResult<O> {
    if (this.isPaused) return { resend: [], verdict: "alive" };
    // Before the gap: a new socket of the same session may fill it.
    const repeat = this.sendWindow.takeDueResends(now, random);
    if (repeat === null) return { resend: [], verdict: "exhausted" };
    const since = this.receiveWindow.gapSince;
    if (since !== null && now >= since + this.rules.gapTimeoutMs) return { resend: [], verdict: "gap" };
    return { resend: repeat, verdict: "alive" };
  }

  /** The peer reports a gap: resends everything unacked, in order. It counts as one of the sends of each frame. */
  resendAll(now: number, random: () => number): TimeoutResult<O> {
    const repeat = this.isPaused ? [] : this.sendWindow.takeAllForResend(now, random);
    return repeat === null ? { resend: [], verdict: "exhausted" } : { resend: repeat, verdict: "alive" };
  }

  /** The socket is gone: nothing leaves, nothing is due, until `resume`. */
  pause(): void {
    this.isPaused = true;
    this.receiveWindow.pause();
  }

  /** A new socket: the frames above `peerLastSeen` (null: unknown), to be sent at once. "unsent": the session cannot go on. */
  resume(peerLastSeen: number | null, now: number): readonly SentFrame<O>[] | "unsent" {
    const resend = this.sendWindow.resume(peerLastSeen, now);
    if (resend === "unsent") return resend;
    this.isPaused = false;
    this.receiveWindow.resume(now);
    // Acks under way are lost, and the peer does not resend what it knows to be received.
    if (this.rules.isNumbered) this.pendingAcks.requestWindowAck(null);
    return resend;
  }

  /** Takes all unacked items: in flight by number, then waiting commands, then feedback. */
  takeUnacked(): O[] {
    return [...this.sendWindow.takeUnacked(), ...this.commands.takeAll(), ...this.feedback.takeAll()];
  }

  private createReceiveWindow(): ReceiveWindow<I> {
    const { rules, sizes } = this;
    return new ReceiveWindow(rules.firstNumber, clampFrames(rules, sizes.recvFrames), sizes.recvBytes);
  }

  private hasWindowRoom(lane: OutgoingItem["lane"], bytes: number): boolean {
    const { sendWindow, sizes } = this;
    const frames = lane === "command" ? sendWindow.width : withoutCommandReserve(sendWindow.width);
    const bytesMax = lane === "command" ? sizes.sendBytes : withoutCommandReserve(sizes.sendBytes);
    // A frame larger than the whole window is sent alone, or it would never be sent.
    return sendWindow.span < frames && (sendWindow.size === 0 || sendWindow.bytes + bytes <= bytesMax);
  }

  private canBatch(items: readonly O[], bytes: number, item: O): boolean {
    const { batchMax, batchBytesMax } = this.sizes;
    const batchKey = items[0]?.batch ?? null;
    if (batchKey === null || item.batch !== batchKey) return false;
    return items.length < batchMax && bytes + item.bytes <= batchBytesMax && this.hasWindowRoom(item.lane, bytes + item.bytes);
  }

  /** The first ack may be lost. By id only what is settled is acked, and what was refused stays refused. */
  private reackDuplicate({ id, isAsked }: DeliveryTag, number: number): void {
    const isNamed = isAsked && this.receiveWindow.isSettled(number);
    const info = isNamed ? (this.refusals.peek(number) ?? null) : null;
    this.pendingAcks.requestWindowAck(isNamed && info === null ? id : null);
    if (info !== null) this.pendingAcks.addNamed(id, info);
  }

  private receiveUnnumbered(tag: DeliveryTag, corr: string | undefined, item: I): ReceiveResult<I> {
    const key = this.firstArrivals === null ? "" : pairKey(tag.id, corr);
    const known = this.firstArrivals?.get(key);
    if (known !== undefined) {
      if (tag.isAsked && !this.unsettledUnnumbered.has(known))
        this.pendingAcks.addNamed(tag.id, this.refusals.peek(known) ?? null);
      return { verdict: "repeat", deliver: [] };
    }
    this.firstArrivals?.set(key, tag);
    this.unsettledUnnumbered.add(tag);
    return { verdict: "taken", deliver: [{ tag, item }] };
  }
}

/** A quarter of the window is reserved for commands; a window of one is shared. */
const withoutCommandReserve = (window: number): number => Math.max(1, window - Math.ceil(window / 4));

const clampFrames = (rules: DialectRules, frames: number): number => Math.max(1, Math.min(rules.framesMax, frames));

/** The length keeps ("a", "b:c") apart from ("a:b", "c"), and both from an id without a corr. */
const pairKey = (id: string, corr: string | undefined): string =>
  corr === undefined ? `${id.length}:${id}` : `${id.length}:${id}:${corr}`;
