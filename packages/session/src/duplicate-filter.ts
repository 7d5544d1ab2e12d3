// The last messages of a dialect without numbers, by (id, corr): what comes again is recognised. A convenience that spares work; that
// nothing is applied twice is the engine's promise and does not depend on it.

import type { DeliveryTag } from "./receive-window.ts";

const entriesMax = 4_096;

export class DuplicateFilter {
  private readonly tags = new Map<string, DeliveryTag>();

  /** The ticket of its first arrival; undefined if this is it. */
  findFirstArrival(id: string, corr: string | undefined): DeliveryTag | undefined {
    return this.tags.get(pairKey(id, corr));
  }

  remember(tag: DeliveryTag, corr: string | undefined): void {
    if (this.tags.size >= entriesMax) this.evictOldest();
    this.tags.set(pairKey(tag.id, corr), tag);
  }

  private evictOldest(): void {
    const [oldest] = this.tags.keys();
    if (oldest !== undefined) this.tags.delete(oldest);
  }
}

/** The length keeps ("a", "b:c") apart from ("a:b", "c"), and both from an id without a corr. */
const pairKey = (id: string, corr: string | undefined): string =>
  corr === undefined ? `${id.length}:${id}` : `${id.length}:${id}:${corr}`;
