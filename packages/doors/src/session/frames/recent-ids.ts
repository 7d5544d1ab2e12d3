// The ids of the frames a session has heard lately. A convenience with a bound: a frame that is taken twice is the same word to the engine.

const idsMax = 4_096;

export class RecentIds {
  /** Oldest first: a Set keeps the order of entering. */
  readonly #ids = new Set<string>();

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  add(id: string): void {
    this.#ids.add(id);
    if (this.#ids.size <= idsMax) return;
    for (const oldest of this.#ids) {
      this.#ids.delete(oldest);
      return;
    }
  }
}
