// Store time: a clock that never goes back, made of a monotonic one and a wall clock that may jump.

import type { Millis } from "@astraflow/engine";

/** The two clocks of a machine, handed in: the wall may jump either way, the monotonic one only counts up. */
export interface ClockSource {
  wall(): Millis;
  mono(): Millis;
}

export interface StoreClock {
  now(): Millis;
}

/** A jump of the wall clock is caught up with at most this share of the time that really passes: 1 ms in 20 ms. */
const slewShareMax = 1 / 20;

/**
 * Starts at the wall's time, or at `stored` when that is later (the machine's clock was set back while nobody ran). From there it
 * follows the monotonic clock and drifts towards the wall, so that a jump ends no lease at once and prolongs none for long.
 */
export function slewedClock(source: ClockSource, stored: Millis): StoreClock {
  let reading = Math.max(source.wall(), stored);
  let seen = source.mono();
  return {
    now() {
      const mono = source.mono();
      const passed = Math.max(0, mono - seen);
      seen = Math.max(seen, mono);
      const lag = source.wall() - (reading + passed);
      const slew = Math.min(Math.max(lag, -passed * slewShareMax), passed * slewShareMax);
      reading += passed + slew;
      return Math.floor(reading);
    },
  };
}
