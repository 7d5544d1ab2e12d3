// Crowds that come at once, let in one after the other: so many in any tenth of a second, the others later. Each tenant has a line of its own,
// in the order they came; the lines take turns, so that nobody waits for another's crowd.
// It knows turns and times; what somebody does with a turn is not its business.

import type { DoorEnvironment } from "../../environment/door-environment.ts";

const intervalsPerSecond = 10;

/** False when whoever waited has gone: then the turn is the next one's. */
export type QueuedJoin = () => boolean;

export class JoinRateLimiter {
  readonly #environment: DoorEnvironment;
  readonly #intervalMs: number;
  /** When the last turns were given, oldest at `#at`: none sooner than a span after the one it takes the place of. */
  readonly #recentStarts: number[];
  #oldestIndex = 0;
  /** By tenant, whose turn is next first: a Map keeps the order of entering. None is empty. */
  readonly #queues = new Map<string, QueuedJoin[]>();
  #waiting = 0;
  #isTimerSet = false;

  constructor(perSecondMax: number, environment: DoorEnvironment) {
    this.#environment = environment;
    const startsPerInterval = Math.max(1, Math.floor(perSecondMax / intervalsPerSecond));
    this.#intervalMs = (startsPerInterval * 1_000) / perSecondMax;
    this.#recentStarts = Array.from({ length: Math.min(startsPerInterval, startsRememberedMax) }, () => Number.NEGATIVE_INFINITY);
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** How many wait, of each tenant no more counted than so many. */
  countWaiting(perTenantMax: number): number {
    let sum = 0;
    for (const tenantQueue of this.#queues.values()) sum += Math.min(tenantQueue.length, perTenantMax);
    return sum;
  }

  waitingOfTenant(tenant: string): number {
    return this.#queues.get(tenant)?.length ?? 0;
  }

  /** Runs it now if nobody waits and a turn is free, else in its turn. */
  schedule(tenant: string, run: QueuedJoin): void {
    const now = this.#environment.clock.monotonic();
    if (this.#waiting === 0 && this.#nextSlotAt() <= now) {
      if (run()) this.#recordStart(now);
      return;
    }
    const tenantQueue = this.#queues.get(tenant);
    if (tenantQueue === undefined) this.#queues.set(tenant, [run]);
    else tenantQueue.push(run);
    this.#waiting += 1;
    this.#setTimer(now);
  }

  /** The first of the line whose turn it is; that line is last then. */
  #takeNext(): QueuedJoin | undefined {
    for (const [tenant, tenantQueue] of this.#queues) {
      const run = tenantQueue.shift();
      this.#waiting -= 1;
      this.#queues.delete(tenant);
      if (tenantQueue.length > 0) this.#queues.set(tenant, tenantQueue);
      return run;
    }
    return undefined;
  }

  #nextSlotAt(): number {
    return (this.#recentStarts[this.#oldestIndex] ?? Number.NEGATIVE_INFINITY) + this.#intervalMs;
  }

  #recordStart(now: number): void {
    this.#recentStarts[this.#oldestIndex] = now;
    this.#oldestIndex = (this.#oldestIndex + 1) % this.#recentStarts.length;
  }

  #setTimer(now: number): void {
    if (this.#isTimerSet) return;
    this.#isTimerSet = true;
    this.#environment.timers.after(Math.max(1, Math.ceil(this.#nextSlotAt() - now)), () => {
      this.#isTimerSet = false;
      this.#runDue(this.#environment.clock.monotonic());
    });
  }

  #runDue(now: number): void {
    while (this.#waiting > 0 && this.#nextSlotAt() <= now) if (this.#takeNext()?.() === true) this.#recordStart(now);
    if (this.#waiting > 0) this.#setTimer(now);
  }
}

/** A rate so high that this many turns fit in a tenth of a second is no limit worth remembering more of. */
const startsRememberedMax = 10_000;
