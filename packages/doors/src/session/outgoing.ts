// What waits to be sent to a worker under a number, and what was sent and is not acknowledged yet.
// Pure: numbers and room, no text and no socket. Retransmission comes with resumable sessions; until then a lost socket ends the session.

import type { SendDispatch, SendStop } from "@astraflow/engine";

export type Item = SendDispatch | SendStop;

/** `items`: what is acknowledged now and was not before. `unsent`: the ack names something never sent. */
export type Acked = { readonly items: readonly Item[] } | "unsent";

export class Outgoing {
  /** Bytes of what waits, roughly: parameters are all that can be large. */
  waitingBytes = 0;
  private readonly windowMax: number;
  private window: number;
  private next = 0;
  /** Highest number up to which everything is acknowledged. */
  private base = -1;
  private readonly flight = new Map<number, readonly Item[]>();
  private waiting: Item[] = [];
  private head = 0;

  constructor(window: number) {
    this.windowMax = window;
    this.window = window;
  }

  get hasWaiting(): boolean {
    return this.head < this.waiting.length;
  }

  /** Unacknowledged numbered frames. */
  get inFlight(): number {
    return this.flight.size;
  }

  offer(item: Item): void {
    this.waiting.push(item);
    this.waitingBytes += weight(item);
  }

  /** The next frame, with its number: one item, or up to so many dispatches. Null when nothing waits or the window is full. */
  take(dispatchesMax: number, bytesMax: number): { readonly seq: number; readonly items: readonly Item[] } | null {
    if (!this.hasWaiting || this.next - this.base > this.window) return null;
    const items: Item[] = [];
    let bytes = 0;
    for (let item = this.waiting[this.head]; item !== undefined; item = this.waiting[this.head]) {
      bytes += weight(item);
      const isAlone = item.type !== "dispatch" || items[0]?.type !== "dispatch";
      if (items.length > 0 && (isAlone || items.length >= dispatchesMax || bytes > bytesMax)) break;
      items.push(item);
      this.head += 1;
      this.waitingBytes -= weight(item);
    }
    if (!this.hasWaiting) {
      this.waiting = [];
      this.head = 0;
    }
    const seq = this.next++;
    this.flight.set(seq, items);
    return { seq, items };
  }

  /** An ack from the worker. A late one changes nothing; one for what was never sent is a lie or a bug. */
  ack(ackSeq: number, bitmap: number | string | undefined, recvWindow: number | undefined): Acked {
    const ahead = bitmap === undefined ? [] : bitsOf(bitmap);
    const top = ahead.length === 0 ? ackSeq : ackSeq + 1 + (ahead.at(-1) ?? 0);
    if (top >= this.next) return "unsent";
    if (recvWindow !== undefined) this.window = Math.min(this.windowMax, recvWindow);
    const items: Item[] = [];
    for (; this.base < ackSeq; this.base += 1) this.settle(this.base + 1, items);
    for (const bit of ahead) this.settle(ackSeq + 1 + bit, items);
    return { items };
  }

  /** An ack without numbers names one dispatch; a name we do not wait for is ignored, it may be that of a control frame. */
  ackNamed(id: string): Acked {
    for (const [seq, sent] of this.flight) {
      const [item] = sent;
      if (sent.length !== 1 || item?.type !== "dispatch" || item.dispatch.id !== id) continue;
      const items: Item[] = [];
      this.settle(seq, items);
      while (this.base + 1 < this.next && !this.flight.has(this.base + 1)) this.base += 1;
      return { items };
    }
    return { items: [] };
  }

  private settle(seq: number, items: Item[]): void {
    const sent = this.flight.get(seq);
    if (sent === undefined) return;
    this.flight.delete(seq);
    for (const item of sent) items.push(item);
  }
}

const weight = (item: Item): number => (item.type === "dispatch" ? item.dispatch.params.length : 0) + 512;

/** Positions of the set bits, ascending. */
function bitsOf(bitmap: number | string): number[] {
  if (bitmap === 0) return [];
  let bits = typeof bitmap === "string" ? BigInt(`0x${bitmap}`) : BigInt(bitmap);
  const positions: number[] = [];
  for (let position = 0; bits > 0n; position += 1, bits >>= 1n) if ((bits & 1n) === 1n) positions.push(position);
  return positions;
}
