// How bad something is at the moment, when several faults make it so: the worst of them counts. Adding them up would soon make every
// commit fail, and a world in which nothing works shows nothing.

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
