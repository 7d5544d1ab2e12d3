// Signals from the operator, heard from the first moment on: one that comes while packages are still loading must not be lost.

export class Signals {
  #count = 0;
  #hear: (count: number, signal: NodeJS.Signals) => void = () => {};
  readonly #onSignal = (signal: NodeJS.Signals) => {
    this.#count++;
    this.#hear(this.#count, signal);
  };

  constructor() {
    process.on("SIGTERM", this.#onSignal);
    process.on("SIGINT", this.#onSignal);
  }

  get count(): number {
    return this.#count;
  }

  /** Calls back with each signal from now on, and how many there were. */
  hear(call: (count: number, signal: NodeJS.Signals) => void): void {
    this.#hear = call;
  }

  /** Resolves with the first signal, at once where it has come already. */
  first(): Promise<void> {
    if (this.#count > 0) return Promise.resolve();
    return new Promise((resolve) => this.hear(() => resolve()));
  }

  close(): void {
    process.off("SIGTERM", this.#onSignal);
    process.off("SIGINT", this.#onSignal);
  }
}
