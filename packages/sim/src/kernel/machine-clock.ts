// The clocks of one machine: a monotonic clock and a wall clock, each with its own error. Processes that use them are in process-event-loop.ts.

import type { Timeline } from "./timeline.ts";

export interface ClockConfig {
  /** What the monotonic clock shows when the world begins. */
  readonly monoStart: number;
  /** How far the wall clock is off, in milliseconds. */
  readonly wallOffset: number;
  /** Parts per million that both run too fast. */
  readonly driftPpm: number;
}

/** When the world begins, as a right wall clock would show it. */
export const worldStartWallMs = 1_800_000_000_000;

export class MachineClock {
  readonly #timeline: Timeline;
  readonly #wallStart: number;
  readonly #monoStart: number;
  #rate: number;
  #since = 0;
  #mono: number;
  #wallJumpMs = 0;
  #isFrozen = false;
  /** How much true time the monotonic clock has missed while the machine was suspended; the wall is set right again on waking. */
  #suspendedMs = 0;

  constructor(timeline: Timeline, shape: ClockConfig) {
    this.#timeline = timeline;
    this.#wallStart = worldStartWallMs + shape.wallOffset;
    this.#monoStart = shape.monoStart;
    this.#mono = shape.monoStart;
    this.#rate = 1 + shape.driftPpm / 1e6;
  }

  /** Never goes back; stands still while the machine is suspended. */
  mono(): number {
    return this.#isFrozen ? this.#mono : this.#mono + (this.#timeline.now - this.#since) * this.#rate;
  }

  wall(): number {
    return Math.floor(this.#wallStart + (this.mono() - this.#monoStart) + this.#suspendedMs + this.#wallJumpMs);
  }

  /** Local milliseconds in true ones. */
  toTrueMs(ms: number): number {
    return ms / this.#rate;
  }

  /** The wall clock is set by somebody; the monotonic one does not notice. */
  jumpWallClock(ms: number): void {
    this.#wallJumpMs += ms;
  }

  setDriftPpm(ppm: number): void {
    this.#rebase();
    this.#rate = 1 + ppm / 1e6;
  }

  freeze(): void {
    this.#rebase();
    this.#isFrozen = true;
  }

  thaw(): void {
    if (!this.#isFrozen) return;
    this.#suspendedMs += this.#timeline.now - this.#since;
    this.#since = this.#timeline.now;
    this.#isFrozen = false;
  }

  #rebase(): void {
    if (this.#isFrozen) return;
    this.#mono = this.mono();
    this.#since = this.#timeline.now;
  }
}
