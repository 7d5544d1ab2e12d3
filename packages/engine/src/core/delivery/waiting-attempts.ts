// Which attempts take a slot after this turn: one that waits for its calls through a chain takes none, one that is over and cannot be
// stopped keeps its slot.

import type { AttemptRef } from "../../interface/command.ts";
import type { LeasedTask, TaskId, WorkerId } from "../../storage/rows.ts";
import { type ConnectedWorker, isSameAttempt, type LeasedAttempt, type UnstoppedAttempt } from "../fleet/connected-worker.ts";
import type { FleetChange } from "../fleet/fleet.ts";
import { canStopAttempts } from "../fleet/worker-abilities.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** The attempt begins to wait, or goes on; no effect where its worker is not connected here. */
export function setAttemptWaiting(work: UnitOfWork, task: LeasedTask, isWaiting: boolean): void {
  const connected = connectedAfterTurn(work, task.worker);
  const attempt = connected?.attempts.get(task.id);
  if (connected === null || attempt?.fence !== task.fence || isWaitingNow(work, attempt) === isWaiting) return;
  work.changeFleet(waitingChange(connected, attempt, isWaiting));
}

/** The worker's connection after this turn: one that joins in this very turn is reached at its new session. */
export function connectedAfterTurn(work: UnitOfWork, worker: WorkerId): ConnectedWorker | null {
  if (work.changedWorkers.has(worker))
    for (const change of work.fleetChanges.toReversed()) {
      if (change.type === "connect" && change.connected.worker === worker) return change.connected;
      if (change.type === "disconnect" && change.worker === worker) return null;
    }
  return work.fleet.workers.get(worker) ?? null;
}

export function waitingChange(
  { worker }: ConnectedWorker,
  { task, fence, nodeType }: LeasedAttempt,
  isWaiting: boolean,
): FleetChange {
  return { type: "wait", worker, task, fence, nodeType, isWaiting };
}

/** What is known of the handler of an attempt that is released: where it was not acked it has probably never begun. */
export type HandlerState = "ended" | "unacked" | "may-run";

/** The attempt is over. If it waited, its slot was free already; if its handler cannot be stopped, its slot stays taken. */
export function dropAttempt(work: UnitOfWork, connected: ConnectedWorker, attempt: LeasedAttempt, handler: HandlerState): void {
  const { task, fence } = attempt;
  const change = { type: "release", worker: connected.worker, task, fence } as const;
  const waited = isWaitingNow(work, attempt) ? { ...change, wasWaiting: true } : change;
  if (handler !== "may-run" || canStopAttempts(connected.about)) return work.changeFleet(waited);
  work.changeFleet({ ...waited, unstoppedUntil: work.now + work.settings.unstoppedSlotMs });
}

/** Another scheduler has ended or taken back the attempt. Null where the fleet does not show it, or no longer. */
export function releaseStaleAttempt(
  work: UnitOfWork,
  connected: ConnectedWorker,
  { task, fence }: AttemptRef,
  handler: HandlerState,
): LeasedAttempt | null {
  const attempt = connected.attempts.get(task);
  if (attempt?.fence !== fence) return null;
  if (work.fleetChanges.some((change) => change.type === "release" && isSameAttempt(change, attempt))) return null;
  dropAttempt(work, connected, attempt, handler);
  return attempt;
}

/** The outcome of an attempt that the worker could not be told to stop. Without a fence it is about any attempt of its task. */
export function freeUnstoppedSlot(work: UnitOfWork, connected: ConnectedWorker, task: TaskId, fence: number | null): void {
  for (const attempt of connected.unstopped?.values() ?? [])
    if (attempt.task === task && (fence === null || attempt.fence === fence)) giveUpSlot(work, connected, attempt);
}

function giveUpSlot(work: UnitOfWork, { worker }: ConnectedWorker, { task, fence, nodeType }: UnstoppedAttempt): void {
  const change = { type: "free-slot", worker, task, fence, nodeType } as const;
  if (!work.fleetChanges.some((one) => one.type === "free-slot" && isSameAttempt(one, change))) work.changeFleet(change);
}

/** What the passing of time gives back to workers: slots whose handlers are given up, and tasks that they handed back. */
export function liftExpiredLimits(work: UnitOfWork): void {
  for (const connected of work.fleet.workers.values()) {
    const { worker, unstopped, handedBack } = connected;
    if ((unstopped ?? handedBack) === undefined || work.fleet.pendingChanges.concernedWorkers.has(worker)) continue;
    for (const [task, until] of handedBack ?? [])
      if (until <= work.now) work.changeFleet({ type: "hand-back", worker, task, until: null });
    // The worker never acked it, or its outcome has not arrived in time.
    for (const attempt of unstopped?.values() ?? []) {
      const isUnacked = !attempt.acked && work.now - attempt.grantedAt >= work.settings.ackDeadlineMs;
      if (isUnacked || work.now >= attempt.until) giveUpSlot(work, connected, attempt);
    }
  }
}

function isWaitingNow(work: UnitOfWork, attempt: LeasedAttempt): boolean {
  return work.waitingAttempts.get(attempt.task) ?? attempt.isWaiting === true;
}
