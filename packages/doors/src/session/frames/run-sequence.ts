// Numbers within a run, which only the older dialects carry: every dispatch of a run to such a worker gets the next one.
// Volatile, so they are exact only for runs that are younger than this process and known to no other; `seq` decides nothing else.

const runsMax = 10_000;
const numbersMax = 200_000;

export class RunSequence {
  readonly #isOnlyScheduler: boolean;
  readonly #startedAt: number;
  /** By run, the worker of each number from 1 on; oldest run first. */
  readonly #runs = new Map<string, string[]>();
  /** Last number of runs that are not counted from their first dispatch on. */
  readonly #estimates = new Map<string, number>();
  #numberCount = 0;
  /** Youngest run that had to be forgotten: it and all older ones are no longer exact. */
  #evictedUpTo: number;

  /** `isAlone`: this is the only scheduler on its store. `startedAt`: wall time. */
  constructor(isAlone: boolean, startedAt: number) {
    this.#isOnlyScheduler = isAlone;
    this.#startedAt = startedAt;
    this.#evictedUpTo = Number.NEGATIVE_INFINITY;
  }

  assignNumber(run: string, fence: number, worker: string): number {
    if (!this.#isExact(run)) {
      const number = Math.max((this.#estimates.get(run) ?? 0) + 1, fence);
      this.#estimates.delete(run);
      this.#estimates.set(run, number);
      if (this.#estimates.size > runsMax) evictOldest(this.#estimates);
      return number;
    }
    const workers = this.#runs.get(run) ?? [];
    if (workers.length === 0) this.#runs.set(run, workers);
    workers.push(worker);
    this.#numberCount += 1;
    if (this.#runs.size > runsMax || this.#numberCount > numbersMax) this.#evictOldestRun();
    return workers.length;
  }

  /** Certain that no dispatch under this number went to that worker. */
  isKnownWrong(run: string, number: number, worker: string): boolean {
    if (!this.#isExact(run)) return false;
    return this.#runs.get(run)?.[number - 1] !== worker;
  }

  #isExact(run: string): boolean {
    const bornAt = runCreatedAt(run);
    return this.#isOnlyScheduler && bornAt > this.#startedAt && bornAt > this.#evictedUpTo;
  }

  #evictOldestRun(): void {
    for (const [run, workers] of this.#runs) {
      this.#runs.delete(run);
      this.#numberCount -= workers.length;
      this.#evictedUpTo = Math.max(this.#evictedUpTo, runCreatedAt(run));
      return;
    }
  }
}

function evictOldest(guesses: Map<string, number>): void {
  for (const run of guesses.keys()) {
    guesses.delete(run);
    return;
  }
}

/** Run ids are UUIDs whose first 48 bits are the wall time in ms; any other name counts as old. */
function runCreatedAt(run: string): number {
  const match = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(run);
  return match === null ? Number.NEGATIVE_INFINITY : Number.parseInt(`${match[1]}${match[2]}`, 16);
}
