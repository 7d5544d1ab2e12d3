// Which jobs of the installer run now: those of one package one after the other, those of different packages side by side, a few at a time.

interface WaitingJob {
  readonly packageName: string;
  start(): Promise<void>;
}

export class JobQueue {
  readonly #parallelMax: number;
  readonly #waiting: WaitingJob[] = [];
  readonly #busy = new Set<string>();

  constructor(parallelMax: number) {
    this.#parallelMax = parallelMax;
  }

  /** Resolves or rejects as the job does, once its turn has come. */
  run<T>(packageName: string, job: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.push({ packageName, start: () => job().then(resolve, reject) });
    this.#startReady();
    return promise;
  }

  #startReady(): void {
    while (this.#busy.size < this.#parallelMax) {
      const index = this.#waiting.findIndex(({ packageName }) => !this.#busy.has(packageName));
      const next = index === -1 ? undefined : this.#waiting.splice(index, 1)[0];
      if (next === undefined) return;
      this.#busy.add(next.packageName);
      void next.start().then(() => {
        this.#busy.delete(next.packageName);
        this.#startReady();
      });
    }
  }
}
