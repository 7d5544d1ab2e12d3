// The numbers of what a worker sends us: in order on a live connection, acknowledged once durable, which may happen out of order.
// Pure: it knows numbers, not frames. Sending acks is the connection's business.

/** next: take it. repeat: drop it, ack again. gap: something is missing. full: more in flight than the window allows. */
export type Arrival = "next" | "repeat" | "gap" | "full";

export class Incoming {
  readonly window: number;
  /** Highest number up to which everything is durable; -1 is nothing. Never decreases. */
  ackSeq = -1;
  private expected = 0;
  private readonly ahead = new Set<number>();

  constructor(window: number) {
    this.window = window;
  }

  arrive(seq: number): Arrival {
    if (seq < this.expected) return "repeat";
    if (seq > this.expected) return "gap";
    if (seq - this.ackSeq > this.window) return "full";
    this.expected = seq + 1;
    return "next";
  }

  /** The engine has answered: the frame's effect is on disk, or it was decided that it has none. */
  settle(seq: number): void {
    if (seq !== this.ackSeq + 1) {
      this.ahead.add(seq);
      return;
    }
    this.ackSeq = seq;
    while (this.ahead.size > 0 && this.ahead.delete(this.ackSeq + 1)) this.ackSeq += 1;
  }

  /** Bit i: number ackSeq + 1 + i is durable. JSON text: a number while it is exact, a hex string above. */
  bitmapText(): string {
    if (this.ahead.size === 0) return "0";
    let bits = 0n;
    for (const seq of this.ahead) bits |= 1n << BigInt(seq - this.ackSeq - 1);
    return bits <= BigInt(Number.MAX_SAFE_INTEGER) ? bits.toString() : `"${bits.toString(16)}"`;
  }
}
