// What a sender does, as plainly as it can be said: lists instead of windows, everything counted anew. Tests compare the two.
import type { Parcel } from "./rig.ts";

type Flown = { readonly number: number; items: Parcel[] };
type Sizes = { readonly frames: number; readonly bytes: number; readonly batch: number };
const weigh = (items: readonly Parcel[]): number => items.reduce((sum, item) => sum + item.bytes, 0);

export class SendModel {
  waiting: Parcel[] = [];
  flight: Flown[] = [];
  private next = 0;
  private heard = -1;
  private readonly sizes: Sizes;
  private width: number;

  constructor(sizes: Sizes) {
    this.sizes = sizes;
    this.width = sizes.frames;
  }

  get base(): number {
    return (this.flight[0]?.number ?? this.next) - 1;
  }
  get bytes(): number {
    return weigh(this.flight.flatMap(({ items }) => items));
  }

  take(): Flown | null {
    const lane = this.waiting.some((item) => item.lane === "command") ? "command" : "feedback";
    const share = (all: number) => (lane === "command" ? all : Math.max(1, all - Math.ceil(all / 4)));
    const fits = (items: Parcel[]) => this.flight.length === 0 || this.bytes + weigh(items) <= share(this.sizes.bytes);
    const queue = this.waiting.filter((item) => item.lane === lane);
    const [first] = queue;
    if (first === undefined || this.next - 1 - this.base >= share(this.width) || !fits([first])) return null;
    const others = queue.findIndex((item) => item.batch !== first.batch);
    let items = first.batch === null ? [first] : queue.slice(0, others < 0 ? queue.length : others).slice(0, this.sizes.batch);
    while (!fits(items)) items = items.slice(0, -1);
    this.waiting = this.waiting.filter((item) => !items.includes(item));
    this.flight.push({ number: this.next, items });
    return { number: this.next++, items };
  }

  ack(ackSeq: number, bits: readonly number[], peerWindow: number): Parcel[] | "unsent" {
    if (Math.max(ackSeq, ...bits.map((bit) => ackSeq + 1 + bit)) >= this.next) return "unsent";
    if (ackSeq < this.heard) return [];
    this.heard = ackSeq;
    this.width = Math.min(this.sizes.frames, peerWindow);
    const isAcked = ({ number }: Flown) => number <= ackSeq || bits.includes(number - ackSeq - 1);
    const acked = this.flight.filter(isAcked);
    this.flight = this.flight.filter((flown) => !isAcked(flown));
    return acked.flatMap(({ items }) => items);
  }

  withdraw(isUnwanted: (item: Parcel) => boolean): void {
    this.waiting = this.waiting.filter((item) => !isUnwanted(item));
    for (const flown of this.flight) flown.items = flown.items.filter((item) => !isUnwanted(item));
  }
}
