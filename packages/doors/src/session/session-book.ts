// The sessions of this process: by id, at most one per worker, and those that wait for their worker to come back.
// What a session does is in session.ts; this only knows where it is and when one that waits is given up.

import type { Session } from "./session.ts";

export interface BookLimits {
  readonly resumeMs: number;
  readonly detachedMax: number;
  readonly detachedBytesTotalMax: number;
}

interface Waiting {
  readonly since: number;
  readonly bytes: number;
}

export class SessionBook {
  readonly #limits: BookLimits;
  readonly #byId = new Map<string, Session>();
  /** The one that was accepted last. */
  readonly #byWorker = new Map<string, Session>();
  /** Longest waiting first: a Map keeps the order of entering. */
  readonly #detached = new Map<Session, Waiting>();
  #detachedBytes = 0;

  constructor(limits: BookLimits) {
    this.#limits = limits;
  }

  find(id: string): Session | undefined {
    return this.#byId.get(id);
  }

  /** The session of a worker: the one accepted last, else one that is being accepted. */
  of(worker: string): Session | undefined {
    return this.#byWorker.get(worker);
  }

  all(): Iterable<Session> {
    return this.#byId.values();
  }

  /** Effects may be addressed to it from now on. */
  open(session: Session): void {
    this.#byId.set(session.id, session);
    if (!this.#byWorker.has(session.bound.worker)) this.#byWorker.set(session.bound.worker, session);
  }

  /** It is now the worker's session; an earlier one that waits has waited in vain. One that is live is ended by the engine. */
  accepted(session: Session): void {
    const { worker } = session.bound;
    const earlier = this.#byWorker.get(worker);
    this.#byWorker.set(worker, session);
    if (earlier !== undefined && earlier !== session && this.#detached.has(earlier)) earlier.end("the worker has a new session");
  }

  isCurrent(session: Session): boolean {
    return this.#byWorker.get(session.bound.worker) === session;
  }

  /** The worker starts over: what waits for it will not be asked for. */
  startOver(worker: string): void {
    const session = this.#byWorker.get(worker);
    if (session !== undefined && this.#detached.has(session)) session.end("the worker starts over");
  }

  wait(session: Session, now: number): void {
    const bytes = session.weight;
    this.#detached.set(session, { since: now, bytes });
    this.#detachedBytes += bytes;
    while (this.#detached.size > this.#limits.detachedMax || this.#detachedBytes > this.#limits.detachedBytesTotalMax) {
      const [oldest] = this.#detached.keys();
      if (oldest === undefined) return;
      oldest.end("too many sessions wait for their workers");
    }
  }

  /** Its worker is back. */
  rejoin(session: Session): void {
    const waiting = this.#detached.get(session);
    if (waiting === undefined) return;
    this.#detached.delete(session);
    this.#detachedBytes -= waiting.bytes;
  }

  remove(session: Session): void {
    this.rejoin(session);
    this.#byId.delete(session.id);
    if (this.isCurrent(session)) this.#byWorker.delete(session.bound.worker);
  }

  /** Gives up those that waited long enough. */
  sweep(now: number): void {
    for (const [session, { since }] of this.#detached) {
      if (now - since < this.#limits.resumeMs) return;
      session.end("its worker did not come back in time");
    }
  }
}
