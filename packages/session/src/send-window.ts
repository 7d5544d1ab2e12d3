// What was sent and is not acknowledged: numbers, room, repeats. What waits for a number is in lane.ts, what it means is the caller's.

import type { AckPayload } from "@astraflow/protocol";
import { bitmapPositions } from "./bitmap.ts";
import type { DialectRules } from "./dialect-rules.ts";
import { resendDelayMs, spreadJitter } from "./resend-policy.ts";
import type { OutgoingItem } from "./send-lane.ts";

/** A frame under its number. */
export interface SentFrame<O> {
  readonly number: number;
  /** Empty once all of them were withdrawn: the frame still goes under its number, as a filler (`voidType`). */
  readonly items: readonly O[];
  /** Id of the frame: the item's where it travels alone. */
  readonly id: string;
  /** How often it left, on all sockets. */
  readonly sends: number;
  /** The caller may keep the text here for identical repeats; a withdrawal clears it. */
  text: string | null;
}

/** A `Sent` as its window sees it. */
interface InFlightFrame<O> extends SentFrame<O> {
  items: readonly O[];
  sends: number;
  bytes: number;
  /** Sends on this socket, and when the next one is due. */
  tries: number;
  resendAt: number;
}

export class SendWindow<O extends OutgoingItem> {
  /** Bytes of all frames in flight; those acked out of order have left it. */
  bytes = 0;
  /** No frame is due before this; it may be earlier than the first that is. */
  earliestResendAt = Number.POSITIVE_INFINITY;
  private readonly rules: DialectRules;
  private readonly framesMax: number;
  /** What the peer takes, if that is less than ours. */
  private frames: number;
  private nextNumber: number;
  /** Highest number up to which everything is acknowledged; the window begins after it. */
  private base: number;
  /** Highest `ack_seq` heard; an ack below it was overtaken by a later one. */
  private highestAckSeq: number;
  /** By number, ascending: a Map keeps the order of entering. */
  private readonly inFlight = new Map<number, InFlightFrame<O>>();
  /** All of them do not leave again before this. */
  private resendAllNotBefore = Number.NEGATIVE_INFINITY;

  constructor(rules: DialectRules, framesMax: number) {
    this.rules = rules;
    this.framesMax = framesMax;
    this.frames = framesMax;
    this.nextNumber = rules.firstNumber;
    this.base = rules.firstNumber - 1;
    this.highestAckSeq = this.base;
  }

  /** Unacknowledged frames. */
  get size(): number {
    return this.inFlight.size;
  }

  /** Frames the window may span now. */
  get width(): number {
    return this.frames;
  }

  /** Numbers from the first unacknowledged to the last sent: what the window bounds, since that is what the peer must remember. */
  get span(): number {
    return this.nextNumber - 1 - this.base;
  }

  /** Gives a frame its number and counts it as sent. */
  addFrame(items: readonly O[], bytes: number, id: string, now: number): SentFrame<O> {
    const dueAt = this.firstResendAt(this.nextNumber, now);
    const frame: InFlightFrame<O> = {
      number: this.nextNumber,
      items,
      id,
      sends: 1,
      text: null,
      bytes,
      tries: 1,
      resendAt: dueAt,
    };
    this.inFlight.set(this.nextNumber, frame);
    this.nextNumber += 1;
    this.bytes += bytes;
    if (dueAt < this.earliestResendAt) this.earliestResendAt = dueAt;
    return frame;
  }

  /** Everything the ack names that was not acknowledged before. "unsent": it names what never left. */
  handleNumberedAck(ackSeq: number, bitmap: AckPayload["ack_bitmap"], peerWindow: number | undefined): readonly O[] | "unsent" {
    const bits = bitmapPositions(bitmap);
    const top = bits.length === 0 ? ackSeq : ackSeq + 1 + (bits.at(-1) ?? 0);
    if (top >= this.nextNumber) return "unsent";
    const items: O[] = [];
    if (ackSeq < this.highestAckSeq) return items;
    this.highestAckSeq = ackSeq;
    if (peerWindow !== undefined) this.frames = Math.max(1, Math.min(this.framesMax, peerWindow));
    for (let number = this.base + 1; number <= ackSeq; number += 1) this.removeAcked(number, items);
    for (const bit of bits) this.removeAcked(ackSeq + 1 + bit, items);
    this.advanceBase();
    return items;
  }

  /** An ack by name only. A name that is not in flight may be that of a control frame, or an old ack. */
  handleNamedAck(id: string): readonly O[] {
    const items: O[] = [];
    for (const frame of this.inFlight.values()) {
      if (frame.id !== id) continue;
      this.removeAcked(frame.number, items);
      this.advanceBase();
      break;
    }
    return items;
  }

  /** Takes items out of their frames. The numbers stay, except where the wire has none: there an empty frame is over. */
  withdraw(isUnwanted: (item: O) => boolean): number {
    let count = 0;
    for (const frame of this.inFlight.values()) {
      if (!frame.items.some(isUnwanted)) continue;
      const kept = frame.items.filter((item) => !isUnwanted(item));
      const bytes = kept.reduce((sum, item) => sum + item.bytes, 0);
      count += frame.items.length - kept.length;
      this.bytes += bytes - frame.bytes;
      frame.items = kept;
      frame.bytes = bytes;
      frame.text = null;
      if (kept.length === 0 && !this.rules.isNumbered) this.inFlight.delete(frame.number);
    }
    this.advanceBase();
    return count;
  }

  /** Frames to be sent again now, oldest first; null when one was sent as often as it may be. */
  takeDueResends(now: number, random: () => number): readonly SentFrame<O>[] | null {
    const due: InFlightFrame<O>[] = [];
    if (now < this.earliestResendAt) return due;
    let earliest = Number.POSITIVE_INFINITY;
    for (const frame of this.inFlight.values()) {
      if (frame.resendAt <= now) {
        if (frame.tries >= this.rules.resend.sendsMax) return null;
        due.push(frame);
      } else if (frame.resendAt < earliest) earliest = frame.resendAt;
    }
    this.earliestResendAt = Math.min(earliest, this.scheduleResends(due, now, random));
    return due;
  }

  /**
   * The peer misses something: all that is unacknowledged, oldest first, each as one more of its tries; null when one has none left.
   * A peer may say so of every frame behind the one it misses: what left just now does not leave again.
   */
  takeAllForResend(now: number, random: () => number): readonly SentFrame<O>[] | null {
    if (now < this.resendAllNotBefore) return [];
    this.resendAllNotBefore = now + this.rules.resend.firstMs;
    const all = [...this.inFlight.values()];
    if (all.some((frame) => frame.tries >= this.rules.resend.sendsMax)) return null;
    this.earliestResendAt = this.scheduleResends(all, now, random);
    return all;
  }

  /**
   * A new socket: the frames above what the peer saw leave again, and every frame has all its tries again. What the peer saw and
   * did not acknowledge stays in flight. "unsent": it saw what never left, or lost what it had acknowledged; neither can go on.
   */
  resume(peerLastSeen: number | null, now: number): readonly SentFrame<O>[] | "unsent" {
    if (peerLastSeen !== null && (peerLastSeen >= this.nextNumber || peerLastSeen < this.base)) return "unsent";
    const resend: SentFrame<O>[] = [];
    this.earliestResendAt = Number.POSITIVE_INFINITY;
    for (const frame of this.inFlight.values()) {
      frame.tries = 1;
      frame.resendAt = this.firstResendAt(frame.number, now);
      this.earliestResendAt = Math.min(this.earliestResendAt, frame.resendAt);
      if (peerLastSeen !== null && frame.number <= peerLastSeen) continue;
      frame.sends += 1;
      resend.push(frame);
    }
    return resend;
  }

  forEachItem(visit: (item: O) => void): void {
    for (const frame of this.inFlight.values()) for (const item of frame.items) visit(item);
  }

  /** Everything unacknowledged, by number; nothing is in flight afterwards. */
  takeUnacked(): O[] {
    const items = [...this.inFlight.values()].flatMap((frame) => frame.items);
    this.inFlight.clear();
    this.bytes = 0;
    this.advanceBase();
    return items;
  }

  /** When the first of them is due after this try. */
  private scheduleResends(frames: readonly InFlightFrame<O>[], now: number, random: () => number): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const frame of frames) {
      frame.sends += 1;
      frame.tries += 1;
      frame.resendAt = now + resendDelayMs(this.rules.resend, frame.tries, random());
      if (frame.resendAt < earliest) earliest = frame.resendAt;
    }
    return earliest;
  }

  private firstResendAt(number: number, now: number): number {
    return now + resendDelayMs(this.rules.resend, 1, spreadJitter(number, now));
  }

  private removeAcked(number: number, items: O[]): void {
    const frame = this.inFlight.get(number);
    if (frame === undefined) return;
    this.inFlight.delete(number);
    this.bytes -= frame.bytes;
    for (const item of frame.items) items.push(item);
  }

  /** Moves the window up to the first frame that is still open. */
  private advanceBase(): void {
    while (this.base + 1 < this.nextNumber && !this.inFlight.has(this.base + 1)) this.base += 1;
    if (this.inFlight.size === 0) this.earliestResendAt = Number.POSITIVE_INFINITY;
  }
}
