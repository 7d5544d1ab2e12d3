// The receive window of a first-generation worker: numbers from 1, delivery in order, a gap that blocks without limit, and an ack for
// everything, also for frames it dropped.

import type { Envelope } from "@astraflow/protocol";

export const receiveWindowSize = 64;

export class FirstReceiveWindow {
  /** Highest number up to which everything was delivered. */
  base = 0;
  readonly #buffer = new Map<number, Envelope>();

  /** What may be delivered now, in order. Stale, repeated and far frames are dropped silently. */
  receive(number: number, frame: Envelope): Envelope[] {
    if (number <= this.base || number - this.base - 1 >= receiveWindowSize || this.#buffer.has(number)) return [];
    this.#buffer.set(number, frame);
    const ready: Envelope[] = [];
    for (let next = this.#buffer.get(this.base + 1); next !== undefined; next = this.#buffer.get(this.base + 1)) {
      this.base += 1;
      this.#buffer.delete(this.base);
      ready.push(next);
    }
    return ready;
  }

  /** Bit i: number base + 1 + i is here. Exact up to 53 frames ahead, and nobody sends more. */
  get bitmap(): number {
    return [...this.#buffer.keys()].reduce((bits, number) => bits + 2 ** (number - this.base - 1), 0);
  }

  reset(): void {
    this.base = 0;
    this.#buffer.clear();
  }
}

/** Whether an ack covers a number, as such a worker reads it. */
export function isAckedBy(ack: { readonly ack_seq?: number; readonly ack_bitmap?: number | string }, number: number): boolean {
  if (ack.ack_seq === undefined) return false;
  const ahead = number - ack.ack_seq - 1;
  if (ahead < 0) return true;
  return ahead < receiveWindowSize && ((BigInt(ack.ack_bitmap ?? 0) >> BigInt(ahead)) & 1n) === 1n;
}
