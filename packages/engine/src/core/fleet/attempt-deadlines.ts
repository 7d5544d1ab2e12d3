// Deadlines of held attempts in the order they pass: a list has one constant delay, so the oldest is first and no turn walks it all.

import type { Millis } from "../../storage/rows.ts";
import type { HeldAttempt } from "./connected-worker.ts";

export interface AttemptTimer extends HeldAttempt {
  readonly at: Millis;
}

export class AttemptDeadlines {
  readonly #isPending: (timer: AttemptTimer) => boolean;
  #timers: AttemptTimer[] = [];

  /** `isPending`: whether what the timer waits for can still happen. */
  constructor(isPending: (timer: AttemptTimer) => boolean) {
    this.#isPending = isPending;
  }

  push(timer: AttemptTimer): void {
    this.#timers.push(timer);
  }

  /** Those that began at this instant or before. */
  startedUntil(at: Millis): AttemptTimer[] {
    this.#trim();
    const old: AttemptTimer[] = [];
    for (const timer of this.#timers) {
      if (timer.at > at) break;
      if (this.#isPending(timer)) old.push(timer);
    }
    return old;
  }

  /** When the oldest one began. */
  get oldestStart(): Millis | null {
    this.#trim();
    return this.#timers[0]?.at ?? null;
  }

  /** Drops the finished ones at the front; those further back wait until they get there. */
  #trim(): void {
    let done = 0;
    while (done < this.#timers.length && !this.#isPending(this.#timers[done] as AttemptTimer)) done++;
    if (done > 0) this.#timers = this.#timers.slice(done);
  }
}
