// The sessions as seen on the wire: which items were sent under which number, which numbers arrived on the current socket, which sockets a session
// has had, and which session of a worker is the newest. It only records.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { Observation } from "../observation/observation.ts";
import { describeItems, type ObservedFrame } from "./observed-frame.ts";

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
    for (let next = this.arrivedUpTo + 1; this.#arrivedBeyond.delete(next); next++) this.#arrivedUpTo = next;
  }

  hasArrived(seq: number): boolean {
    return seq <= this.arrivedUpTo || this.#arrivedBeyond.has(seq);
  }

  /** The last number before the first hole. */
  get arrivedUpTo(): number {
    return this.#arrivedUpTo ?? this.firstNumber - 1;
  }
}

export class ObservedSessions {
  readonly #directions = new Map<string, FrameDirection>();
  /** The newest socket of a session, as the scheduler sees it, and of a worker's process, as that sees it. */
  readonly #newestSockets = new Map<string, string>();
  /** By worker: the connection of its last register that reached a scheduler, or the session of its last resume. */
  readonly #newestSessions = new Map<string, string>();
  /** Where each session was accepted first. */
  readonly #firstConnections = new Map<string, string>();
  /** By worker: the first accept on the socket that was accepted last. A later accept on the same socket only renews its token. */
  readonly lastAccepts = new Map<string, ObservedFrame>();

  /** The direction a numbered frame travels in. */
  directionOf(frame: ObservedFrame, toward = frame.toward): FrameDirection {
    const name = `${frame.sessionKey} towards the ${toward}`;
    return getOrCreate(this.#directions, name, () => new FrameDirection(name));
  }

  /** The direction whose numbers an ack is about. */
  directionAckedBy(frame: ObservedFrame): FrameDirection {
    return this.directionOf(frame, frame.toward === "worker" ? "scheduler" : "worker");
  }

  /** False for frames of a socket that was replaced. */
  isFromCurrentSocket({ toward, boot, connection, sessionKey }: ObservedFrame): boolean {
    const newest = this.#newestSockets.get(toward === "worker" ? `dialled ${boot}` : `accepted ${sessionKey}`) ?? connection;
    // Frames of a resuming socket count once it is accepted, including those sent before.
    return newest === connection || connectionNumber(connection) > connectionNumber(newest);
  }

  /** False for a session that a later one has replaced; schedulers ignore what it sends. */
  isNewest({ sessionKey, workerKey }: ObservedFrame): boolean {
    const newest = this.#newestSessions.get(workerKey);
    return newest === sessionKey || newest === this.firstConnectionOf(sessionKey);
  }

  firstConnectionOf(sessionKey: string): string {
    return this.#firstConnections.get(sessionKey) ?? sessionKey;
  }

  /** A worker process listens on the socket it dialled last. */
  observe(observation: Observation): void {
    if (observation.kind === "link" && observation.event === "dialled")
      this.#newestSockets.set(`dialled ${observation.boot}`, observation.connection);
  }

  observeFrame(frame: ObservedFrame): void {
    const { type, event, seq, connection, sessionKey, workerKey } = frame;
    if (event === "delivered" && type === "control.register") this.#newestSessions.set(workerKey, connection);
    if (event === "delivered" && type === "control.resume") this.#newestSessions.set(workerKey, sessionKey);
    if (event === "sent" && type === "control.session.accept") {
      this.#newestSockets.set(`accepted ${sessionKey}`, connection);
      getOrCreate(this.#firstConnections, sessionKey, () => connection);
      if (this.lastAccepts.get(workerKey)?.connection !== connection) this.lastAccepts.set(workerKey, frame);
    }
    if (seq === null) return;
    if (event === "sent") this.directionOf(frame).recordSent(seq, describeItems(frame));
    if (event === "delivered" && this.isFromCurrentSocket(frame)) this.directionOf(frame).recordArrival(seq);
  }
}

/** Connections are numbered in the order in which they were dialled. */
const connectionNumber = (connection: string): number => Number(connection.slice(1));
