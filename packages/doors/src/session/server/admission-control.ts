// Who may come in, and when: places for strangers, places for tenants, and turns for all that come at once. It knows how many there are and
// whose they are; what is said on a socket, and what a turn is used for, is not its business.

import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { SessionLimits } from "../lifecycle/session-limits.ts";
import { JoinRateLimiter, type QueuedJoin } from "./join-rate-limiter.ts";

/** One that has not shown who it is. */
export interface UnauthenticatedPeer {
  readonly connectedAt: number;
}

type AdmissionLimits = Pick<
  SessionLimits,
  "unauthenticatedMax" | "unauthenticatedGraceMs" | "connectionsPerTenantMax" | "handshakesPerSecondMax"
>;

export class AdmissionControl<S extends UnauthenticatedPeer> {
  readonly #limits: AdmissionLimits;
  readonly #environment: DoorEnvironment;
  readonly #joinRateLimiter: JoinRateLimiter;
  /** Longest here first: a Set keeps the order of entering. */
  readonly #unauthenticated = new Set<S>();
  /** Sockets by tenant, of those who have shown who they are. */
  readonly #connectionsByTenant = new Map<string, number>();

  constructor(limits: AdmissionLimits, environment: DoorEnvironment) {
    this.#limits = limits;
    this.#environment = environment;
    this.#joinRateLimiter = new JoinRateLimiter(limits.handshakesPerSecondMax, environment);
  }

  hasCapacity(): boolean {
    return !this.#isFull() || this.#findEvictable() !== null;
  }

  add(peer: S): void {
    this.#unauthenticated.add(peer);
  }

  /** Somebody comes in; who has to leave for that, if anybody. */
  evictIdle(): S | null {
    const evicted = this.#isFull() ? this.#findEvictable() : null;
    if (evicted !== null) this.#unauthenticated.delete(evicted);
    return evicted;
  }

  /** It has shown who it is. False: there are too many of its tenant. */
  markAuthenticated(peer: S, tenant: string): boolean {
    const { connectionsPerTenantMax, unauthenticatedMax } = this.#limits;
    // Also where it is sent back: on its way out it must not keep others out.
    this.#unauthenticated.delete(peer);
    const count = this.#connectionsByTenant.get(tenant) ?? 0;
    if (count >= connectionsPerTenantMax || this.#joinRateLimiter.waitingOfTenant(tenant) >= unauthenticatedMax) return false;
    this.#connectionsByTenant.set(tenant, count + 1);
    return true;
  }

  /** A socket is gone; `tenant` where it had been trusted. */
  remove(peer: S, tenant: string | null): void {
    this.#unauthenticated.delete(peer);
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

  /**
   * Those who wait for their turn have shown who they are, and are a crowd all the same. One tenant's counts as half of the places at
   * most: the other half is for the other tenants, whatever that one does.
   */
  #waitingCount(): number {
    return this.#joinRateLimiter.countWaiting(this.#limits.unauthenticatedMax / 2);
  }

  /**
   * The stranger that has been silent longest, if that is too long for somebody who has something to say: it makes room. Without that,
   * whoever opens sockets and says nothing would keep every worker out. Those who wait for their turn are never sent away.
   */
  #findEvictable(): S | null {
    const [oldest] = this.#unauthenticated;
    if (oldest === undefined || this.#waitingCount() >= this.#limits.unauthenticatedMax) return null;
    return this.#environment.clock.monotonic() - oldest.connectedAt >= this.#limits.unauthenticatedGraceMs ? oldest : null;
  }
}
