// One life of a process: what reaches it from outside, its timers, being held (SIGSTOP, a suspended machine) and its end (kill -9).
// Whatever a program of the house gets from the world comes through here, so that a dead process never acts and a held one acts late.

import type { MachineClock } from "./machine-clock.ts";
import type { Timeline } from "./timeline.ts";

interface Backlogged {
  readonly isTimer: boolean;
  readonly run: () => void;
}

export class Life {
  readonly name: string;
  readonly clock: MachineClock;
  readonly #timeline: Timeline;
  /** Something the process did not catch: it ends the process, as it would a real one. */
  readonly #threw: (problem: unknown) => void;
  #backlog: Backlogged[] = [];
  #isOver = false;
  #isHeld = false;

  constructor(name: string, timeline: Timeline, clock: MachineClock, threw: (problem: unknown) => void) {
    this.name = name;
    this.clock = clock;
    this.#timeline = timeline;
    this.#threw = threw;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Something arrives: at once, when the process runs again, or never. */
  hear(run: () => void): void {
    if (this.#isOver) return;
    if (this.#isHeld) this.#backlog.push({ isTimer: false, run });
    else this.#call(run);
  }

  /** The same for what the process waits for with a promise; null where nothing keeps it. */
  arrival(): Promise<void> | null {
    if (this.#isOver) return new Promise(() => undefined);
    return this.#isHeld ? new Promise((resolve) => this.hear(resolve)) : null;
  }

  /** A timer by this machine's monotonic clock. */
  after(ms: number, run: () => void): () => void {
    const dueAt = this.clock.mono() + ms;
    let isDone = false;
    let cancel = (): void => undefined;
    const ring = (): void => {
      if (isDone || this.#isOver) return;
      if (this.#isHeld) {
        this.#backlog.push({ isTimer: true, run: ring });
        return;
      }
      const left = dueAt - this.clock.mono();
      // The machine was suspended or its clock slowed down meanwhile: by its own clock it is not time yet.
      if (left > 1e-3) {
        cancel = this.#timeline.after(this.clock.toTrue(left), ring);
        return;
      }
      isDone = true;
      this.#call(run);
    };
    cancel = this.#timeline.after(this.clock.toTrue(ms), ring);
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

  hold(): void {
    this.#isHeld = true;
  }

  /** What has come meanwhile is taken in one by one; whether timers ring first depends on where the loop was stopped. */
  release(timersFirst: boolean): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    const waited = this.#backlog;
    this.#backlog = [];
    const order = timersFirst ? [...waited.filter((one) => one.isTimer), ...waited.filter((one) => !one.isTimer)] : waited;
    for (const { run, isTimer } of order) this.#timeline.after(0, () => (isTimer ? run() : this.hear(run)));
  }

  end(): void {
    this.#isOver = true;
    this.#backlog = [];
  }

  #call(run: () => void): void {
    try {
      run();
    } catch (problem) {
      this.#threw(problem);
    }
  }
}
