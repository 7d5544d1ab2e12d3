// What was sent and is not acknowledged: numbers, room, repeats. What waits for a number is in lane.ts, what it means is the caller's.

import type { AckPayload } from "@astraflow/protocol";
import { bitsOf } from "./bitmap.ts";
import type { DialectRules } from "./dialect-rules.ts";
import type { Outgoing } from "./lane.ts";
import { delayAfter, spreadOf } from "./retry.ts";

/** A frame under its number. */
export interface Sent<O> {
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
interface Parcel<O> extends Sent<O> {
  items: readonly O[];
  sends: number;
  bytes: number;
  /** Sends on this socket, and when the next one is due. */
  tries: number;
  dueAt: number;
}

export class SendWindow<O extends Outgoing> {
  /** Bytes of all frames in flight; those acked out of order have left it. */
  bytes = 0;
  /** No frame is due before this; it may be earlier than the first that is. */
  earliestDue = Number.POSITIVE_INFINITY;
  private readonly rules: DialectRules;
  private readonly framesMax: number;
  /** What the peer takes, if that is less than ours. */
  private frames: number;
  private next: number;
  /** Highest number up to which everything is acknowledged; the window begins after it. */
  private base: number;
  /** Highest `ack_seq` heard; an ack below it was overtaken by a later one. */
  private heard: number;
  /** By number, ascending: a Map keeps the order of entering. */
  private readonly flight = new Map<number, Parcel<O>>();
  /** All of them do not leave again before this. */
  private nextAll = Number.NEGATIVE_INFINITY;

  constructor(rules: DialectRules, framesMax: number) {
    this.rules = rules;
    this.framesMax = framesMax;
    this.frames = framesMax;
    this.next = rules.firstNumber;
    this.base = rules.firstNumber - 1;
    this.heard = this.base;
  }

  /** Unacknowledged frames. */
  get size(): number {
    return this.flight.size;
  }

  /** Frames the window may span now. */
  get width(): number {
    return this.frames;
  }

  /** Numbers from the first unacknowledged to the last sent: what the window bounds, since that is what the peer must remember. */
  get span(): number {
    return this.next - 1 - this.base;
  }

  /** Gives a frame its number and counts it as sent. */
  open(items: readonly O[], bytes: number, id: string, now: number): Sent<O> {
    const dueAt = this.firstDue(this.next, now);
    const parcel: Parcel<O> = { number: this.next, items, id, sends: 1, text: null, bytes, tries: 1, dueAt };
    this.flight.set(this.next, parcel);
    this.next += 1;
    this.bytes += bytes;
    if (dueAt < this.earliestDue) this.earliestDue = dueAt;
    return parcel;
  }

  /** Everything the ack names that was not acknowledged before. "unsent": it names what never left. */
  heardNumbers(ackSeq: number, bitmap: AckPayload["ack_bitmap"], peerWindow: number | undefined): readonly O[] | "unsent" {
    const bits = bitsOf(bitmap);
    const top = bits.length === 0 ? ackSeq : ackSeq + 1 + (bits.at(-1) ?? 0);
    if (top >= this.next) return "unsent";
    const items: O[] = [];
    if (ackSeq < this.heard) return items;
    this.heard = ackSeq;
    if (peerWindow !== undefined) this.frames = Math.max(1, Math.min(this.framesMax, peerWindow));
    for (let number = this.base + 1; number <= ackSeq; number += 1) this.close(number, items);
    for (const bit of bits) this.close(ackSeq + 1 + bit, items);
    this.slide();
    return items;
  }

  /** An ack by name only. A name that is not in flight may be that of a control frame, or an old ack. */
  heardName(id: string): readonly O[] {
    const items: O[] = [];
    for (const parcel of this.flight.values()) {
      if (parcel.id !== id) continue;
      this.close(parcel.number, items);
      this.slide();
      break;
    }
    return items;
  }

  /** Takes items out of their frames. The numbers stay, except where the wire has none: there an empty frame is over. */
  withdraw(isUnwanted: (item: O) => boolean): number {
    let count = 0;
    for (const parcel of this.flight.values()) {
      if (!parcel.items.some(isUnwanted)) continue;
      const kept = parcel.items.filter((item) => !isUnwanted(item));
      const bytes = kept.reduce((sum, item) => sum + item.bytes, 0);
      count += parcel.items.length - kept.length;
      this.bytes += bytes - parcel.bytes;
      parcel.items = kept;
      parcel.bytes = bytes;
      parcel.text = null;
      if (kept.length === 0 && !this.rules.isNumbered) this.flight.delete(parcel.number);
    }
    this.slide();
    return count;
  }

  /** Frames to be sent again now, oldest first; null when one was sent as often as it may be. */
  takeDue(now: number, roll: () => number): readonly Sent<O>[] | null {
    const due: Parcel<O>[] = [];
    if (now < this.earliestDue) return due;
    let earliest = Number.POSITIVE_INFINITY;
    for (const parcel of this.flight.values()) {
      if (parcel.dueAt <= now) {
        if (parcel.tries >= this.rules.retry.sendsMax) return null;
        due.push(parcel);
      } else if (parcel.dueAt < earliest) earliest = parcel.dueAt;
    }
    this.earliestDue = Math.min(earliest, this.sendAgain(due, now, roll));
    return due;
  }

  /**
   * The peer misses something: all that is unacknowledged, oldest first, each as one more of its tries; null when one has none left.
   * A peer may say so of every frame behind the one it misses: what left just now does not leave again.
   */
  takeAll(now: number, roll: () => number): readonly Sent<O>[] | null {
    if (now < this.nextAll) return [];
    this.nextAll = now + this.rules.retry.firstMs;
    const all = [...this.flight.values()];
    if (all.some((parcel) => parcel.tries >= this.rules.retry.sendsMax)) return null;
    this.earliestDue = this.sendAgain(all, now, roll);
    return all;
  }

  /**
   * A new socket: the frames above what the peer saw leave again, and every frame has all its tries again. What the peer saw and
   * did not acknowledge stays in flight. "unsent": it saw what never left, or lost what it had acknowledged; neither can go on.
   */
  resume(peerSaw: number | null, now: number): readonly Sent<O>[] | "unsent" {
    if (peerSaw !== null && (peerSaw >= this.next || peerSaw < this.base)) return "unsent";
    const again: Sent<O>[] = [];
    this.earliestDue = Number.POSITIVE_INFINITY;
    for (const parcel of this.flight.values()) {
      parcel.tries = 1;
      parcel.dueAt = this.firstDue(parcel.number, now);
      this.earliestDue = Math.min(this.earliestDue, parcel.dueAt);
      if (peerSaw !== null && parcel.number <= peerSaw) continue;
      parcel.sends += 1;
      again.push(parcel);
    }
    return again;
  }

  each(visit: (item: O) => void): void {
    for (const parcel of this.flight.values()) for (const item of parcel.items) visit(item);
  }

  /** Everything unacknowledged, by number; nothing is in flight afterwards. */
  drain(): O[] {
    const items = [...this.flight.values()].flatMap((parcel) => parcel.items);
    this.flight.clear();
    this.bytes = 0;
    this.slide();
    return items;
  }

  /** When the first of them is due after this try. */
  private sendAgain(parcels: readonly Parcel<O>[], now: number, roll: () => number): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const parcel of parcels) {
      parcel.sends += 1;
      parcel.tries += 1;
      parcel.dueAt = now + delayAfter(this.rules.retry, parcel.tries, roll());
      if (parcel.dueAt < earliest) earliest = parcel.dueAt;
    }
    return earliest;
  }

  private firstDue(number: number, now: number): number {
    return now + delayAfter(this.rules.retry, 1, spreadOf(number, now));
  }

  private close(number: number, items: O[]): void {
    const parcel = this.flight.get(number);
    if (parcel === undefined) return;
    this.flight.delete(number);
    this.bytes -= parcel.bytes;
    for (const item of parcel.items) items.push(item);
  }

  /** Moves the window up to the first frame that is still open. */
  private slide(): void {
    while (this.base + 1 < this.next && !this.flight.has(this.base + 1)) this.base += 1;
    if (this.flight.size === 0) this.earliestDue = Number.POSITIVE_INFINITY;
  }
}
