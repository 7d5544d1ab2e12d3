// When the next turn begins: at once, at an instant, or after a pause although something waits. It sets no timer.

import type { Millis } from "../storage/rows.ts";

/** When the next turn begins; a pause although something waits gives the store time. */
export type NextTurn = Millis | "again" | { readonly pauseUntil: Millis };

const busyPauseMsMax = 16;

export class TurnSchedule {
  readonly #idleMs: number;
  /** Something has arrived that no turn has taken. */
  isWoken = false;
  /** What finished turns ask for: the earliest wake, or a pause. */
  #wakeAt: Millis = Number.POSITIVE_INFINITY;
  #pauseUntil: Millis | null = null;
  #failures = 0;
  /** The last failure of the store: reported once, until it works again or fails with another code. */
  #lastOutageCode: string | null = null;
  /** Turns in a row in which every command met a busy root. */
  #busyTurns = 0;

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  get isPaused(): boolean {
    return this.#pauseUntil !== null;
  }

  /** Whether the store has refused or missed something since the last turn that was stored. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Ends a pause. */
  resume(): void {
    this.#pauseUntil = null;
  }

  /** A turn takes everything that has arrived; alone, it also replaces what earlier turns asked for. */
  turnStarted(isAlone: boolean): void {
    this.isWoken = false;
    if (isAlone) this.#wakeAt = Number.POSITIVE_INFINITY;
  }

  planNext(next: NextTurn, isAnyWaiting: boolean): void {
    if (next === "again" || isAnyWaiting) this.isWoken = true;
    if (typeof next === "object") {
      this.#pauseUntil = Math.max(this.#pauseUntil ?? 0, next.pauseUntil);
      this.isWoken = false;
    } else if (next !== "again") this.#wakeAt = Math.min(this.#wakeAt, next);
  }

  /** When to be woken at the latest, once nothing is left to do. */
  wakeAt(now: Millis): Millis {
    return this.#pauseUntil ?? Math.min(this.#wakeAt, now + this.#idleMs);
  }

  turnCommitted(): void {
    this.#failures = 0;
    this.#lastOutageCode = null;
  }

  /** The pause after a failure grows with every failure in a row, so that a full disk is not tried a thousand times a second. */
  backOffAfterFailure(now: Millis): NextTurn {
    this.#failures++;
    return { pauseUntil: now + Math.min(this.#idleMs, 2 ** Math.min(this.#failures, 20)) };
  }

  /** Whether this failure of the store has not been reported yet. */
  isNewOutage(code: string): boolean {
    const isNews = code !== this.#lastOutageCode;
    this.#lastOutageCode = code;
    return isNews;
  }

  /** The pause after a turn in which every command met a busy root, null after any other. */
  backOffIfBusy(isStuck: boolean, now: Millis): NextTurn | null {
    this.#busyTurns = isStuck ? this.#busyTurns + 1 : 0;
    return isStuck ? { pauseUntil: now + Math.min(busyPauseMsMax, 2 ** Math.min(this.#busyTurns, 10) / 2) } : null;
  }
}
