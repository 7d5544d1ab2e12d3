// Deadlines of what seats hold, kept in the order they pass: each list waits one constant span from an instant, so the oldest is always
// first and a turn never walks a whole list.

import type { Millis, TaskId, WorkerId } from "../../rows.ts";

export interface Timer {
  readonly worker: WorkerId;
  readonly task: TaskId;
  readonly fence: number;
  readonly at: Millis;
}

export class Deadlines {
  readonly #isWanted: (timer: Timer) => boolean;
  #timers: Timer[] = [];

  /** `isWanted`: whether what the timer waits for can still happen. */
  constructor(isWanted: (timer: Timer) => boolean) {
    this.#isWanted = isWanted;
  }

  push(timer: Timer): void {
    this.#timers.push(timer);
  }

  /** Those that began at this instant or before. */
  until(at: Millis): Timer[] {
    this.#trim();
    const old: Timer[] = [];
    for (const timer of this.#timers) {
      if (timer.at > at) break;
      if (this.#isWanted(timer)) old.push(timer);
    }
    return old;
  }

  /** When the oldest one began. */
  get first(): Millis | null {
    this.#trim();
    return this.#timers[0]?.at ?? null;
  }

  /** Drops the finished ones at the front; those further back wait until they get there. */
  #trim(): void {
    let done = 0;
    while (done < this.#timers.length && !this.#isWanted(this.#timers[done] as Timer)) done++;
    if (done > 0) this.#timers = this.#timers.slice(done);
  }
}
