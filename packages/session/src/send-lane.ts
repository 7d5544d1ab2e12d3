// What waits to be sent, first in first out, with its weight. Numbers are given when an item leaves, not here.

/** What an end wants to send under a number. */
export interface OutgoingItem {
  /** Commands (dispatches, results) pass feedback that waits and keep a quarter of the window for themselves. */
  readonly lane: "command" | "feedback";
  /** About what it weighs on the wire. */
  readonly bytes: number;
  /** Items with the same word may share one frame; null travels alone. */
  readonly batch: string | null;
  /** Id of its envelope when it travels alone. */
  readonly id: string;
}

const compactThreshold = 1_024;

export class SendLane<O extends OutgoingItem> {
  bytes = 0;
  private items: (O | undefined)[] = [];
  private head = 0;

  get size(): number {
    return this.items.length - this.head;
  }

  push(item: O): void {
    this.items.push(item);
    this.bytes += item.bytes;
  }

  peek(): O | undefined {
    return this.items[this.head];
  }

  shift(): O | undefined {
    const item = this.items[this.head];
    if (item === undefined) return undefined;
    this.items[this.head] = undefined;
    this.head += 1;
    this.bytes -= item.bytes;
    if (this.head === this.items.length) this.items = [];
    else if (this.head < compactThreshold || this.head * 2 < this.items.length) return item;
    else this.items = this.items.slice(this.head);
    this.head = 0;
    return item;
  }

  /** Takes out what is not wanted any more; how many that were. */
  remove(isUnwanted: (item: O) => boolean): number {
    const before = this.size;
    const kept = this.takeAll().filter((item) => !isUnwanted(item));
    for (const item of kept) this.push(item);
    return before - kept.length;
  }

  forEach(visit: (item: O) => void): void {
    for (let at = this.head; at < this.items.length; at += 1) visit(this.items[at] as O);
  }

  /** Takes everything out, oldest first. */
  takeAll(): O[] {
    const all = this.items.slice(this.head) as O[];
    this.items = [];
    this.head = 0;
    this.bytes = 0;
    return all;
  }
}
