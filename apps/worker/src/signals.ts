// Signals from the operator, handled from the start: one that comes while packages are loading must not be lost.

export class ShutdownSignals {
  #count = 0;
  #onSignalCallback: (count: number, signal: NodeJS.Signals) => void = () => {};
  readonly #onSignal = (signal: NodeJS.Signals) => {
    this.#count++;
    this.#onSignalCallback(this.#count, signal);
  };

  constructor() {
    process.on("SIGTERM", this.#onSignal);
    process.on("SIGINT", this.#onSignal);
  }

  get receivedCount(): number {
    return this.#count;
  }

  /** Calls back with each signal from now on, and how many there were. */
  onSignal(call: (count: number, signal: NodeJS.Signals) => void): void {
    this.#onSignalCallback = call;
  }

  /** Resolves with the first signal, at once where it has come already. */
  waitForFirst(): Promise<void> {
    if (this.#count > 0) return Promise.resolve();
    return new Promise((resolve) => this.onSignal(() => resolve()));
  }

  close(): void {
    process.off("SIGTERM", this.#onSignal);
    process.off("SIGINT", this.#onSignal);
  }
}
