// Crowds that come at once, let in one after the other: so many in any tenth of a second, the others later. Each tenant has a line of its own,
// in the order they came; the lines take turns, so that nobody waits for another's crowd.
// It knows turns and times; what somebody does with a turn is not its business.

import type { Outside } from "../outside.ts";

const sharesPerSecond = 10;

/** False when whoever waited has gone: then the turn is the next one's. */
export type Turn = () => boolean;

export class Pacer {
  readonly #outside: Outside;
  readonly #spanMs: number;
  /** When the last turns were given, oldest at `#at`: none sooner than a span after the one it takes the place of. */
  readonly #given: number[];
  #at = 0;
  /** By tenant, whose turn is next first: a Map keeps the order of entering. None is empty. */
  readonly #lines = new Map<string, Turn[]>();
  #waiting = 0;
  #isTimed = false;

  constructor(perSecondMax: number, outside: Outside) {
    this.#outside = outside;
    const share = Math.max(1, Math.floor(perSecondMax / sharesPerSecond));
    this.#spanMs = (share * 1_000) / perSecondMax;
    this.#given = Array.from({ length: Math.min(share, turnsKeptMax) }, () => Number.NEGATIVE_INFINITY);
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** How many wait, of each tenant no more counted than so many. */
  crowd(perTenantMax: number): number {
    let sum = 0;
    for (const line of this.#lines.values()) sum += Math.min(line.length, perTenantMax);
    return sum;
  }

  waitingOf(tenant: string): number {
    return this.#lines.get(tenant)?.length ?? 0;
  }

  /** Runs it now if nobody waits and a turn is free, else in its turn. */
  queue(tenant: string, run: Turn): void {
    const now = this.#outside.clock.ticks();
    if (this.#waiting === 0 && this.#freeAt() <= now) {
      if (run()) this.#give(now);
      return;
    }
    const line = this.#lines.get(tenant);
    if (line === undefined) this.#lines.set(tenant, [run]);
    else line.push(run);
    this.#waiting += 1;
    this.#time(now);
  }

  /** The first of the line whose turn it is; that line is last then. */
  #next(): Turn | undefined {
    for (const [tenant, line] of this.#lines) {
      const run = line.shift();
      this.#waiting -= 1;
      this.#lines.delete(tenant);
      if (line.length > 0) this.#lines.set(tenant, line);
      return run;
    }
    return undefined;
  }

  #freeAt(): number {
    return (this.#given[this.#at] ?? Number.NEGATIVE_INFINITY) + this.#spanMs;
  }

  #give(now: number): void {
    this.#given[this.#at] = now;
    this.#at = (this.#at + 1) % this.#given.length;
  }

  #time(now: number): void {
    if (this.#isTimed) return;
    this.#isTimed = true;
    this.#outside.timers.after(Math.max(1, Math.ceil(this.#freeAt() - now)), () => {
      this.#isTimed = false;
      this.#release(this.#outside.clock.ticks());
    });
  }

  #release(now: number): void {
    while (this.#waiting > 0 && this.#freeAt() <= now) if (this.#next()?.() === true) this.#give(now);
    if (this.#waiting > 0) this.#time(now);
  }
}

/** A rate so high that this many turns fit in a tenth of a second is no limit worth remembering more of. */
const turnsKeptMax = 10_000;
