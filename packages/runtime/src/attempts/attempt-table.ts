// The link's own table of attempts: what this worker holds, which slots and concurrency keys are taken, which fences it has seen.
// An attempt enters before its dispatch is acked, so the inventory never lacks what the scheduler believes to be here.
// The table only decides; attempt-manager.ts calls handlers and reports to the scheduler.

import { type DispatchPayload, FifoQueue, type HeldTaskRef } from "@astraflow/protocol";
import { createAttempt, type DispatchFrame, type LocalAttempt } from "./attempt.ts";

export interface AttemptTableSettings {
  readonly slotsMax: number;
  /** How long a taken attempt may wait for a slot that a stopped handler does not give back. */
  readonly slotWaitMs: number;
  /** Tasks whose last fence is remembered after they left the table. */
  readonly rememberedFencesMax: number;
}

export type DispatchDecision =
  | { readonly verdict: "start"; readonly attempt: LocalAttempt; readonly superseded: LocalAttempt | undefined }
  /** Taken, but every slot is occupied, or an older attempt of the same task or under the same key has not come back yet. */
  | { readonly verdict: "wait"; readonly attempt: LocalAttempt; readonly superseded: LocalAttempt | undefined }
  /** The same grant once more: nothing new happens. */
  | { readonly verdict: "repeat" }
  | { readonly verdict: "stale"; readonly fence: number; readonly knownFence: number }
  | { readonly verdict: "key-taken"; readonly fence: number; readonly keyHolder: LocalAttempt }
  | { readonly verdict: "full"; readonly fence: number };

export class AttemptTable {
  readonly #settings: AttemptTableSettings;
  readonly #byTask = new Map<string, LocalAttempt>();
  readonly #byConcurrencyKey = new Map<string, LocalAttempt>();
  readonly #fenceCache: FenceCache;
  readonly #waitingForSlot = new FifoQueue<LocalAttempt>();
  #occupiedSlots = 0;
  /** Of those, the ones that wait for the next of their chain. */
  #suspendedCount = 0;

  constructor(settings: AttemptTableSettings) {
    this.#settings = settings;
    this.#fenceCache = new FenceCache(settings.rememberedFencesMax);
  }

  /** Attempts that this worker is responsible for: waiting, running, or finished and not yet acked. */
  get heldCount(): number {
    return this.#byTask.size;
  }

  /** Handlers that have been called and have not come back, stopped ones included. */
  get occupiedSlots(): number {
    return this.#occupiedSlots;
  }

  heldAttempts(): HeldTaskRef[] {
    return Array.from(this.#byTask.values(), ({ task, fence }) => ({ task_id: task, fence }));
  }

  listAttempts(): LocalAttempt[] {
    return [...this.#byTask.values()];
  }

  unfinishedAttempts(): LocalAttempt[] {
    return [...this.#byTask.values()].filter((attempt) => attempt.phase !== "finished");
  }

  findAttempt(task: string, fence: number | undefined): LocalAttempt | undefined {
    const attempt = this.#byTask.get(task);
    return attempt !== undefined && (fence === undefined || attempt.fence === fence) ? attempt : undefined;
  }

  admitDispatch(dispatch: DispatchPayload, now: number, frame: DispatchFrame | null = null): DispatchDecision {
    const current = this.#byTask.get(dispatch.task_id);
    const known = this.#fenceCache.get(dispatch.task_id);
    // A scheduler without fences can only mean: the attempt you have, or else a new one.
    const fence = dispatch.fence ?? current?.fence ?? (known ?? -1) + 1;
    if (known !== undefined && fence === known) return { verdict: "repeat" };
    if (known !== undefined && fence < known) return { verdict: "stale", fence, knownFence: known };

    const keyHolder = dispatch.concurrency_key === undefined ? undefined : this.#byConcurrencyKey.get(dispatch.concurrency_key);
    // One that is over for the scheduler and whose handler has not come back is waited for: the key was given on the moment it was over.
    const isKeyTaken = keyHolder?.phase === "running" && keyHolder.task !== dispatch.task_id;
    if (isKeyTaken) return { verdict: "key-taken", fence, keyHolder: keyHolder };
    if (this.#waitingForSlot.size >= this.#settings.slotsMax) this.#takeWaiting(() => false);
    if (this.#waitingForSlot.size >= this.#settings.slotsMax) return { verdict: "full", fence };

    const superseded = current === undefined ? undefined : this.discardAttempt(current);
    const attempt = createAttempt(dispatch, fence, now + this.#settings.slotWaitMs, now, frame);
    this.#byTask.set(attempt.task, attempt);
    this.#fenceCache.set(attempt.task, attempt.fence);
    if (this.#tryOccupySlot(attempt)) return { verdict: "start", attempt, superseded };
    this.#waitingForSlot.push(attempt);
    return { verdict: "wait", attempt, superseded };
  }

  /** An attempt of an earlier process whose outcome is known and not acked. Of several of one task only the last is held. */
  restoreFinished(attempt: LocalAttempt): void {
    attempt.phase = "finished";
    const current = this.#byTask.get(attempt.task);
    if (current !== undefined && current.fence > attempt.fence) return;
    this.#byTask.set(attempt.task, attempt);
    this.#fenceCache.set(attempt.task, attempt.fence);
  }

  /** Its outcome is known. It stays held until the scheduler has acked its outcome. */
  markFinished(attempt: LocalAttempt): void {
    if (attempt.phase !== "dropped") attempt.phase = "finished";
  }

  removeAttempt(attempt: LocalAttempt): void {
    if (this.#byTask.get(attempt.task) === attempt) this.#byTask.delete(attempt.task);
  }

  /** Nobody wants its outcome any more. A running handler keeps its slot and key until it comes back. */
  discardAttempt(attempt: LocalAttempt): LocalAttempt {
    attempt.phase = "dropped";
    this.removeAttempt(attempt);
    return attempt;
  }

  /** The handler has come back: its slot and key are free. Gives the attempts that can start now, already occupying. */
  releaseSlot(attempt: LocalAttempt): LocalAttempt[] {
    if (!attempt.isOccupyingSlot) return [];
    this.resumeAttempt(attempt, attempt.pendingCalls);
    attempt.isOccupyingSlot = false;
    this.#occupiedSlots--;
    if (attempt.concurrencyKey !== null && this.#byConcurrencyKey.get(attempt.concurrencyKey) === attempt)
      this.#byConcurrencyKey.delete(attempt.concurrencyKey);
    return this.#takeWaiting(this.#tryOccupySlot);
  }

  /** It waits for the next of its chain, which may need its slot. Gives the attempts that can start now, already occupying. */
  suspendAttempt(attempt: LocalAttempt): LocalAttempt[] {
    attempt.pendingCalls++;
    if (attempt.pendingCalls > 1 || !attempt.isOccupyingSlot) return [];
    this.#suspendedCount++;
    return this.#takeWaiting(this.#tryOccupySlot);
  }

  /** So many of its calls are over. It goes on at once, also where its slot was given away: those two share it until one ends. */
  resumeAttempt(attempt: LocalAttempt, calls = 1): void {
    if (attempt.pendingCalls === 0) return;
    attempt.pendingCalls = Math.max(0, attempt.pendingCalls - calls);
    if (attempt.pendingCalls === 0 && attempt.isOccupyingSlot) this.#suspendedCount--;
  }

  /** Attempts that have waited too long for a slot; they are no longer held. */
  expireSlotWaits(now: number): LocalAttempt[] {
    const expired = this.#takeWaiting((attempt) => attempt.slotWaitEndsAt <= now);
    for (const attempt of expired) this.discardAttempt(attempt);
    return expired;
  }

  get nextSlotWaitEndsAt(): number {
    return this.#waitingForSlot.peek()?.slotWaitEndsAt ?? Number.POSITIVE_INFINITY;
  }

  /** False where no slot is free, or its key is taken. */
  readonly #tryOccupySlot = (attempt: LocalAttempt): boolean => {
    const { concurrencyKey } = attempt;
    if (this.#occupiedSlots - this.#suspendedCount >= this.#settings.slotsMax) return false;
    if (concurrencyKey !== null && this.#byConcurrencyKey.has(concurrencyKey)) return false;
    attempt.phase = "running";
    attempt.isOccupyingSlot = true;
    this.#occupiedSlots++;
    if (concurrencyKey !== null) this.#byConcurrencyKey.set(concurrencyKey, attempt);
    return true;
  };

  /** Takes those out of the queue that `isTaken` accepts, and drops those that no longer wait. */
  #takeWaiting(isTaken: (attempt: LocalAttempt) => boolean): LocalAttempt[] {
    if (this.#waitingForSlot.size === 0) return [];
    const taken: LocalAttempt[] = [];
    for (const attempt of this.#waitingForSlot.drain()) {
      if (attempt.phase !== "waiting") continue;
      if (isTaken(attempt)) taken.push(attempt);
      else this.#waitingForSlot.push(attempt);
    }
    return taken;
  }
}

/** Highest fence of the last tasks. Two generations, because a Map that always loses its first key walks over all the holes. */
class FenceCache {
  readonly #generationMax: number;
  #currentGeneration = new Map<string, number>();
  #previousGeneration = new Map<string, number>();

  constructor(tasksMax: number) {
    this.#generationMax = Math.ceil(tasksMax / 2);
  }

  get(task: string): number | undefined {
    return this.#currentGeneration.get(task) ?? this.#previousGeneration.get(task);
  }

  set(task: string, fence: number): void {
    if (this.#currentGeneration.size >= this.#generationMax) {
      this.#previousGeneration = this.#currentGeneration;
      this.#currentGeneration = new Map();
    }
    this.#currentGeneration.set(task, fence);
  }
}
