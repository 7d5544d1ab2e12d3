// Who may come in, and when: places for strangers, places for tenants, and turns for all that come at once. It knows how many there are and
// whose they are; what is said on a socket, and what a turn is used for, is not its business.

import type { Outside } from "../outside.ts";
import type { SessionLimits } from "./limits.ts";
import { Pacer, type Turn } from "./pacer.ts";

/** One that has not shown who it is. */
export interface Stranger {
  readonly since: number;
}

type AdmissionLimits = Pick<
  SessionLimits,
  "strangersMax" | "strangerGraceMs" | "connectionsPerTenantMax" | "handshakesPerSecondMax"
>;

export class Admission<S extends Stranger> {
  readonly #limits: AdmissionLimits;
  readonly #outside: Outside;
  readonly #pacer: Pacer;
  /** Longest here first: a Set keeps the order of entering. */
  readonly #strangers = new Set<S>();
  /** Sockets by tenant, of those who have shown who they are. */
  readonly #tenants = new Map<string, number>();

  constructor(limits: AdmissionLimits, outside: Outside) {
    this.#limits = limits;
    this.#outside = outside;
    this.#pacer = new Pacer(limits.handshakesPerSecondMax, outside);
  }

  hasRoom(): boolean {
    return !this.#isCrowded() || this.#idler() !== null;
  }

  enter(stranger: S): void {
    this.#strangers.add(stranger);
  }

  /** Somebody comes in; who has to leave for that, if anybody. */
  makeRoom(): S | null {
    const idler = this.#isCrowded() ? this.#idler() : null;
    if (idler !== null) this.#strangers.delete(idler);
    return idler;
  }

  /** It has shown who it is. False: there are too many of its tenant. */
  trust(stranger: S, tenant: string): boolean {
    const { connectionsPerTenantMax, strangersMax } = this.#limits;
    // Also where it is sent back: on its way out it must not keep others out.
    this.#strangers.delete(stranger);
    const count = this.#tenants.get(tenant) ?? 0;
    if (count >= connectionsPerTenantMax || this.#pacer.waitingOf(tenant) >= strangersMax) return false;
    this.#tenants.set(tenant, count + 1);
    return true;
  }

  /** A socket is gone; `tenant` where it had been trusted. */
  leave(stranger: S, tenant: string | null): void {
    this.#strangers.delete(stranger);
    if (tenant === null) return;
    const count = (this.#tenants.get(tenant) ?? 0) - 1;
    if (count > 0) this.#tenants.set(tenant, count);
    else this.#tenants.delete(tenant);
  }

  pace(tenant: string, turn: Turn): void {
    this.#pacer.queue(tenant, turn);
  }

  #isCrowded(): boolean {
    return this.#strangers.size + this.#crowd() >= this.#limits.strangersMax;
  }

  /**
   * Those who wait for their turn have shown who they are, and are a crowd all the same. One tenant's counts as half of the places at
   * most: the other half is for the other tenants, whatever that one does.
   */
  #crowd(): number {
    return this.#pacer.crowd(this.#limits.strangersMax / 2);
  }

  /**
   * The stranger that has been silent longest, if that is too long for somebody who has something to say: it makes room. Without that,
   * whoever opens sockets and says nothing would keep every worker out. Those who wait for their turn are never sent away.
   */
  #idler(): S | null {
    const [oldest] = this.#strangers;
    if (oldest === undefined || this.#crowd() >= this.#limits.strangersMax) return null;
    return this.#outside.clock.ticks() - oldest.since >= this.#limits.strangerGraceMs ? oldest : null;
  }
}
