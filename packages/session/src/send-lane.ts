// Items that wait to be sent, first in first out, with their size. They get their numbers when they leave.

import { FifoQueue } from "@astraflow/protocol";

export interface OutgoingItem {
  /** Commands (dispatches, results) overtake waiting feedback and have a quarter of the window for themselves. */
  readonly lane: "command" | "feedback";
  readonly bytes: number;
  /** Items with the same key may share one frame; null is sent alone. */
  readonly batch: string | null;
  /** Id of its envelope when it is sent alone. */
  readonly id: string;
}

export class SendLane<O extends OutgoingItem> {
  bytes = 0;
  private readonly queue = new FifoQueue<O>();

  get size(): number {
    return this.queue.size;
  }

  push(item: O): void {
    this.queue.push(item);
    this.bytes += item.bytes;
  }

  peek(): O | undefined {
    return this.queue.peek();
  }

  shift(): void {
    this.bytes -= this.queue.shift()?.bytes ?? 0;
  }

  /** Removes unwanted items; returns how many there were. */
  remove(isUnwanted: (item: O) => boolean): number {
    const before = this.size;
    for (const item of this.takeAll()) if (!isUnwanted(item)) this.push(item);
    return before - this.size;
  }

  forEach(visit: (item: O) => void): void {
    this.queue.forEach(visit);
  }

  takeAll(): O[] {
    this.bytes = 0;
    return this.queue.drain();
  }
}
