// Attempts that wait for their calls through a chain, as they will be after this turn: while they wait they take no slot.

import type { LeasedTask, TaskId, WorkerId } from "../../storage/rows.ts";
import { type ConnectedWorker, isSameAttempt, type LeasedAttempt } from "../fleet/connected-worker.ts";
import type { FleetChange } from "../fleet/fleet.ts";
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

/** The attempt is over. If it waited, its slot was free already. */
export function dropAttempt(work: UnitOfWork, connected: ConnectedWorker, attempt: LeasedAttempt): void {
  const { task, fence } = attempt;
  const change = { type: "release", worker: connected.worker, task, fence } as const;
  work.changeFleet(isWaitingNow(work, attempt) ? { ...change, wasWaiting: true } : change);
}

/** Another scheduler has ended or taken back the attempt: its slot is free. Null where the fleet does not show it, or no longer. */
export function releaseStaleAttempt(
  work: UnitOfWork,
  connected: ConnectedWorker,
  task: TaskId,
  fence: number,
): LeasedAttempt | null {
  const attempt = connected.attempts.get(task);
  if (attempt?.fence !== fence) return null;
  if (work.fleetChanges.some((change) => change.type === "release" && isSameAttempt(change, attempt))) return null;
  dropAttempt(work, connected, attempt);
  return attempt;
}

function isWaitingNow(work: UnitOfWork, attempt: LeasedAttempt): boolean {
  return work.waitingAttempts.get(attempt.task) ?? attempt.isWaiting === true;
}
