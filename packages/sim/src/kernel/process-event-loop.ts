// One simulated process: its input, its timers, pauses (SIGSTOP, a suspended machine) and its end (kill -9). All input of a simulated process passes
// through here: a killed process gets nothing, a paused one gets it after it resumes.

import type { MachineClock } from "./machine-clock.ts";
import type { Timeline } from "./timeline.ts";

export class ProcessEventLoop {
  readonly name: string;
  readonly clock: MachineClock;
  readonly #timeline: Timeline;
  /** Something the process did not catch: it ends the process, as it would a real one. */
  readonly #onUncaughtError: (problem: unknown) => void;
  #deferred: { readonly isTimer: boolean; readonly run: () => void }[] = [];
  #hasEnded = false;
  #isPaused = false;

  constructor(name: string, timeline: Timeline, clock: MachineClock, threw: (problem: unknown) => void) {
    this.name = name;
    this.clock = clock;
    this.#timeline = timeline;
    this.#onUncaughtError = threw;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Something arrives: at once, when the process runs again, or never. */
  deliver(run: () => void): void {
    if (this.#hasEnded) return;
    if (this.#isPaused) this.#deferred.push({ isTimer: false, run });
    else this.#runCatching(run);
  }

  /** The same for what the process waits for with a promise; null where nothing keeps it. */
  whenRunning(): Promise<void> | null {
    if (this.#hasEnded) return new Promise(() => undefined);
    return this.#isPaused ? new Promise((resolve) => this.deliver(resolve)) : null;
  }

  /** A timer by this machine's monotonic clock. */
  after(ms: number, run: () => void): () => void {
    const dueAt = this.clock.mono() + ms;
    let isDone = false;
    let cancel = (): void => undefined;
    const ring = (): void => {
      if (isDone || this.#hasEnded) return;
      if (this.#isPaused) {
        this.#deferred.push({ isTimer: true, run: ring });
        return;
      }
      const left = dueAt - this.clock.mono();
      // The machine was suspended or its clock slowed down meanwhile: by its own clock it is not time yet.
      if (left > 1e-3) {
        cancel = this.#timeline.after(this.clock.toTrueMs(left), ring);
        return;
      }
      isDone = true;
      this.#runCatching(run);
    };
    cancel = this.#timeline.after(this.clock.toTrueMs(ms), ring);
    return () => {
      isDone = true;
      cancel();
    };
  }

  every(ms: number, run: () => void): () => void {
    let cancel = (): void => undefined;
    const again = (): void => {
      cancel = this.after(ms, () => {
        again();
        run();
      });
    };
    again();
    return () => cancel();
  }

  pause(): void {
    this.#isPaused = true;
  }

  /** What has come meanwhile is taken in one by one; whether timers ring first depends on where the loop was stopped. */
  resume(timersFirst: boolean): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    const waited = this.#deferred;
    this.#deferred = [];
    const order = timersFirst ? [...waited.filter((one) => one.isTimer), ...waited.filter((one) => !one.isTimer)] : waited;
    for (const { run, isTimer } of order) this.#timeline.after(0, () => (isTimer ? run() : this.deliver(run)));
  }

  end(): void {
    this.#hasEnded = true;
    this.#deferred = [];
  }

  #runCatching(run: () => void): void {
    try {
      run();
    } catch (problem) {
      this.#onUncaughtError(problem);
    }
  }
}
