// The strength of a fault when several faults of one kind overlap: the strongest counts. Adding them up would soon make every commit fail, and a world
// in which nothing works proves nothing.

export class FaultIntensity {
  readonly #activeLevels: number[] = [];
  readonly #onChange: (level: number) => void;

  constructor(changed: (level: number) => void) {
    this.#onChange = changed;
  }

  /** The answer ends it. */
  raise(share: number): () => void {
    this.#activeLevels.push(share);
    this.#notify();
    return () => {
      const at = this.#activeLevels.indexOf(share);
      if (at >= 0) this.#activeLevels.splice(at, 1);
      this.#notify();
    };
  }

  #notify(): void {
    this.#onChange(Math.max(0, ...this.#activeLevels));
  }
}
