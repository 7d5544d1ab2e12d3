// The sessions of this process: by id, at most one per worker, and those that wait for their worker to come back.
// What a session does is in session.ts; this only knows where it is and when one that waits is given up.

import type { Session } from "./session.ts";

export interface SessionRegistryLimits {
  readonly resumeTimeoutMs: number;
  readonly detachedMax: number;
  readonly detachedBytesTotalMax: number;
}

interface DetachedSession {
  readonly since: number;
  readonly bytes: number;
}

export class SessionRegistry {
  readonly #limits: SessionRegistryLimits;
  readonly #byId = new Map<string, Session>();
  /** The one that was accepted last. */
  readonly #byWorker = new Map<string, Session>();
  /** Longest waiting first: a Map keeps the order of entering. */
  readonly #detached = new Map<Session, DetachedSession>();
  #detachedBytes = 0;

  constructor(limits: SessionRegistryLimits) {
    this.#limits = limits;
  }

  findById(id: string): Session | undefined {
    return this.#byId.get(id);
  }

  /** The session of a worker: the one accepted last, else one that is being accepted. */
  findByWorker(worker: string): Session | undefined {
    return this.#byWorker.get(worker);
  }

  all(): Iterable<Session> {
    return this.#byId.values();
  }

  /** Effects may be addressed to it from now on. */
  add(session: Session): void {
    this.#byId.set(session.id, session);
    if (!this.#byWorker.has(session.identity.worker)) this.#byWorker.set(session.identity.worker, session);
  }

  /** It is now the worker's session; an earlier one that waits has waited in vain. One that is live is ended by the engine. */
  markCurrent(session: Session): void {
    const { worker } = session.identity;
    const earlier = this.#byWorker.get(worker);
    this.#byWorker.set(worker, session);
    if (earlier !== undefined && earlier !== session && this.#detached.has(earlier)) earlier.end("the worker has a new session");
  }

  isCurrent(session: Session): boolean {
    return this.#byWorker.get(session.identity.worker) === session;
  }

  /** The worker starts over: what waits for it will not be asked for. */
  endDetachedOf(worker: string): void {
    const session = this.#byWorker.get(worker);
    if (session !== undefined && this.#detached.has(session)) session.end("the worker starts over");
  }

  detach(session: Session, now: number): void {
    const bytes = session.heldBytes;
    this.#detached.set(session, { since: now, bytes });
    this.#detachedBytes += bytes;
    while (this.#detached.size > this.#limits.detachedMax || this.#detachedBytes > this.#limits.detachedBytesTotalMax) {
      const [oldest] = this.#detached.keys();
      if (oldest === undefined) return;
      oldest.end("too many sessions wait for their workers");
    }
  }

  /** Its worker is back. */
  reattach(session: Session): void {
    const detached = this.#detached.get(session);
    if (detached === undefined) return;
    this.#detached.delete(session);
    this.#detachedBytes -= detached.bytes;
  }

  remove(session: Session): void {
    this.reattach(session);
    this.#byId.delete(session.id);
    if (this.isCurrent(session)) this.#byWorker.delete(session.identity.worker);
  }

  /** Gives up those that waited long enough. */
  endExpired(now: number): void {
    for (const [session, { since }] of this.#detached) {
      if (now - since < this.#limits.resumeTimeoutMs) return;
      session.end("its worker did not come back in time");
    }
  }
}
