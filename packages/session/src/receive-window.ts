// Received frames by number: delivered in order and once, settled in any order.

import assert from "node:assert";
import { buildBitmap } from "./bitmap.ts";

/** Identifies a delivered frame until its effect is durable and it is settled. */
export interface DeliveryTag {
  /** Null where the frame has none. */
  readonly number: number | null;
  readonly id: string;
  /** Whether the frame asked to be acked by its id. */
  readonly isAsked: boolean;
  readonly bytes: number;
}

export interface DeliveredFrame<I> {
  readonly tag: DeliveryTag;
  readonly item: I;
}

/** taken: deliver now. held: waits until a gap is filled. repeat: received before. outside: beyond the window, dropped; the peer resends it. */
export type ReceiveVerdict = "taken" | "held" | "repeat" | "outside";

export interface ReceiveResult<I> {
  readonly verdict: ReceiveVerdict;
  /** In the order of their numbers; several when a gap was filled. */
  readonly deliver: readonly DeliveredFrame<I>[];
}

const noFrames: readonly never[] = [];

export class ReceiveWindow<I> {
  readonly frames: number;
  /** Highest number up to which everything is settled. The sender measures its window from here, and so do we. */
  settled: number;
  /** Highest number up to which everything was delivered. */
  delivered: number;
  bufferedBytes = 0;
  private readonly bytesMax: number;
  private readonly buffer = new Map<number, DeliveredFrame<I>>();
  /** Settled numbers above the contiguous part. */
  private readonly settledAhead = new Set<number>();
  /** Since when the first gap is open; null when there is none, or no socket that could fill it. */
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

  hasSeen(number: number): boolean {
    return number <= this.delivered || this.buffer.has(number);
  }

  /** `now` is null while there is no socket. */
  receive(number: number, tag: DeliveryTag, item: I, now: number | null): ReceiveResult<I> {
    if (this.hasSeen(number)) return { verdict: "repeat", deliver: noFrames };
    if (number - this.settled > this.frames) {
      // A peer that lost a frame and sends beyond the window would stall for ever, so that gap times out too.
      // Not while the window is full of unsettled frames: then the next number could not have been accepted.
      if (number > this.delivered + 1 && this.delivered - this.settled < this.frames) this.gapOpenSince ??= now;
      return { verdict: "outside", deliver: noFrames };
    }
    if (number === this.delivered + 1) return { verdict: "taken", deliver: this.deliverInOrder({ tag, item }, now) };
    // A frame may be larger than the whole buffer while nothing else is held.
    if (this.buffer.size > 0 && this.bufferedBytes + tag.bytes > this.bytesMax) return { verdict: "outside", deliver: noFrames };
    this.buffer.set(number, { tag, item });
    this.bufferedBytes += tag.bytes;
    this.gapOpenSince ??= now;
    return { verdict: "held", deliver: noFrames };
  }

  /** The effect of the frame is durable. False if that was known. */
  settle(number: number): boolean {
    assert(number <= this.delivered, `frame ${number} is settled before it was delivered (${this.delivered})`);
    if (this.isSettled(number)) return false;
    if (number !== this.settled + 1) {
      this.settledAhead.add(number);
      return true;
    }
    this.settled = number;
    while (this.settledAhead.size > 0 && this.settledAhead.delete(this.settled + 1)) this.settled += 1;
    return true;
  }

  /** Without a socket nothing can fill a gap, so none grows older. */
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
    // The next gap counts from here: the peer may have begun to fill it only now.
    this.gapOpenSince = this.buffer.size === 0 ? null : now;
    return deliver;
  }
}
