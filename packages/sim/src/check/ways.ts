// Both directions of every session as the wire shows them: what left under which number, what reached the other end on a socket that still
// counted there, which sockets a session has had. Follows and judges nothing; each checker of sessions has one of its own.

import type { WireFrame } from "./wire.ts";
import { itemsIn } from "./wire.ts";

/** One direction of one session. */
export class Way {
  readonly name: string;
  /** What each number carried when it left first. */
  readonly sent = new Map<number, readonly string[]>();
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  /** Everything up to here has arrived, and these beyond. */
  #gotTo: number | null = null;
  readonly #beyond = new Set<number>();

  constructor(name: string) {
    this.name = name;
  }

  leave(seq: number, items: readonly string[]): void {
    if (this.sent.has(seq)) return;
    this.sent.set(seq, items);
    this.first = Math.min(this.first, seq);
    this.last = Math.max(this.last, seq);
  }

  arrive(seq: number): void {
    this.#beyond.add(seq);
    for (let next = (this.#gotTo ?? this.first - 1) + 1; this.#beyond.delete(next); next++) this.#gotTo = next;
  }

  has(seq: number): boolean {
    return seq <= this.upTo || this.#beyond.has(seq);
  }

  /** The last number before the first hole. */
  get upTo(): number {
    return this.#gotTo ?? this.first - 1;
  }
}

export class Ways {
  readonly #ways = new Map<string, Way>();
  /** The newest socket of a session, as the scheduler sees it, and of a worker's process, as that sees it. */
  readonly #newest = new Map<string, string>();

  /** The direction a numbered frame travels in. */
  of({ stream, seen }: WireFrame): Way {
    return this.#way(stream, seen.toward);
  }

  /** The direction whose numbers an ack is about. */
  ackedBy({ stream, seen }: WireFrame): Way {
    return this.#way(stream, seen.toward === "worker" ? "scheduler" : "worker");
  }

  #way(stream: string, toward: string): Way {
    const name = `${stream} towards the ${toward}`;
    let way = this.#ways.get(name);
    if (way === undefined) this.#ways.set(name, (way = new Way(name)));
    return way;
  }

  /** A worker's process listens on the socket it dialled last. */
  dialled(boot: string, connection: string): void {
    this.#newest.set(`dialled ${boot}`, connection);
  }

  /** False for what comes by a socket that another has taken the place of. */
  counts({ seen, stream }: WireFrame): boolean {
    const at = seen.toward === "worker" ? `dialled ${seen.boot}` : `accepted ${stream}`;
    const newest = this.#newest.get(at) ?? seen.connection;
    // A socket that asks to resume is heard once it is let in, with what it said meanwhile.
    return newest === seen.connection || numberOf(seen.connection) > numberOf(newest);
  }

  hear(frame: WireFrame): void {
    const { seen, seq, type, stream } = frame;
    if (type === "control.session.accept" && seen.event === "sent") this.#newest.set(`accepted ${stream}`, seen.connection);
    if (seq === null) return;
    if (seen.event === "sent") this.of(frame).leave(seq, itemsIn(frame));
    if (seen.event === "delivered" && this.counts(frame)) this.of(frame).arrive(seq);
  }
}

/** Connections are numbered in the order in which they were dialled. */
const numberOf = (connection: string): number => Number(connection.slice(1));
