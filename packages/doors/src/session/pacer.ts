// Crowds that come at once, let in one after the other: so many in any tenth of a second, the others later, in the order they came.
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
  #waiting: Turn[] = [];
  #head = 0;
  #isTimed = false;

  constructor(perSecondMax: number, outside: Outside) {
    this.#outside = outside;
    const share = Math.max(1, Math.floor(perSecondMax / sharesPerSecond));
    this.#spanMs = (share * 1_000) / perSecondMax;
    this.#given = Array.from({ length: Math.min(share, turnsKeptMax) }, () => Number.NEGATIVE_INFINITY);
  }

  get waiting(): number {
    return this.#waiting.length - this.#head;
  }

  /** Runs it now if nobody waits and a turn is free, else in its turn. */
  queue(run: Turn): void {
    const now = this.#outside.clock.ticks();
    if (this.waiting === 0 && this.#freeAt() <= now) {
      if (run()) this.#give(now);
      return;
    }
    this.#waiting.push(run);
    this.#time(now);
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
    while (this.waiting > 0 && this.#freeAt() <= now) {
      const run = this.#waiting[this.#head++];
      if (run?.() === true) this.#give(now);
    }
    if (this.waiting > 0) return this.#time(now);
    this.#waiting = [];
    this.#head = 0;
  }
}

/** A rate so high that this many turns fit in a tenth of a second is no limit worth remembering more of. */
const turnsKeptMax = 10_000;
