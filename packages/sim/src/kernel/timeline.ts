// True time: one queue of events for the whole world; events of the same instant run in the order they were scheduled. Clocks that processes can read
// are in machine-clock.ts.

import { nextTick } from "node:process";
import type { TrueTime } from "../observation/observation.ts";

interface ScheduledEvent {
  readonly at: TrueTime;
  readonly seq: number;
  run: (() => void) | null;
}

export class Timeline {
  readonly #heap: ScheduledEvent[] = [];
  #now: TrueTime = 0;
  #seq = 0;
  #eventCount = 0;

  get now(): TrueTime {
    return this.#now;
  }

  /** Events that have happened. */
  get eventCount(): number {
    return this.#eventCount;
  }

  /** Asks for a call after so many true milliseconds; the answer takes that back. */
  after(ms: number, run: () => void): () => void {
    const entry: ScheduledEvent = { at: this.#now + Math.max(0, ms), seq: this.#seq++, run };
    this.#push(entry);
    return () => {
      entry.run = null;
    };
  }

  /** Lets the next event happen. False when there is none. */
  runNextEvent(): boolean {
    for (;;) {
      const entry = this.#pop();
      if (entry === undefined) return false;
      const { run } = entry;
      if (run === null) continue;
      entry.run = null;
      this.#now = entry.at;
      this.#eventCount++;
      run();
      return true;
    }
  }

  #push(entry: ScheduledEvent): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = heap[up] as ScheduledEvent;
      if (!isBefore(entry, parent)) break;
      heap[at] = parent;
      at = up;
    }
    heap[at] = entry;
  }

  #pop(): ScheduledEvent | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      const left = heap[down];
      if (left === undefined) break;
      const right = heap[down + 1];
      if (right !== undefined && isBefore(right, left)) down++;
      const child = heap[down] as ScheduledEvent;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = down;
    }
    heap[at] = last;
    return first;
  }
}

const isBefore = (a: ScheduledEvent, b: ScheduledEvent): boolean => a.at < b.at || (a.at === b.at && a.seq < b.seq);

/**
 * Resolves once every promise that can move has moved. The tick is asked for from inside the microtask queue, so Node empties that
 * queue to the last before it calls back; no turn of the real event loop is needed, which is what makes a seed cheap.
 */
export function drainMicrotasks(): Promise<void> {
  return new Promise((resolve) => queueMicrotask(() => nextTick(resolve)));
}
