// Commands that wait for their turn. Words of workers go before orders of callers, so that finished work is never behind new work;
// tenants take turns, so that one flood does not make the others wait; inside one tenant and lane the order of arrival holds.

import type { Command, Inbound } from "../command.ts";
import type { Millis, RunId, Tenant } from "../rows.ts";

export interface Waiting {
  readonly ref: number;
  readonly command: Command;
  readonly bytes: number;
  /** Store time when it came, as far as the engine knew. */
  readonly at: Millis;
  /** Id for what a `run.start` will make, chosen once so that every try makes the same run. */
  run: RunId | null;
  /** Turns it was part of whose commit failed. */
  tries: number;
  /** Turns it was left out of because another held a root of it. */
  busyTurns: number;
  /** Suspected of poisoning its turn: decided alone. */
  solo: boolean;
  /** The session it speaks for has ended since it came. */
  isGone: boolean;
}

type Lane = Map<Tenant, Queue>;

/** A queue that forgets its head without moving the rest. */
class Queue {
  #items: Waiting[] = [];
  #head = 0;

  push(item: Waiting): void {
    this.#items.push(item);
  }
  peek(): Waiting | undefined {
    return this.#items[this.#head];
  }
  shift(): void {
    this.#head++;
    if (this.#head === this.#items.length || this.#head > 1024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }
  get size(): number {
    return this.#items.length - this.#head;
  }
}

export class Inbox {
  readonly #words: Lane = new Map();
  readonly #orders: Lane = new Map();
  /** Left over from an earlier turn: they go first, in their old order. */
  #again: Waiting[] = [];
  #size = 0;

  get size(): number {
    return this.#size + this.#again.length;
  }

  push(item: Waiting): void {
    const lane = item.command.type.startsWith("run.") ? this.#orders : this.#words;
    const { tenant } = item.command;
    let queue = lane.get(tenant);
    if (queue === undefined) lane.set(tenant, (queue = new Queue()));
    queue.push(item);
    this.#size++;
  }

  putBack(items: readonly Waiting[]): void {
    this.#again = [...items, ...this.#again];
  }

  /**
   * The next batch. A suspect comes alone. A quarter of the turn is kept for orders while any wait. What is not clear keeps its place
   * before all that came later.
   */
  take(most: number, bytesMost: number, isClear: ((item: Waiting) => boolean) | null): Waiting[] {
    const batch = this.#next(most, bytesMost);
    if (isClear === null) return batch;
    const [clear, held]: [Waiting[], Waiting[]] = [[], []];
    for (const item of batch) (isClear(item) ? clear : held).push(item);
    this.putBack(held);
    return clear;
  }

  #next(most: number, bytesMost: number): Waiting[] {
    const suspect = this.#again.findIndex((item) => item.solo);
    if (suspect >= 0) return this.#again.splice(suspect, 1);
    const batch = this.#again.splice(0, most);
    const room = { count: most - batch.length, bytes: bytesMost };
    this.#drain(this.#words, batch, room, Math.min(this.#waitingIn(this.#orders), most >> 2));
    this.#drain(this.#orders, batch, room, 0);
    return batch;
  }

  #waitingIn(lane: Lane): number {
    let count = 0;
    for (const queue of lane.values()) count += queue.size;
    return count;
  }

  /** One from each tenant in turn until the room is used up, but for what is kept for others. */
  #drain(lane: Lane, batch: Waiting[], room: { count: number; bytes: number }, kept: number): void {
    while (lane.size > 0) {
      for (const [tenant, queue] of lane) {
        const item = queue.peek();
        if (item === undefined) {
          lane.delete(tenant);
          continue;
        }
        // One command is always taken, however large: the door has bounded it.
        if (room.count <= kept || (room.bytes < item.bytes && batch.length > 0)) {
          // Next time it is this tenant's turn first.
          this.#rotate(lane, tenant);
          return;
        }
        queue.shift();
        this.#size--;
        room.count--;
        room.bytes -= item.bytes;
        batch.push(item);
      }
    }
  }

  #rotate(lane: Lane, first: Tenant): void {
    for (const [tenant, queue] of [...lane]) {
      if (tenant === first) return;
      lane.delete(tenant);
      lane.set(tenant, queue);
    }
  }

  /** When the oldest word that still waits came in; Infinity when none does. */
  oldestWord(): Millis {
    let oldest = Number.POSITIVE_INFINITY;
    for (const item of this.#again) if (!item.command.type.startsWith("run.")) oldest = Math.min(oldest, item.at);
    for (const queue of this.#words.values()) oldest = Math.min(oldest, queue.peek()?.at ?? oldest);
    return oldest;
  }

  /** Everything, for the last answer. */
  drainAll(): Waiting[] {
    const all = this.#again.splice(0);
    for (const lane of [this.#words, this.#orders])
      for (const queue of lane.values())
        for (let item = queue.peek(); item !== undefined; item = queue.peek()) {
          queue.shift();
          all.push(item);
        }
    this.#words.clear();
    this.#orders.clear();
    this.#size = 0;
    return all;
  }
}

/** Rough size of a command, enough to bound a turn: the long texts in it. */
export function bytesOf(item: Inbound): number {
  const { command } = item;
  if (command.type === "run.start") return command.body.length + 256;
  if (command.type === "task.result") return command.result.length + 256;
  if (command.type === "worker.tell") return command.frame.payload.length + 256;
  return 256;
}
