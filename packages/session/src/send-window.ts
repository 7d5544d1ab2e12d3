// Sent frames that are not acknowledged: their numbers, their size and their resends.

import type { AckPayload } from "@astraflow/protocol";
import { bitmapPositions } from "./bitmap.ts";
import type { DialectRules } from "./dialect-rules.ts";
import { resendDelayMs, spreadJitter } from "./dialect-rules.ts";
import type { OutgoingItem } from "./send-lane.ts";

export interface SentFrame<O> {
  /** Undefined: it has no transport number, and is acked by its id alone. */
  readonly number: number | undefined;
  /** Empty once all were withdrawn: a filler frame is then sent under the number. */
  readonly items: readonly O[];
  /** Id of the frame: the item's where it is sent alone. */
  readonly id: string;
  /** How often it was sent, on all sockets. */
  readonly sends: number;
  /** The caller may store the encoded frame here for identical resends; a withdrawal clears it. */
  text: string | null;
}

interface InFlightFrame<O> extends SentFrame<O> {
  number: number | undefined;
  items: readonly O[];
  sends: number;
  bytes: number;
  /** Sends on this socket, and when the next one is due. */
  tries: number;
  resendAt: number;
}

const noItems: readonly never[] = [];

export class SendWindow<O extends OutgoingItem> {
  /** Bytes of all frames in flight; those acked out of order have left it. */
  bytes = 0;
  /** No frame is due before this; it may be earlier than the first that is. */
  earliestResendAt = Number.POSITIVE_INFINITY;
  private rules: DialectRules;
  private framesMax: number;
  /** Frames that the peer accepts. */
  private peerFrames = Number.POSITIVE_INFINITY;
  private nextNumber: number;
  /** Highest number up to which everything is acknowledged; the window begins after it. */
  private base: number;
  /** Highest `ack_seq` received; an ack below it was overtaken by a later one. */
  private highestAckSeq: number;
  /** By number, ascending; those without a number first, by negative keys. */
  private readonly inFlight = new Map<number, InFlightFrame<O>>();
  /** Not everything is resent again before this time. */
  private resendAllNotBefore = Number.NEGATIVE_INFINITY;

  constructor(rules: DialectRules, framesMax: number) {
    this.rules = rules;
    this.framesMax = framesMax;
    this.nextNumber = rules.firstNumber;
    this.base = rules.firstNumber - 1;
    this.highestAckSeq = this.base;
  }

  get size(): number {
    return this.inFlight.size;
  }

  get width(): number {
    return Math.max(1, Math.min(this.framesMax, this.peerFrames));
  }

  /** Numbers from the first unacknowledged to the last sent. The window limits these, as the peer must remember them. */
  get span(): number {
    return this.nextNumber - 1 - this.base;
  }

  /** Where the dialect numbers from another beginning, frames in flight keep no number: the peer has received them without one. */
  changeDialect(rules: DialectRules, framesMax: number): void {
    const isRenumbered = rules.firstNumber !== this.rules.firstNumber;
    this.rules = rules;
    this.framesMax = framesMax;
    if (!isRenumbered) return;
    const unnumbered = [...this.inFlight.values()];
    this.inFlight.clear();
    for (const [index, frame] of unnumbered.entries()) {
      frame.number = undefined;
      frame.text = null;
      this.inFlight.set(index - unnumbered.length, frame);
    }
    this.peerFrames = Number.POSITIVE_INFINITY;
    this.nextNumber = rules.firstNumber;
    this.base = rules.firstNumber - 1;
    this.highestAckSeq = this.base;
  }

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

  /** The newly acknowledged items. "unsent": the ack names a number that was never sent. */
  handleNumberedAck(ackSeq: number, bitmap: AckPayload["ack_bitmap"], peerWindow: number | undefined): readonly O[] | "unsent" {
    const bits = bitmapPositions(bitmap);
    const top = bits.length === 0 ? ackSeq : ackSeq + 1 + (bits.at(-1) ?? 0);
    if (top >= this.nextNumber) return "unsent";
    const items: O[] = [];
    if (ackSeq < this.highestAckSeq) return items;
    this.highestAckSeq = ackSeq;
    if (peerWindow !== undefined) this.peerFrames = peerWindow;
    for (let number = this.base + 1; number <= ackSeq; number += 1) this.removeAcked(number, items);
    for (const bit of bits) this.removeAcked(ackSeq + 1 + bit, items);
    this.advanceBase();
    return items;
  }

  /** An ack by id. An id that is not in flight may be that of a control frame, or an old ack. */
  handleNamedAck(id: string): readonly O[] {
    const items: O[] = [];
    for (const [key, frame] of this.inFlight) {
      if (frame.id !== id) continue;
      this.removeAcked(key, items);
      this.advanceBase();
      break;
    }
    return items;
  }

  /** The same, of frames without a number only: the numbers of an ack say nothing about them. */
  handleUnnumberedAck(id: string): readonly O[] {
    for (const [key, frame] of this.inFlight) {
      if (key >= 0) break;
      if (frame.id === id) return this.handleNamedAck(id);
    }
    return noItems;
  }

  /** Removes items from their frames. The numbers stay, except in a dialect without numbers: there an empty frame is dropped. */
  withdraw(isUnwanted: (item: O) => boolean): number {
    let count = 0;
    for (const [key, frame] of this.inFlight) {
      if (!frame.items.some(isUnwanted)) continue;
      const kept = frame.items.filter((item) => !isUnwanted(item));
      const bytes = kept.reduce((sum, item) => sum + item.bytes, 0);
      count += frame.items.length - kept.length;
      this.bytes += bytes - frame.bytes;
      frame.items = kept;
      frame.bytes = bytes;
      frame.text = null;
      if (kept.length === 0 && (!this.rules.isNumbered || frame.number === undefined)) this.inFlight.delete(key);
    }
    this.advanceBase();
    return count;
  }

  /** Frames to be resent now, oldest first; null when one was sent the maximum number of times. */
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

  /** The peer reports a gap: all frames, oldest first, unless they were resent just now; null when one was sent too often. */
  takeAllForResend(now: number, random: () => number): readonly SentFrame<O>[] | null {
    if (now < this.resendAllNotBefore) return [];
    this.resendAllNotBefore = now + this.rules.resend.firstMs;
    const all = [...this.inFlight.values()];
    if (all.some((frame) => frame.tries >= this.rules.resend.sendsMax)) return null;
    this.earliestResendAt = this.scheduleResends(all, now, random);
    return all;
  }

  /** A new socket: resends what the peer has not seen. "unsent": it has seen what was never sent, or lost what it had acked. */
  resume(peerLastSeen: number | null, now: number): readonly SentFrame<O>[] | "unsent" {
    if (peerLastSeen !== null && (peerLastSeen >= this.nextNumber || peerLastSeen < this.base)) return "unsent";
    const resend: SentFrame<O>[] = [];
    this.earliestResendAt = Number.POSITIVE_INFINITY;
    for (const [key, frame] of this.inFlight) {
      frame.tries = 1;
      frame.resendAt = this.firstResendAt(key, now);
      this.earliestResendAt = Math.min(this.earliestResendAt, frame.resendAt);
      if (peerLastSeen !== null && frame.number !== undefined && frame.number <= peerLastSeen) continue;
      frame.sends += 1;
      resend.push(frame);
    }
    return resend;
  }

  forEachItem(visit: (item: O) => void): void {
    for (const frame of this.inFlight.values()) for (const item of frame.items) visit(item);
  }

  takeUnacked(): O[] {
    const items = [...this.inFlight.values()].flatMap((frame) => frame.items);
    this.inFlight.clear();
    this.bytes = 0;
    this.advanceBase();
    return items;
  }

  /** Counts one more try for each; returns when the first is due again. */
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

  private removeAcked(key: number, items: O[]): void {
    const frame = this.inFlight.get(key);
    if (frame === undefined) return;
    this.inFlight.delete(key);
    this.bytes -= frame.bytes;
    for (const item of frame.items) items.push(item);
  }

  private advanceBase(): void {
    while (this.base + 1 < this.nextNumber && !this.inFlight.has(this.base + 1)) this.base += 1;
    if (this.inFlight.size === 0) this.earliestResendAt = Number.POSITIVE_INFINITY;
  }
}
