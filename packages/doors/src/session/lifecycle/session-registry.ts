// The sessions of this process: by id, at most one per worker, and the detached ones, which end when they are not resumed in time.

import { fault } from "@astraflow/protocol";
import { evictAboveTotal } from "../../environment/byte-total.ts";
import type { SessionLimits } from "../connection/session-limits.ts";
import type { Session } from "./session.ts";

type RegistryLimits = Pick<SessionLimits, "resumeTimeoutMs" | "detachedMax" | "detachedBytesTotalMax" | "heldBytesTotalMax">;

const heldBytesOf = ({ heldBytes, connection }: Session): number => heldBytes + (connection?.socket.bufferedAmount ?? 0);

interface DetachedSession {
  readonly since: number;
  readonly bytes: number;
}

export class SessionRegistry {
  readonly #limits: RegistryLimits;
  readonly #byId = new Map<string, Session>();
  /** The session that was accepted last. */
  readonly #byWorker = new Map<string, Session>();
  /** Longest detached first. */
  readonly #detached = new Map<Session, DetachedSession>();
  #detachedBytes = 0;

  constructor(limits: RegistryLimits) {
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

  /** It is now the session of its worker. An earlier one that is detached ends; one that is live is ended by the engine. */
  markCurrent(session: Session): void {
    const { worker } = session.identity;
    const earlier = this.#byWorker.get(worker);
    this.#byWorker.set(worker, session);
    if (earlier !== undefined && earlier !== session && this.#detached.has(earlier)) earlier.end("replaced by a new session");
  }

  isCurrent(session: Session): boolean {
    return this.#byWorker.get(session.identity.worker) === session;
  }

  /** The worker sent a new handshake, so it will not resume. */
  endDetachedOf(worker: string): void {
    const session = this.#byWorker.get(worker);
    if (session !== undefined && this.#detached.has(session)) session.end("the worker started a new handshake");
  }

  detach(session: Session, now: number): void {
    const bytes = session.heldBytes;
    this.#detached.set(session, { since: now, bytes });
    this.#detachedBytes += bytes;
    while (this.#detached.size > this.#limits.detachedMax || this.#detachedBytes > this.#limits.detachedBytesTotalMax) {
      const [oldest] = this.#detached.keys();
      if (oldest === undefined) return;
      oldest.end("too many detached sessions");
    }
  }

  /** Its worker has resumed it. */
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

  /** Resets the sessions that hold most while all of them together hold too much. Their workers come back, and lose nothing that they hold. */
  limitHeldBytes(): void {
    evictAboveTotal([...this.#byId.values()], {
      bytesOf: heldBytesOf,
      bytesMax: this.#limits.heldBytesTotalMax,
      evict: (session) =>
        session.reset(fault("E.OVERLOADED", "the sessions of this scheduler hold too much together, and this one holds most")),
    });
  }

  /** Ends the sessions that were detached for too long. */
  endExpired(now: number): void {
    for (const [session, { since }] of this.#detached) {
      if (now - since < this.#limits.resumeTimeoutMs) return;
      session.end("not resumed in time");
    }
  }
}
