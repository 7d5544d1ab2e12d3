// What a receiver does, as plainly as possible: every number that ever came, in sets. Tests compare the two.

interface ModelFrame {
  readonly number: number;
  readonly bytes: number;
}

export class ReceiveWindowModel {
  readonly delivered = new Set<number>();
  readonly settled = new Set<number>();
  held: ModelFrame[] = [];
  private readonly frames: number;
  private readonly bytesMax: number;

  constructor(frames: number, bytesMax: number) {
    this.frames = frames;
    this.bytesMax = bytesMax;
  }

  get heldBytes(): number {
    return this.held.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Highest number up to which everything is settled. */
  get ackSeq(): number {
    let number = -1;
    while (this.settled.has(number + 1)) number += 1;
    return number;
  }

  get bitmap(): bigint {
    const base = this.ackSeq + 1;
    return [...this.settled].filter((number) => number > base).reduce((bits, number) => bits | (1n << BigInt(number - base)), 0n);
  }

  receive(come: ModelFrame): { verdict: string; numbers: number[] } {
    const { number } = come;
    if (this.delivered.has(number) || this.held.some((one) => one.number === number)) return { verdict: "repeat", numbers: [] };
    if (number > this.ackSeq + this.frames) return { verdict: "outside", numbers: [] };
    const isNext = number === this.delivered.size;
    const isTooMuch = this.held.length > 0 && this.heldBytes + come.bytes > this.bytesMax;
    if (!isNext && isTooMuch) return { verdict: "outside", numbers: [] };
    this.held.push(come);
    const numbers: number[] = [];
    while (this.held.some((one) => one.number === this.delivered.size)) numbers.push(this.deliverNext());
    return { verdict: isNext ? "taken" : "held", numbers };
  }

  private deliverNext(): number {
    const number = this.delivered.size;
    this.held = this.held.filter((one) => one.number !== number);
    this.delivered.add(number);
    return number;
  }
}
