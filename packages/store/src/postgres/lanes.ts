// A few connections, each in one pair of hands at a time: who finds none free waits in line for one. A lane whose turn was not
// answered is set apart until somebody has found out what became of it.

import { fault } from "@astraflow/protocol";
import type { Link } from "./link.ts";

export interface Lane {
  readonly number: number;
  link: Link | null;
}

export class Lanes {
  readonly #all: readonly Lane[];
  readonly #free: Lane[];
  readonly #parked = new Set<Lane>();
  readonly #waiting: PromiseWithResolvers<Lane>[] = [];
  readonly #connect: () => Promise<Link>;
  #isClosed = false;

  constructor(count: number, connect: () => Promise<Link>) {
    this.#connect = connect;
    this.#all = Array.from({ length: count }, (_, number) => ({ number, link: null }));
    // The last one given back is the first to be taken: its connection and its plans are warm.
    this.#free = [...this.#all].reverse();
  }

  async take(): Promise<Lane> {
    if (this.#isClosed) throw new Error("the store is not open");
    const lane = this.#free.pop();
    if (lane !== undefined) return lane;
    if (this.#parked.size === this.#all.length) throw unsettled();
    const next = Promise.withResolvers<Lane>();
    this.#waiting.push(next);
    return next.promise;
  }

  /** The lane's connection, a new one where it has none or lost it. */
  async linkOf(lane: Lane): Promise<Link> {
    if (lane.link === null || lane.link.lost !== null) lane.link = await this.#connect();
    return lane.link;
  }

  give(lane: Lane): void {
    this.#parked.delete(lane);
    const next = this.#waiting.shift();
    if (next !== undefined) next.resolve(lane);
    else this.#free.push(lane);
  }

  park(lane: Lane): void {
    this.#parked.add(lane);
    if (this.#parked.size === this.#all.length) for (const next of this.#waiting.splice(0)) next.reject(unsettled());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const next of this.#waiting.splice(0)) next.reject(new Error("the store was closed"));
    for (const lane of this.#all) {
      const { link } = lane;
      lane.link = null;
      await link?.end();
    }
  }
}

const unsettled = () =>
  fault("E.STORE.UNKNOWN_OUTCOME", "every connection has a turn that broke off in its commit; settle them before the next one");
