// Admits connections: limits on unauthenticated ones and on those of a tenant, and a rate at which workers may join, fair between tenants.

import { type Fault, FifoQueue, fault } from "@astraflow/protocol";
import { addressBlockOf, type ServiceEnvironment } from "@astraflow/services";
import type { SessionLimits } from "../connection/session-limits.ts";
import { HandshakeThrottle } from "./handshake-throttle.ts";

type AdmissionLimits = Pick<
  SessionLimits,
  | "unauthenticatedMax"
  | "unauthenticatedPerAddressMax"
  | "unauthenticatedGraceMs"
  | "connectionsPerTenantMax"
  | "handshakesPerSecondMax"
>;

export const tooManyConnectionsFault = (): Fault => fault("E.OVERLOADED", "too many connections; try again later");

export class AdmissionControl<S extends { readonly connectedAt: number; readonly addressBlock: string }> {
  readonly #limits: AdmissionLimits;
  readonly #environment: ServiceEnvironment;
  readonly #joinRateLimiter: JoinRateLimiter;
  /** Longest connected first; all of them, and by address. */
  readonly #unauthenticated = new Set<S>();
  readonly #unauthenticatedByAddress = new Map<string, Set<S>>();
  readonly throttle: HandshakeThrottle;
  /** Authenticated connections by tenant. */
  readonly #connectionsByTenant = new Map<string, number>();

  constructor(limits: AdmissionLimits, environment: ServiceEnvironment) {
    this.#limits = limits;
    this.#environment = environment;
    this.#joinRateLimiter = new JoinRateLimiter(limits.handshakesPerSecondMax, environment);
    this.throttle = new HandshakeThrottle(environment);
  }

  /** Why there is no place for another socket from this address; null where there is. */
  capacityFault(address: string): Fault | null {
    const { throttle } = this;
    const pending = this.#unauthenticatedByAddress.get(addressBlockOf(address))?.size ?? 0;
    if (pending >= throttle.placesOf(address, this.#limits.unauthenticatedPerAddressMax))
      return fault("E.AUTH.THROTTLED", "too many connections without a session from this address; try again later", {
        retryAfterMs: Math.max(1_000, throttle.addressWaitMs(address)),
      });
    return !this.#isFull() || this.#findEvictable() !== null ? null : tooManyConnectionsFault();
  }

  add(connection: S): void {
    const { addressBlock } = connection;
    const ofAddress = this.#unauthenticatedByAddress.get(addressBlock) ?? new Set();
    this.#unauthenticatedByAddress.set(addressBlock, ofAddress.add(connection));
    this.#unauthenticated.add(connection);
  }

  #removeUnauthenticated(connection: S): void {
    const { addressBlock } = connection;
    this.#unauthenticated.delete(connection);
    const ofAddress = this.#unauthenticatedByAddress.get(addressBlock);
    if (ofAddress?.delete(connection) === true && ofAddress.size === 0) this.#unauthenticatedByAddress.delete(addressBlock);
  }

  /** The connection that has to make room for a new one, if any. */
  evictIdle(): S | null {
    const evicted = this.#isFull() ? this.#findEvictable() : null;
    if (evicted !== null) this.#removeUnauthenticated(evicted);
    return evicted;
  }

  /** False: its tenant has too many connections. */
  markAuthenticated(connection: S, tenant: string): boolean {
    const { connectionsPerTenantMax, unauthenticatedMax } = this.#limits;
    // Also where it is rejected: while it closes it must not keep others out.
    this.#removeUnauthenticated(connection);
    const count = this.#connectionsByTenant.get(tenant) ?? 0;
    if (count >= connectionsPerTenantMax || this.#joinRateLimiter.waitingOfTenant(tenant) >= unauthenticatedMax) return false;
    this.#connectionsByTenant.set(tenant, count + 1);
    return true;
  }

  /** A socket is gone; `tenant` is null where it was never authenticated. */
  remove(connection: S, tenant: string | null): void {
    this.#removeUnauthenticated(connection);
    if (tenant === null) return;
    const count = (this.#connectionsByTenant.get(tenant) ?? 0) - 1;
    if (count > 0) this.#connectionsByTenant.set(tenant, count);
    else this.#connectionsByTenant.delete(tenant);
  }

  scheduleJoin(tenant: string, join: QueuedJoin): void {
    this.#joinRateLimiter.schedule(tenant, join);
  }

  #isFull(): boolean {
    return this.#unauthenticated.size + this.#waitingCount() >= this.#limits.unauthenticatedMax;
  }

  /** Workers that wait for their turn count too, but those of one tenant as half of the places at most: the rest is for other tenants. */
  #waitingCount(): number {
    return this.#joinRateLimiter.countWaiting(this.#limits.unauthenticatedMax / 2);
  }

  /**
   * The unauthenticated connection that has been idle longest, if that is too long, of the address that has most of them. Without this, a peer that
   * opens sockets and sends nothing would keep every worker out. Workers that wait for their turn are never evicted.
   */
  #findEvictable(): S | null {
    let most: ReadonlySet<S> = this.#unauthenticated;
    let mostSize = 1;
    for (const ofAddress of this.#unauthenticatedByAddress.values())
      if (ofAddress.size > mostSize) [most, mostSize] = [ofAddress, ofAddress.size];
    const [oldest] = most;
    if (oldest === undefined || this.#waitingCount() >= this.#limits.unauthenticatedMax) return null;
    return this.#environment.clock.monotonic() - oldest.connectedAt >= this.#limits.unauthenticatedGraceMs ? oldest : null;
  }
}

const intervalsPerSecond = 10;
/** At a rate so high that more than this many joins fit in an interval, the limit need not be exact. */
const startsRememberedMax = 10_000;

/** False when the join is not needed any more: then the next one gets its turn. */
type QueuedJoin = () => boolean;

/** Starts so many joins in any tenth of a second; the others wait, in one queue per tenant, and the queues take turns. */
export class JoinRateLimiter {
  readonly #environment: ServiceEnvironment;
  readonly #intervalMs: number;
  /** Times of the last starts, the oldest at `#oldestIndex`: a start must be an interval later than the one it replaces. */
  readonly #recentStarts: number[];
  #oldestIndex = 0;
  /** By tenant, the next one first; none is empty. */
  readonly #queues = new Map<string, FifoQueue<QueuedJoin>>();
  #waiting = 0;
  #isTimerSet = false;

  constructor(perSecondMax: number, environment: ServiceEnvironment) {
    this.#environment = environment;
    const startsPerInterval = Math.max(1, Math.floor(perSecondMax / intervalsPerSecond));
    this.#intervalMs = (startsPerInterval * 1_000) / perSecondMax;
    this.#recentStarts = Array.from({ length: Math.min(startsPerInterval, startsRememberedMax) }, () => Number.NEGATIVE_INFINITY);
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** How many wait, counting at most `perTenantMax` of each tenant. */
  countWaiting(perTenantMax: number): number {
    let sum = 0;
    for (const queue of this.#queues.values()) sum += Math.min(queue.size, perTenantMax);
    return sum;
  }

  waitingOfTenant(tenant: string): number {
    return this.#queues.get(tenant)?.size ?? 0;
  }

  /** Runs it now if nobody waits and the rate allows it, else in its turn. */
  schedule(tenant: string, run: QueuedJoin): void {
    const now = this.#environment.clock.monotonic();
    if (this.#waiting === 0 && this.#nextSlotAt() <= now) {
      if (run()) this.#recordStart(now);
      return;
    }
    const queue = this.#queues.get(tenant) ?? new FifoQueue<QueuedJoin>();
    queue.push(run);
    this.#queues.set(tenant, queue);
    this.#waiting += 1;
    this.#setTimer(now);
  }

  /** Takes from the queue whose turn it is and moves that queue to the end. */
  #takeNext(): QueuedJoin | undefined {
    for (const [tenant, queue] of this.#queues) {
      const run = queue.shift();
      this.#waiting -= 1;
      this.#queues.delete(tenant);
      if (queue.size > 0) this.#queues.set(tenant, queue);
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
