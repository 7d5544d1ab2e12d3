// What a sender does, as plainly as possible: lists instead of windows, everything counted anew. Tests compare the two.
import type { TestItem } from "./stream-fixture.ts";

type InFlightModel = { readonly number: number; items: TestItem[] };
type SendModelSizes = { readonly frames: number; readonly bytes: number; readonly batch: number };
const totalBytes = (items: readonly TestItem[]): number => items.reduce((sum, item) => sum + item.bytes, 0);

export class SendWindowModel {
  waiting: TestItem[] = [];
  inFlight: InFlightModel[] = [];
  private next = 0;
  private highestAckSeq = -1;
  private readonly sizes: SendModelSizes;
  private width: number;

  constructor(sizes: SendModelSizes) {
    this.sizes = sizes;
    this.width = sizes.frames;
  }

  get base(): number {
    return (this.inFlight[0]?.number ?? this.next) - 1;
  }
  get bytes(): number {
    return totalBytes(this.inFlight.flatMap(({ items }) => items));
  }

  take(): InFlightModel | null {
    const lane = this.waiting.some((item) => item.lane === "command") ? "command" : "feedback";
    const share = (all: number) => (lane === "command" ? all : Math.max(1, all - Math.ceil(all / 4)));
    const fits = (items: TestItem[]) => this.inFlight.length === 0 || this.bytes + totalBytes(items) <= share(this.sizes.bytes);
    const queue = this.waiting.filter((item) => item.lane === lane);
    const [first] = queue;
    if (first === undefined || this.next - 1 - this.base >= share(this.width) || !fits([first])) return null;
    const others = queue.findIndex((item) => item.batch !== first.batch);
    let items = first.batch === null ? [first] : queue.slice(0, others < 0 ? queue.length : others).slice(0, this.sizes.batch);
    while (!fits(items)) items = items.slice(0, -1);
    this.waiting = this.waiting.filter((item) => !items.includes(item));
    this.inFlight.push({ number: this.next, items });
    return { number: this.next++, items };
  }

  ack(ackSeq: number, bits: readonly number[], peerWindow: number): TestItem[] | "unsent" {
    if (Math.max(ackSeq, ...bits.map((bit) => ackSeq + 1 + bit)) >= this.next) return "unsent";
    if (ackSeq < this.highestAckSeq) return [];
    this.highestAckSeq = ackSeq;
    this.width = Math.min(this.sizes.frames, peerWindow);
    const isAcked = ({ number }: InFlightModel) => number <= ackSeq || bits.includes(number - ackSeq - 1);
    const acked = this.inFlight.filter(isAcked);
    this.inFlight = this.inFlight.filter((flown) => !isAcked(flown));
    return acked.flatMap(({ items }) => items);
  }

  withdraw(isUnwanted: (item: TestItem) => boolean): void {
    this.waiting = this.waiting.filter((item) => !isUnwanted(item));
    for (const flown of this.inFlight) flown.items = flown.items.filter((item) => !isUnwanted(item));
  }
}
