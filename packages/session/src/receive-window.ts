// The numbers of what the peer sends: put in order, handed up once, settled in any order. Acks are written in pending-acks.ts.

import assert from "node:assert";
import { buildBitmap } from "./bitmap.ts";

/** What the upper layer holds of a frame until its effect is durable. */
export interface DeliveryTag {
  /** Null where the frame had none. */
  readonly number: number | null;
  readonly id: string;
  /** Whether the frame asked to be acked by name. */
  readonly isAsked: boolean;
  readonly bytes: number;
}

export interface DeliveredFrame<I> {
  readonly tag: DeliveryTag;
  readonly item: I;
}

/** taken: deliver now. held: waits for a hole. repeat: was here before. outside: beyond the window, dropped, the peer sends it again. */
export type ReceiveVerdict = "taken" | "held" | "repeat" | "outside";

export interface ReceiveResult<I> {
  readonly verdict: ReceiveVerdict;
  /** In the order of their numbers; several when a hole was filled. */
  readonly deliver: readonly DeliveredFrame<I>[];
}

const noFrames: readonly never[] = [];

export class ReceiveWindow<I> {
  readonly frames: number;
  /** Highest number up to which everything is settled. The sender measures its window from here, and so do we. */
  settled: number;
  /** Highest number up to which everything was handed up. */
  delivered: number;
  bufferedBytes = 0;
  private readonly bytesMax: number;
  private readonly buffer = new Map<number, DeliveredFrame<I>>();
  /** Settled above the contiguous part; never more than were handed up. */
  private readonly settledAhead = new Set<number>();
  /** Since when the first hole is open; null when there is none, or no socket that could fill it. */
  private gapOpenSince: number | null = null;

  constructor(firstNumber: number, frames: number, bytesMax: number) {
    this.frames = frames;
    this.bytesMax = bytesMax;
    this.settled = firstNumber - 1;
    this.delivered = firstNumber - 1;
  }

  get buffered(): number {
    return this.buffer.size;
  }

  get unsettled(): number {
    return this.delivered - this.settled - this.settledAhead.size;
  }

  /** Bit i: number settled + 1 + i is settled too. */
  get bitmap(): number | string {
    return this.settledAhead.size === 0 ? 0 : buildBitmap(this.settled, this.settledAhead);
  }

  get gapSince(): number | null {
    return this.gapOpenSince;
  }

  isSettled(number: number): boolean {
    return number <= this.settled || this.settledAhead.has(number);
  }

  /** A frame under this number was here. */
  hasSeen(number: number): boolean {
    return number <= this.delivered || this.buffer.has(number);
  }

  /** `now` is null while there is no socket. */
  receive(number: number, tag: DeliveryTag, item: I, now: number | null): ReceiveResult<I> {
    if (this.hasSeen(number)) return { verdict: "repeat", deliver: noFrames };
    if (number - this.settled > this.frames) {
      // Somebody who passes the window over a number that he no longer has would never be heard again: that hole grows older too.
      // Not while the window is full of what we have not settled: then the number that is next could not have been taken.
      if (number > this.delivered + 1 && this.delivered - this.settled < this.frames) this.gapOpenSince ??= now;
      return { verdict: "outside", deliver: noFrames };
    }
    if (number === this.delivered + 1) return { verdict: "taken", deliver: this.deliverInOrder({ tag, item }, now) };
    // One frame may be heavier than the whole buffer: while nothing else is held it is, or it would have to come again in order.
    if (this.buffer.size > 0 && this.bufferedBytes + tag.bytes > this.bytesMax) return { verdict: "outside", deliver: noFrames };
    this.buffer.set(number, { tag, item });
    this.bufferedBytes += tag.bytes;
    this.gapOpenSince ??= now;
    return { verdict: "held", deliver: noFrames };
  }

  /** Its effect is durable. False if that was known. */
  settle(number: number): boolean {
    assert(number <= this.delivered, `frame ${number} is settled before it was handed up (${this.delivered})`);
    if (this.isSettled(number)) return false;
    if (number !== this.settled + 1) {
      this.settledAhead.add(number);
      return true;
    }
    this.settled = number;
    while (this.settledAhead.size > 0 && this.settledAhead.delete(this.settled + 1)) this.settled += 1;
    return true;
  }

  /** No socket: nothing can fill a hole, so none grows older. */
  pause(): void {
    this.gapOpenSince = null;
  }

  resume(now: number): void {
    this.gapOpenSince = this.buffer.size === 0 ? null : now;
  }

  private deliverInOrder(first: DeliveredFrame<I>, now: number | null): DeliveredFrame<I>[] {
    const deliver = [first];
    this.delivered += 1;
    if (this.buffer.size === 0) {
      this.gapOpenSince = null;
      return deliver;
    }
    for (let next = this.buffer.get(this.delivered + 1); next !== undefined; next = this.buffer.get(this.delivered + 1)) {
      this.delivered += 1;
      this.buffer.delete(this.delivered);
      this.bufferedBytes -= next.tag.bytes;
      deliver.push(next);
    }
    // The hole that is first now counts from here: its peer may have begun to fill it only after the one before.
    this.gapOpenSince = this.buffer.size === 0 ? null : now;
    return deliver;
  }
}
