// Both directions of every session as seen on the wire: which items were sent under which number, which numbers arrived on the current socket, and
// which sockets a session has had. It only records; each session checker has its own.

import type { ObservedFrame } from "./observed-frame.ts";
import { describeItems } from "./observed-frame.ts";

/** One direction of one session. */
export class FrameDirection {
  readonly name: string;
  /** The items of each number when it was first sent. */
  readonly itemsByNumber = new Map<number, readonly string[]>();
  firstNumber = Number.POSITIVE_INFINITY;
  lastNumber = Number.NEGATIVE_INFINITY;
  /** Everything up to here has arrived, and these beyond. */
  #arrivedUpTo: number | null = null;
  readonly #arrivedBeyond = new Set<number>();

  constructor(name: string) {
    this.name = name;
  }

  recordSent(seq: number, items: readonly string[]): void {
    if (this.itemsByNumber.has(seq)) return;
    this.itemsByNumber.set(seq, items);
    this.firstNumber = Math.min(this.firstNumber, seq);
    this.lastNumber = Math.max(this.lastNumber, seq);
  }

  recordArrival(seq: number): void {
    this.#arrivedBeyond.add(seq);
    for (let next = (this.#arrivedUpTo ?? this.firstNumber - 1) + 1; this.#arrivedBeyond.delete(next); next++)
      this.#arrivedUpTo = next;
  }

  hasArrived(seq: number): boolean {
    return seq <= this.arrivedUpTo || this.#arrivedBeyond.has(seq);
  }

  /** The last number before the first hole. */
  get arrivedUpTo(): number {
    return this.#arrivedUpTo ?? this.firstNumber - 1;
  }
}

export class FrameDirections {
  readonly #directions = new Map<string, FrameDirection>();
  /** The newest socket of a session, as the scheduler sees it, and of a worker's process, as that sees it. */
  readonly #newestSockets = new Map<string, string>();

  /** The direction a numbered frame travels in. */
  directionOf({ sessionKey, observation }: ObservedFrame): FrameDirection {
    return this.#getOrCreate(sessionKey, observation.toward);
  }

  /** The direction whose numbers an ack is about. */
  directionAckedBy({ sessionKey, observation }: ObservedFrame): FrameDirection {
    return this.#getOrCreate(sessionKey, observation.toward === "worker" ? "scheduler" : "worker");
  }

  #getOrCreate(sessionKey: string, toward: string): FrameDirection {
    const name = `${sessionKey} towards the ${toward}`;
    let direction = this.#directions.get(name);
    if (direction === undefined) this.#directions.set(name, (direction = new FrameDirection(name)));
    return direction;
  }

  /** A worker process listens on the socket it dialled last. */
  recordDial(boot: string, connection: string): void {
    this.#newestSockets.set(`dialled ${boot}`, connection);
  }

  /** False for frames of a socket that was replaced. */
  isFromCurrentSocket({ observation, sessionKey }: ObservedFrame): boolean {
    const at = observation.toward === "worker" ? `dialled ${observation.boot}` : `accepted ${sessionKey}`;
    const newest = this.#newestSockets.get(at) ?? observation.connection;
    // Frames of a resuming socket count once it is accepted, including those sent before.
    return newest === observation.connection || connectionNumber(observation.connection) > connectionNumber(newest);
  }

  observeFrame(frame: ObservedFrame): void {
    const { observation, seq, type, sessionKey } = frame;
    if (type === "control.session.accept" && observation.event === "sent")
      this.#newestSockets.set(`accepted ${sessionKey}`, observation.connection);
    if (seq === null) return;
    if (observation.event === "sent") this.directionOf(frame).recordSent(seq, describeItems(frame));
    if (observation.event === "delivered" && this.isFromCurrentSocket(frame)) this.directionOf(frame).recordArrival(seq);
  }
}

/** Connections are numbered in the order in which they were dialled. */
const connectionNumber = (connection: string): number => Number(connection.slice(1));
