// How bad something is at the moment, when several faults make it so: the worst of them counts. Adding them up would soon make every
// commit fail, and a world in which nothing works shows nothing.

export class FaultLevel {
  readonly #shares: number[] = [];
  readonly #changed: (level: number) => void;

  constructor(changed: (level: number) => void) {
    this.#changed = changed;
  }

  /** The answer ends it. */
  raise(share: number): () => void {
    this.#shares.push(share);
    this.#tell();
    return () => {
      const at = this.#shares.indexOf(share);
      if (at >= 0) this.#shares.splice(at, 1);
      this.#tell();
    };
  }

  #tell(): void {
    this.#changed(Math.max(0, ...this.#shares));
  }
}
