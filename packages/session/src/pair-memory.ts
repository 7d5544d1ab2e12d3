// The last messages of a dialect without numbers, by (id, corr): what comes again is recognised. A convenience that spares work; that
// nothing is applied twice is the engine's promise and does not depend on it.

import type { Ticket } from "./receive-window.ts";

const pairsMax = 4_096;

export class PairMemory {
  private readonly tickets = new Map<string, Ticket>();

  /** The ticket of its first arrival; undefined if this is it. */
  find(id: string, corr: string | undefined): Ticket | undefined {
    return this.tickets.get(keyOf(id, corr));
  }

  keep(ticket: Ticket, corr: string | undefined): void {
    if (this.tickets.size >= pairsMax) this.forgetOldest();
    this.tickets.set(keyOf(ticket.id, corr), ticket);
  }

  private forgetOldest(): void {
    const [oldest] = this.tickets.keys();
    if (oldest !== undefined) this.tickets.delete(oldest);
  }
}

/** The length keeps ("a", "b:c") apart from ("a:b", "c"), and both from an id without a corr. */
const keyOf = (id: string, corr: string | undefined): string =>
  corr === undefined ? `${id.length}:${id}` : `${id.length}:${id}:${corr}`;
