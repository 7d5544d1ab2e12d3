// Ids that look like real ones: time-ordered ids as the engine makes them, and random ones for sessions and requests.

import type { SeededRandom } from "./seeded-random.ts";

export interface SimulatedIds {
  /** Shaped as a UUID of version 7. */
  nextTimeOrdered(now: number): string;
  next(): string;
}

export function createSimulatedIds(random: SeededRandom): SimulatedIds {
  const hex = (): string => random.nextUint32().toString(16).padStart(8, "0");
  return {
    nextTimeOrdered(now) {
      const time = now.toString(16).padStart(12, "0");
      const [a, b, c] = [hex(), hex(), hex()];
      return `${time.slice(0, 8)}-${time.slice(8)}-7${a.slice(0, 3)}-8${a.slice(3, 6)}-${b}${c.slice(0, 4)}`;
    },
    next: () => `${hex()}${hex()}${hex()}`,
  };
}
