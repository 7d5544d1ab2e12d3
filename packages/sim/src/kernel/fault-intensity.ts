// The strength of a fault when several faults of one kind overlap: the strongest counts. Adding them up would soon make every commit fail, and a world
// in which nothing works proves nothing.

export class FaultIntensity {
  level = 0;
  readonly #activeLevels: number[] = [];
  readonly #onChange: (level: number) => void;

  constructor(onChange: (level: number) => void = () => undefined) {
    this.#onChange = onChange;
  }

  /** The answer ends it. */
  raise(share: number): () => void {
    this.#activeLevels.push(share);
    this.#update();
    return () => {
      const at = this.#activeLevels.indexOf(share);
      if (at >= 0) this.#activeLevels.splice(at, 1);
      this.#update();
    };
  }

  #update(): void {
    this.level = Math.max(0, ...this.#activeLevels);
    this.#onChange(this.level);
  }
}
