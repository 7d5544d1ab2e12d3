// Ids that look like real ones: time-ordered ids as the engine makes them, and random ones for sessions and requests.

import type { SeededRandom } from "./seeded-random.ts";

export class SimulatedIds {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** Shaped as a UUID of version 7. */
  nextTimeOrdered(now: number): string {
    const time = now.toString(16).padStart(12, "0");
    const [a, b, c] = [this.#hex(), this.#hex(), this.#hex()];
    return `${time.slice(0, 8)}-${time.slice(8)}-7${a.slice(0, 3)}-8${a.slice(3, 6)}-${b}${c.slice(0, 4)}`;
  }

  next(): string {
    return `${this.#hex()}${this.#hex()}${this.#hex()}`;
  }

  #hex(): string {
    return this.#random.nextUint32().toString(16).padStart(8, "0");
  }
}
