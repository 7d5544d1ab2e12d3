// How long the scheduler surely still counts on this worker: from the moment a renewal that was answered had been SENT.
// Counted on a monotonic clock; what is done at its end lives in link.ts.

export interface LeaseSettings {
  /** Share of the lease that is given up for safety: clocks drift and stopping takes time. */
  readonly safetyMargin: number;
  /** Heartbeats that may go unanswered before the link counts as dead. */
  readonly missedHeartbeatsMax: number;
}

export class Lease {
  readonly #settings: LeaseSettings;
  /** Unanswered renewals by frame id, oldest first. */
  readonly #unanswered = new Map<string, number>();
  #leaseMs = Number.POSITIVE_INFINITY;
  #renewedAt = Number.POSITIVE_INFINITY;

  constructor(settings: LeaseSettings) {
    this.#settings = settings;
  }

  /** A session began: its register, sent at `from`, was the renewal. */
  grant(leaseMs: number | undefined, from: number): void {
    this.#leaseMs = leaseMs ?? Number.POSITIVE_INFINITY;
    this.#renewedAt = from;
    this.#unanswered.clear();
  }

  /** The session goes on: its resume, sent at `from`, was a renewal of what was granted. */
  renew(leaseMs: number | undefined, from: number): void {
    this.grant(leaseMs ?? this.#leaseMs, from);
  }

  /** A heartbeat left. */
  heartbeatSent(id: string, at: number): void {
    this.#unanswered.set(id, at);
  }

  /** The answer to a heartbeat came. Older ones need none any more. Gives when it was sent; undefined: it answers no heartbeat. */
  heartbeatAnswered(id: string): number | undefined {
    const sentAt = this.#unanswered.get(id);
    if (sentAt === undefined) return undefined;
    for (const [older, at] of this.#unanswered) if (at <= sentAt) this.#unanswered.delete(older);
    this.#renewedAt = Math.max(this.#renewedAt, sentAt);
    return sentAt;
  }

  /** The connection is gone: answers to what was asked on it will not come, the lease itself runs on. */
  clearUnanswered(): void {
    this.#unanswered.clear();
  }

  get isSchedulerSilent(): boolean {
    return this.#unanswered.size >= this.#settings.missedHeartbeatsMax;
  }

  /** It is over; only a new grant begins another. */
  expire(): void {
    this.#renewedAt = Number.POSITIVE_INFINITY;
  }

  /** From here on nothing may be done in the name of this lease. */
  get selfFenceAt(): number {
    return this.#renewedAt + this.#leaseMs * (1 - this.#settings.safetyMargin);
  }
}
