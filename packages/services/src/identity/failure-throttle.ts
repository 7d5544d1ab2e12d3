// Slows down whoever fails: after a few failures each further attempt has to wait, 1 s, then 2 s, 4 s and so on up to a limit. Nobody sleeps
// here: an attempt that comes too early is refused by its caller. In the memory of one process.

export interface ThrottleRule {
  /** Failures without any delay. */
  readonly freeFailures: number;
  readonly delayMsMax: number;
}

export interface ThrottleSizes {
  /** Names remembered at once. Beyond that those with the fewest failures are forgotten first. */
  readonly entriesMax: number;
  /** After so long without a failure a name begins anew. */
  readonly forgetMs: number;
}

interface Failures {
  count: number;
  lastAt: number;
  blockedUntil: number;
}

const firstDelayMs = 1_000;
/** How much of a full table is forgotten at once, so that the search for it is rare. */
const evictedShare = 1 / 8;

export class FailureThrottle {
  readonly #failures = new Map<string, Failures>();
  readonly #monotonic: () => number;
  readonly #sizes: ThrottleSizes;

  constructor(monotonic: () => number, sizes: ThrottleSizes) {
    this.#monotonic = monotonic;
    this.#sizes = sizes;
  }

  get size(): number {
    return this.#failures.size;
  }

  /** How long the next attempt under this name has to wait; 0: it may be made now. */
  waitMs(name: string): number {
    return Math.max((this.#failures.get(name)?.blockedUntil ?? 0) - this.#monotonic(), 0);
  }

  /**
   * Counts a failure; a weight below 1 is for what often happens by mistake. To be called before the attempt is evaluated, because attempts
   * may be concurrent: the returned function takes it back.
   */
  countFailure(name: string, rule: ThrottleRule, weight = 1): () => void {
    const now = this.#monotonic();
    const entry = this.#entryOf(name, now);
    const earlier = { ...entry };
    entry.count += weight;
    entry.lastAt = now;
    entry.blockedUntil = Math.max(entry.blockedUntil, now + delayMsOf(entry.count, rule));
    const counted = { ...entry };
    return () => {
      entry.count = Math.max(entry.count - weight, 0);
      // Failures since then have set a delay of their own, which stays.
      if (entry.lastAt === counted.lastAt && entry.blockedUntil === counted.blockedUntil)
        entry.blockedUntil = earlier.blockedUntil;
    };
  }

  /** It begins anew. */
  forget(name: string): void {
    this.#failures.delete(name);
  }

  #entryOf(name: string, now: number): Failures {
    const found = this.#failures.get(name);
    if (found !== undefined && !this.#isForgotten(found, now)) return found;
    if (found === undefined && this.#failures.size >= this.#sizes.entriesMax) this.#evict(now);
    const entry = { count: 0, lastAt: now, blockedUntil: 0 };
    this.#failures.set(name, entry);
    return entry;
  }

  #isForgotten({ lastAt, blockedUntil }: Failures, now: number): boolean {
    return now - Math.max(lastAt, blockedUntil) >= this.#sizes.forgetMs;
  }

  /** Whoever fails under many names only fills the table with names that failed once: they leave first, oldest first. */
  #evict(now: number): void {
    for (const [name, entry] of this.#failures) if (this.#isForgotten(entry, now)) this.#failures.delete(name);
    const surplus = this.#failures.size - Math.floor(this.#sizes.entriesMax * (1 - evictedShare));
    if (surplus <= 0) return;
    const byHeat = [...this.#failures].sort(([, one], [, other]) => one.count - other.count || one.lastAt - other.lastAt);
    for (const [name] of byHeat.slice(0, surplus)) this.#failures.delete(name);
  }
}

function delayMsOf(count: number, { freeFailures, delayMsMax }: ThrottleRule): number {
  const charged = Math.ceil(count - freeFailures);
  // The exponent is bounded, so that a long attack does not end in an infinite delay.
  return charged <= 0 ? 0 : Math.min(firstDelayMs * 2 ** Math.min(charged - 1, 30), delayMsMax);
}
