// One end of a session: two windows, two lanes and the acks owed, for any dialect. It outlives its sockets. Time, chance and names
// arrive as arguments; frames are written, read and sent by the caller, and what they mean is not known here.

import type { AckPayload } from "@astraflow/protocol";
import { AckDebt } from "./ack-debt.ts";
import type { DialectRules } from "./dialect-rules.ts";
import { Lane, type Outgoing } from "./lane.ts";
import { PairMemory } from "./pair-memory.ts";
import { type Arrival, ReceiveWindow, type Ticket } from "./receive-window.ts";
import { Refusals } from "./refusals.ts";
import { SendWindow, type Sent } from "./send-window.ts";

export interface StreamSizes {
  readonly sendFrames: number;
  readonly sendBytes: number;
  readonly recvFrames: number;
  readonly recvBytes: number;
  /** Items that may share one frame, and how much such a frame may weigh. */
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

/** A frame of the peer, as far as this room must know it. */
export interface ArrivedFrame {
  readonly number: number | undefined;
  readonly id: string;
  readonly corr: string | undefined;
  readonly isAsked: boolean;
  readonly bytes: number;
}

/** alive: go on. exhausted: end the socket, keep the session. gap: end the session with a reset. */
export interface Due<O> {
  readonly repeat: readonly Sent<O>[];
  readonly verdict: "alive" | "exhausted" | "gap";
}

const never = Number.POSITIVE_INFINITY;

export class Stream<O extends Outgoing, I> {
  private readonly rules: DialectRules;
  private readonly sizes: StreamSizes;
  private readonly commands = new Lane<O>();
  private readonly feedback = new Lane<O>();
  private readonly sendWindow: SendWindow<O>;
  private readonly receiveWindow: ReceiveWindow<I>;
  private readonly debt: AckDebt;
  /** Handed up without a number and not settled yet. */
  private readonly openNames = new Set<Ticket>();
  private readonly pairs: PairMemory | null;
  private readonly refusals = new Refusals();
  private isPaused = false;

  constructor(rules: DialectRules, sizes: StreamSizes) {
    this.rules = rules;
    this.sizes = sizes;
    this.sendWindow = new SendWindow(rules, clampFrames(rules, sizes.sendFrames));
    this.receiveWindow = new ReceiveWindow(rules.firstNumber, clampFrames(rules, sizes.recvFrames), sizes.recvBytes);
    this.debt = new AckDebt(rules, this.receiveWindow);
    this.pairs = rules.isNumbered ? null : new PairMemory();
  }

  /** Highest number up to which everything was handed up: `last_seen_seq` of a resume. */
  get lastSeen(): number {
    return this.receiveWindow.delivered;
  }

  get isOwing(): boolean {
    return this.debt.isOwing;
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
      unsettled: receiveWindow.unsettled + this.openNames.size,
    };
  }

  /** Time from which `due` is worth asking; Infinity when nothing can become due. It may come before anything is. */
  get nextDue(): number {
    if (this.isPaused) return never;
    const since = this.receiveWindow.holeSince;
    return Math.min(this.sendWindow.earliestDue, since === null ? never : since + this.rules.gapMs);
  }

  offer(item: O): void {
    (item.lane === "command" ? this.commands : this.feedback).push(item);
  }

  /** The next frame that may leave now, with its number. `nameOf` gives the id of a frame that holds several items. */
  take(now: number, nameOf: () => string): Sent<O> | null {
    // While a command waits for room, feedback must not take the room that becomes free.
    const lane = this.commands.size > 0 ? this.commands : this.feedback;
    const first = lane.peek();
    if (first === undefined || this.isPaused || !this.hasRoom(first.lane, first.bytes)) return null;
    const items: O[] = [];
    let bytes = 0;
    for (let item = lane.peek(); item !== undefined; item = lane.peek()) {
      if (items.length > 0 && !this.mayJoin(items, bytes, item)) break;
      lane.shift();
      items.push(item);
      bytes += item.bytes;
    }
    return this.sendWindow.open(items, bytes, items.length === 1 ? first.id : nameOf(), now);
  }

  /** Whether an item of that lane, offered now, would leave at once. */
  hasRoomFor(lane: Outgoing["lane"]): boolean {
    const isFirst = this.commands.size === 0 && (lane === "command" || this.feedback.size === 0);
    return isFirst && !this.isPaused && this.hasRoom(lane, 1);
  }

  /** Items no longer wanted: waiting ones vanish, those in flight leave their frames, whose numbers stay. How many that were. */
  withdraw(isUnwanted: (item: O) => boolean): number {
    return this.commands.remove(isUnwanted) + this.feedback.remove(isUnwanted) + this.sendWindow.withdraw(isUnwanted);
  }

  /** Shows every item that is not acknowledged: in flight by number, then waiting commands, then feedback. */
  unacked(visit: (item: O) => void): void {
    this.sendWindow.each(visit);
    this.commands.each(visit);
    this.feedback.each(visit);
  }

  /** What is acknowledged now and was not before. Numbers count before the name; a late ack changes nothing. */
  heardAck(ack: AckPayload, envelopeFor: string | undefined): readonly O[] | "unsent" {
    if (this.rules.isNumbered && ack.ack_seq !== undefined)
      return this.sendWindow.heardNumbers(ack.ack_seq, ack.ack_bitmap, ack.recv_window);
    const id = envelopeFor ?? ack.for;
    return id === undefined ? [] : this.sendWindow.heardName(id);
  }

  /** A frame under this number came before, whatever its name was. */
  hasSeen(number: number): boolean {
    return this.rules.isNumbered && this.receiveWindow.hasSeen(number);
  }

  /** A work frame of the peer. Without a number it is delivered at once. */
  arrive(frame: ArrivedFrame, item: I, now: number): Arrival<I> {
    const number = this.rules.isNumbered ? (frame.number ?? null) : null;
    const ticket: Ticket = { number, id: frame.id, isAsked: frame.isAsked, bytes: frame.bytes };
    if (number === null) return this.arriveByName(ticket, frame.corr, item);
    const arrival = this.receiveWindow.arrive(number, ticket, item, this.isPaused ? null : now);
    if (arrival.verdict === "repeat") this.answerAgain(ticket, number);
    return arrival;
  }

  /** The frame's effect is durable, or it was decided that it has none. In any order. */
  settle(ticket: Ticket): void {
    if (ticket.number === null) {
      this.openNames.delete(ticket);
      if (ticket.isAsked) this.debt.name(ticket.id, null);
    } else if (this.receiveWindow.settle(ticket.number)) this.debt.owe(ticket.isAsked ? ticket.id : null);
  }

  /** Read as a frame, not understood as a word: settled, and said by name if it asked. */
  refuse(ticket: Ticket, info: string): void {
    const { number } = ticket;
    // Without a number only what this dialect recognises when it comes again is worth remembering.
    const canComeAgain = number === null ? this.openNames.delete(ticket) && this.pairs !== null : true;
    if (number !== null && this.receiveWindow.settle(number)) this.debt.owe(null);
    if (!ticket.isAsked) return;
    if (canComeAgain) this.refusals.keep(number ?? ticket, info);
    this.debt.name(ticket.id, info);
  }

  /** A control frame asked for an ack; with `info` it is refused. */
  name(id: string, info?: string): void {
    this.debt.name(id, info ?? null);
  }

  /** Every ack owed, merged. None covers a frame that is not settled. */
  takeAcks(): readonly AckPayload[] {
    return this.debt.take();
  }

  /** The state of the window now, for the answer to a resume. */
  windowAck(forId: string | undefined): AckPayload {
    return this.debt.write(forId, null);
  }

  due(now: number, roll: () => number): Due<O> {
    if (this.isPaused) return { repeat: [], verdict: "alive" };
    // Before the gap: a new socket of the same session may fill the hole.
    const repeat = this.sendWindow.takeDue(now, roll);
    if (repeat === null) return { repeat: [], verdict: "exhausted" };
    const since = this.receiveWindow.holeSince;
    if (since !== null && now >= since + this.rules.gapMs) return { repeat: [], verdict: "gap" };
    return { repeat, verdict: "alive" };
  }

  /** The peer says that it misses something: everything unacked, again and in order. It counts as one of the sends of each frame. */
  repeatAll(now: number, roll: () => number): Due<O> {
    const repeat = this.isPaused ? [] : this.sendWindow.takeAll(now, roll);
    return repeat === null ? { repeat: [], verdict: "exhausted" } : { repeat, verdict: "alive" };
  }

  /** The socket is gone: nothing leaves, nothing is due, until `resume`. */
  pause(): void {
    this.isPaused = true;
    this.receiveWindow.pause();
  }

  /**
   * A new socket for the same session; the peer has seen everything up to `peerSaw` (null: it did not say). What is unacked above it,
   * to be sent at once, in order. "unsent": its numbers and ours cannot both be true, so the session cannot go on.
   */
  resume(peerSaw: number | null, now: number): readonly Sent<O>[] | "unsent" {
    const again = this.sendWindow.resume(peerSaw, now);
    if (again === "unsent") return again;
    this.isPaused = false;
    this.receiveWindow.resume(now);
    // Acks that were on their way are lost, and what the peer knows to be seen it does not send again.
    if (this.rules.isNumbered) this.debt.owe(null);
    return again;
  }

  /** All that was not acked: in flight by number, then waiting commands, then feedback. The stream is empty afterwards. */
  takeLeft(): O[] {
    return [...this.sendWindow.drain(), ...this.commands.drain(), ...this.feedback.drain()];
  }

  private hasRoom(lane: Outgoing["lane"], bytes: number): boolean {
    const { sendWindow, sizes } = this;
    const frames = lane === "command" ? sendWindow.width : withoutReserve(sendWindow.width);
    const bytesMax = lane === "command" ? sizes.sendBytes : withoutReserve(sizes.sendBytes);
    // A frame heavier than the whole window goes alone, or it would never go.
    return sendWindow.span < frames && (sendWindow.size === 0 || sendWindow.bytes + bytes <= bytesMax);
  }

  private mayJoin(items: readonly O[], bytes: number, item: O): boolean {
    const { batchMax, batchBytesMax } = this.sizes;
    const word = items[0]?.batch ?? null;
    if (word === null || item.batch !== word) return false;
    return items.length < batchMax && bytes + item.bytes <= batchBytesMax && this.hasRoom(item.lane, bytes + item.bytes);
  }

  /** The first ack may be lost; by name only what is settled, as a name is an ack too, and what was refused stays refused. */
  private answerAgain({ id, isAsked }: Ticket, number: number): void {
    const isNamed = isAsked && this.receiveWindow.isSettled(number);
    const info = isNamed ? this.refusals.find(number) : null;
    this.debt.owe(isNamed && info === null ? id : null);
    if (info !== null) this.debt.name(id, info);
  }

  private arriveByName(ticket: Ticket, corr: string | undefined, item: I): Arrival<I> {
    const known = this.pairs?.find(ticket.id, corr);
    if (known !== undefined) {
      if (ticket.isAsked && !this.openNames.has(known)) this.debt.name(ticket.id, this.refusals.find(known));
      return { verdict: "repeat", deliver: [] };
    }
    this.pairs?.keep(ticket, corr);
    this.openNames.add(ticket);
    return { verdict: "taken", deliver: [{ ticket, item }] };
  }
}

/** A quarter of the window belongs to commands; a window of one is shared. */
const withoutReserve = (window: number): number => Math.max(1, window - Math.ceil(window / 4));

const clampFrames = (rules: DialectRules, frames: number): number => Math.max(1, Math.min(rules.framesMax, frames));
