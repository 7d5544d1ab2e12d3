// Detects an engine that runs turn after turn without any reason.

import type { Timeline } from "../kernel/timeline.ts";

/** More turns than this in a second of true time. Store latencies alone allow a few thousand, so this is a loop that never rests. */
const turnsMax = 2_500;
const windowMs = 1_000;

export class TurnLoopDetector {
  readonly #timeline: Timeline;
  readonly #onDetected: (replica: string, message: string) => void;
  readonly #turns = new Map<string, { since: number; count: number }>();

  constructor(timeline: Timeline, found: (replica: string, message: string) => void) {
    this.#timeline = timeline;
    this.#onDetected = found;
  }

  recordTurn(replica: string): void {
    const { now } = this.#timeline;
    const seen = this.#turns.get(replica);
    if (seen === undefined || now - seen.since > windowMs) this.#turns.set(replica, { since: now, count: 1 });
    else if (++seen.count === turnsMax) this.#onDetected(replica, `${turnsMax} turns in ${Math.round(now - seen.since)} ms`);
  }
}
