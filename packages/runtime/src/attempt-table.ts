// The link's own table of attempts: what this worker holds, which slots and concurrency keys are taken, which fences it has seen.
// An attempt enters before its dispatch is acked, so the inventory never lacks what the scheduler believes to be here.
// The table decides; calling handlers and speaking to the scheduler is the business of others.

import type { DispatchPayload } from "@astraflow/protocol";
import { type Attempt, makeAttempt } from "./attempt.ts";
import { Fifo } from "./fifo.ts";

export interface TableSettings {
  /** Handlers that may run at once. */
  readonly slotsMax: number;
  /** How long a taken attempt may wait for a slot that a stopped handler does not give back. */
  readonly slotWaitMs: number;
  /** Tasks whose last fence is remembered after they left the table. */
  readonly fencesMax: number;
}

export type Offer =
  | { readonly verdict: "start"; readonly attempt: Attempt; readonly superseded: Attempt | undefined }
  /** Taken, but every slot is occupied, or an older attempt of the same task or under the same key has not come back yet. */
  | { readonly verdict: "wait"; readonly attempt: Attempt; readonly superseded: Attempt | undefined }
  /** The same grant once more: nothing new happens. */
  | { readonly verdict: "repeat" }
  | { readonly verdict: "stale"; readonly fence: number; readonly known: number }
  | { readonly verdict: "key-taken"; readonly fence: number; readonly by: Attempt }
  | { readonly verdict: "full"; readonly fence: number };

export interface HeldAttempt {
  readonly task_id: string;
  readonly fence: number;
}

export class AttemptTable {
  readonly #settings: TableSettings;
  readonly #byTask = new Map<string, Attempt>();
  readonly #byKey = new Map<string, Attempt>();
  readonly #fences: FenceMemory;
  readonly #waiting = new Fifo<Attempt>();
  #occupied = 0;
  /** Of those, the ones that wait for the next of their chain. */
  #resting = 0;

  constructor(settings: TableSettings) {
    this.#settings = settings;
    this.#fences = new FenceMemory(settings.fencesMax);
  }

  /** Attempts that are this worker's to answer for: waiting, running, or finished and not yet acked. */
  get heldCount(): number {
    return this.#byTask.size;
  }

  /** Handlers that have been called and have not come back, stopped ones included. */
  get occupied(): number {
    return this.#occupied;
  }

  held(): HeldAttempt[] {
    const all: HeldAttempt[] = [];
    for (const attempt of this.#byTask.values()) all.push({ task_id: attempt.task, fence: attempt.fence });
    return all;
  }

  /** Every attempt held, for those who look. */
  all(): Attempt[] {
    return [...this.#byTask.values()];
  }

  /** Attempts whose handler runs or will run. */
  unfinished(): Attempt[] {
    return [...this.#byTask.values()].filter((attempt) => attempt.phase !== "finished");
  }

  find(task: string, fence: number | undefined): Attempt | undefined {
    const attempt = this.#byTask.get(task);
    return attempt !== undefined && (fence === undefined || attempt.fence === fence) ? attempt : undefined;
  }

  /** Takes a dispatch in, or says why not. */
  offer(dispatch: DispatchPayload, now: number): Offer {
    const current = this.#byTask.get(dispatch.task_id);
    const known = this.#fences.get(dispatch.task_id);
    // A scheduler without fences can only mean: the attempt you have, or else a new one.
    const fence = dispatch.fence ?? current?.fence ?? (known ?? -1) + 1;
    if (known !== undefined && fence === known) return { verdict: "repeat" };
    if (known !== undefined && fence < known) return { verdict: "stale", fence, known };

    const keyHolder = dispatch.concurrency_key === undefined ? undefined : this.#byKey.get(dispatch.concurrency_key);
    // One that is over for the scheduler and whose handler has not come back is waited for: the key was given on the moment it was over.
    const isKeyTaken = keyHolder?.phase === "running" && keyHolder.task !== dispatch.task_id;
    if (isKeyTaken) return { verdict: "key-taken", fence, by: keyHolder };
    if (this.#waiting.size >= this.#settings.slotsMax) this.#forgetNotWaiting();
    if (this.#waiting.size >= this.#settings.slotsMax) return { verdict: "full", fence };

    const superseded = current === undefined ? undefined : this.drop(current);
    const attempt = makeAttempt(dispatch, fence, now + this.#settings.slotWaitMs, now);
    this.#byTask.set(attempt.task, attempt);
    this.#fences.set(attempt.task, attempt.fence);
    if (this.#canStart(attempt)) {
      this.#occupy(attempt);
      return { verdict: "start", attempt, superseded };
    }
    this.#waiting.push(attempt);
    return { verdict: "wait", attempt, superseded };
  }

  /** An attempt of an earlier process whose outcome is known and not acked. Of several of one task only the last is held. */
  adopt(attempt: Attempt): void {
    attempt.phase = "finished";
    const current = this.#byTask.get(attempt.task);
    if (current !== undefined && current.fence > attempt.fence) return;
    this.#byTask.set(attempt.task, attempt);
    this.#fences.set(attempt.task, attempt.fence);
  }

  /** Its outcome is known. It stays held until the scheduler has acked the word about it. */
  finish(attempt: Attempt): void {
    if (attempt.phase !== "dropped") attempt.phase = "finished";
  }

  /** The scheduler has acked its outcome. */
  release(attempt: Attempt): void {
    if (this.#byTask.get(attempt.task) === attempt) this.#byTask.delete(attempt.task);
  }

  /** Nobody wants its outcome any more. A running handler keeps its slot and key until it comes back. */
  drop(attempt: Attempt): Attempt {
    attempt.phase = "dropped";
    this.release(attempt);
    return attempt;
  }

  /** The handler has come back: its slot and key are free. Gives the attempts that can start now, already occupying. */
  settle(attempt: Attempt): Attempt[] {
    if (!attempt.isOccupying) return [];
    this.wake(attempt, attempt.calls);
    attempt.isOccupying = false;
    this.#occupied--;
    if (attempt.key !== null && this.#byKey.get(attempt.key) === attempt) this.#byKey.delete(attempt.key);
    return this.#waiting.size === 0 ? [] : this.#startWaiting();
  }

  /**
   * It waits for the next of its chain: its slot may be needed for that very call, so it is free meanwhile. Gives the attempts that can
   * start now, already occupying.
   */
  rest(attempt: Attempt): Attempt[] {
    attempt.calls++;
    if (attempt.calls > 1 || !attempt.isOccupying) return [];
    this.#resting++;
    return this.#waiting.size === 0 ? [] : this.#startWaiting();
  }

  /** So many of its calls are over. It goes on at once, also where its slot was given away: those two share it until one ends. */
  wake(attempt: Attempt, calls = 1): void {
    if (attempt.calls === 0) return;
    attempt.calls = Math.max(0, attempt.calls - calls);
    if (attempt.calls === 0 && attempt.isOccupying) this.#resting--;
  }

  /** Attempts that have waited too long for a slot; they are no longer held. */
  expireWaiting(now: number): Attempt[] {
    if (this.#waiting.size === 0) return [];
    const expired: Attempt[] = [];
    for (const attempt of this.#waiting.drain()) {
      if (attempt.phase !== "waiting") continue;
      if (attempt.waitEndsAt <= now) expired.push(this.drop(attempt));
      else this.#waiting.push(attempt);
    }
    return expired;
  }

  /** When the next wait for a slot ends. */
  get waitEndsAt(): number {
    return this.#waiting.peek()?.waitEndsAt ?? Number.POSITIVE_INFINITY;
  }

  #canStart(attempt: Attempt): boolean {
    if (this.#occupied - this.#resting >= this.#settings.slotsMax) return false;
    return attempt.key === null || !this.#byKey.has(attempt.key);
  }

  #occupy(attempt: Attempt): void {
    attempt.phase = "running";
    attempt.isOccupying = true;
    this.#occupied++;
    if (attempt.key !== null) this.#byKey.set(attempt.key, attempt);
  }

  #startWaiting(): Attempt[] {
    const started: Attempt[] = [];
    for (const attempt of this.#waiting.drain()) {
      if (attempt.phase !== "waiting") continue;
      if (this.#canStart(attempt)) {
        this.#occupy(attempt);
        started.push(attempt);
      } else this.#waiting.push(attempt);
    }
    return started;
  }

  #forgetNotWaiting(): void {
    for (const attempt of this.#waiting.drain()) if (attempt.phase === "waiting") this.#waiting.push(attempt);
  }
}

/**
 * Highest fence seen per task, for the last tasks only. Two generations instead of one list that forgets its oldest entry: a Map
 * that loses its first key at every step has to walk over all the holes to find the next one.
 */
class FenceMemory {
  readonly #generationMax: number;
  #young = new Map<string, number>();
  #old = new Map<string, number>();

  constructor(tasksMax: number) {
    this.#generationMax = Math.ceil(tasksMax / 2);
  }

  get(task: string): number | undefined {
    return this.#young.get(task) ?? this.#old.get(task);
  }

  set(task: string, fence: number): void {
    if (this.#young.size >= this.#generationMax) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(task, fence);
  }
}
