// State that only workers other than v2 need: numbers within a run, restarts that show in frame ids, numbers used twice.
// A reader of the current dialect can skip this file. All of it is volatile and bounded.

import { type Envelope, LruMap } from "@astraflow/protocol";

const runsMax = 10_000;
const numbersMax = 200_000;

/** Numbers the dispatches of a run to older workers. Exact only for runs younger than this process and known to no other scheduler. */
export class RunSequence {
  readonly #isOnlyScheduler: boolean;
  readonly #startedAt: number;
  /** By run, the worker of each number from 1 on; oldest run first. */
  readonly #runs = new Map<string, string[]>();
  /** Last number of runs that are not counted from their first dispatch on. */
  readonly #estimates = new LruMap<string, number>({ entriesMax: runsMax });
  #numberCount = 0;
  /** Creation time of the youngest run that was evicted: it and all older ones are no longer exact. */
  #evictedUpTo = Number.NEGATIVE_INFINITY;

  /** `startedAt`: wall time. */
  constructor(isOnlyScheduler: boolean, startedAt: number) {
    this.#isOnlyScheduler = isOnlyScheduler;
    this.#startedAt = startedAt;
  }

  assignNumber(run: string, fence: number, worker: string): number {
    if (!this.#isExact(run)) {
      const number = Math.max((this.#estimates.peek(run) ?? 0) + 1, fence);
      this.#estimates.set(run, number);
      return number;
    }
    const workers = this.#runs.get(run) ?? [];
    if (workers.length === 0) this.#runs.set(run, workers);
    workers.push(worker);
    this.#numberCount += 1;
    if (this.#runs.size > runsMax || this.#numberCount > numbersMax) this.#evictOldestRun();
    return workers.length;
  }

  /** Why the number of a v1 result was never sent to this worker; null where it may be right: results come in any order. */
  findWrongNumber({ seq, payload }: Envelope, worker: string): string | null {
    const run = payload["run_id"];
    if (seq === undefined || typeof run !== "string" || !this.isKnownWrong(run, seq, worker)) return null;
    return `seq ${seq} of run ${run} was never dispatched to this worker; resend from the last acknowledged seq`;
  }

  /** Certain that no dispatch under this number went to that worker. */
  isKnownWrong(run: string, number: number, worker: string): boolean {
    return this.#isExact(run) && this.#runs.get(run)?.[number - 1] !== worker;
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

/** Run ids are UUIDs whose first 48 bits are the wall time in ms; any other name counts as old. */
function runCreatedAt(run: string): number {
  const match = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(run);
  return match === null ? Number.NEGATIVE_INFINITY : Number.parseInt(`${match[1]}${match[2]}`, 16);
}

/**
 * Detects restarts of older workers: their frame ids are the type and a counter that every process begins at 0. They show it in no other
 * way. Ids of another form show nothing.
 */
export class RestartDetector {
  /** Highest counter by worker. The worker whose last handshake is oldest is forgotten first. */
  readonly #highestCounters = new LruMap<string, { value: number }>({ entriesMax: 20_000, touchOnGet: false });

  /** Called with a handshake. True when it must come from another process than the frames before: a process only counts up. */
  isRestart(worker: string, handshake: Pick<Envelope, "type" | "id">): boolean {
    const count = parseCounter(handshake);
    if (count === null) return false;
    const before = this.#highestCounters.get(worker)?.value;
    this.#highestCounters.set(worker, { value: count });
    return count === 0 || (before !== undefined && count < before);
  }

  /** Called with every later frame. */
  recordFrame(worker: string, frame: Pick<Envelope, "type" | "id">): void {
    const count = parseCounter(frame);
    const highest = this.#highestCounters.get(worker);
    if (count !== null && highest !== undefined && count > highest.value) highest.value = count;
  }
}

/** Whether its id tells the frames of a new process from those of the one before. */
export const hasFrameCounter = (frame: Pick<Envelope, "type" | "id">): boolean => parseCounter(frame) !== null;

function parseCounter({ type, id }: Pick<Envelope, "type" | "id">): number | null {
  const digits = id.startsWith(`${type}-`) ? id.slice(type.length + 1) : "";
  return /^(0|[1-9][0-9]{0,14})$/.test(digits) ? Number(digits) : null;
}

/**
 * Ids of the last frames of a session of the dialect "first". Its workers restart their numbers at the accept and may have sent frames
 * before: a number that comes under two ids is two frames.
 */
export class RecentIds {
  readonly #ids = new LruMap<string, true>({ entriesMax: 4_096 });

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  add(id: string): void {
    if (!this.#ids.has(id)) this.#ids.set(id, true);
  }
}
