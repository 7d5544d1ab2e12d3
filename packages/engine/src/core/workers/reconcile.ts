// Compares the attempts in the store with those a joining worker reports: which it keeps, which are taken back, which it must stop.

import type { AttemptRef, JoinWorkerCommand, SessionReport } from "../../interface/command.ts";
import { type LeasedTask, runKey, runOf, type TaskId, taskKey, type WorkerRow } from "../../storage/rows.ts";
import { attemptDeadline, deliverPendingAnswers, openCalls } from "../delivery/middleware-calls.ts";
import { attemptNotHeld, sendStop } from "../delivery/session-messages.ts";
import { isSameAttempt, type LeasedAttempt } from "../fleet/connected-worker.ts";
import { joinsWithoutReport } from "../fleet/worker-abilities.ts";
import { hasDeliveryLeft, takeBackAttempt } from "../progress/end-attempt.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { isGone } from "../rows/worker.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** A worker holds no more than it has slots for; a join settles all of them in one change set. */
export const heldAttemptsMax = 4096;

interface JoinedWorker {
  readonly command: JoinWorkerCommand;
  readonly before: WorkerRow | null;
  readonly boot: string;
  readonly epoch: number;
}

export function reconcileAttempts(work: UnitOfWork, joining: JoinedWorker): Map<TaskId, LeasedAttempt> {
  const { command, before, boot, epoch } = joining;
  const held = new Map<TaskId, LeasedAttempt>();
  const reported = new Map(command.running?.map((one) => [one.task, one.fence]));
  const reason = { code: "E.WORKER.LOST", message: `worker ${command.name} came back without it` };
  const known = before === null ? [] : work.tasksHeldBy(command.worker, heldAttemptsMax);
  work.requireRows(known.flatMap((id) => [taskKey(id), runKey(runOf(id))]));
  for (const id of known) {
    const stored = work.task(id);
    if (stored === null || stored.phase !== "leased" || stored.worker !== command.worker) continue;
    const run = work.run(stored.run);
    if (run === null) continue;
    // A process that may be new may have been ended by the very task it is asked for again: that counts as a delivery.
    if (command.mayBeNewProcess === true && run.phase !== "ending" && !hasDeliveryLeft(work, work.nodeOf(run, stored), stored)) {
      takeBackAttempt(work, run, stored, reason);
      continue;
    }
    const task = command.mayBeNewProcess === true ? { ...stored, deliveries: stored.deliveries + 1 } : stored;
    // An ending run is swept soon: until then the attempt counts as held, and the sweep stops it.
    if (run.phase !== "ending" && !keepsAttempt(joining, reported, task)) {
      // That the same process does not list it does not show that it never began: its ack may be lost, and it may have stopped the handler
      // itself when it could no longer count on its lease.
      takeBackAttempt(work, run, task, reason, { handler: "ended" });
      continue;
    }
    const acked = isAcked(work, command, task);
    const node = work.nodeOf(run, task);
    const due = task.due ?? attemptDeadline(work, node, task);
    const bound = applyTaskTransition(task, { type: "rebind", boot, epoch, acked, due }, work.now);
    work.put(deliverPendingAnswers(work, run, bound, command));
    // A resumed session is the same one: nothing changes in the run's log, except that an ack is stored with it.
    if (command.resumed === undefined)
      work.recordTaskFact(run, "task.rebound", task, command.mayBeNewProcess === true ? { deliveries: task.deliveries } : {});
    else if (bound.acked && !task.acked) work.recordTaskFact(run, "task.running", task, { attempt: task.attempt });
    // Of a resumed session the fleet may know more than the rows: what was asked and answered before.
    const known = command.resumed === undefined ? undefined : work.fleet.workers.get(command.worker)?.attempts.get(id);
    const { isSentAgain, isRunningOlder = false } = known?.fence === task.fence ? known : {};
    held.set(id, {
      task: id,
      run: task.run,
      fence: task.fence,
      nodeType: node.type,
      // An attempt that a resumed session has not acked gets its whole deadline again: the dispatch is sent again on the new socket.
      grantedAt: acked ? task.grantedAt : work.now,
      acked,
      stored: acked,
      recheckFrom: joinsWithoutReport(command) ? work.now : null,
      reportedAt: work.now,
      isRunningOlder,
      ...(isSentAgain === true && { isSentAgain }),
      isWaiting: openCalls(task).length > 0,
    });
  }
  for (const [task, fence] of reported) if (!held.has(task)) stopUnknownAttempt(work, command, { task, fence });
  // Taken back while the session had no socket: its dispatch still waits there, and must not go out on the new one.
  for (const one of command.resumed?.unacked ?? [])
    if (held.get(one.task)?.fence !== one.fence) stopUnknownAttempt(work, command, one);
  return held;
}

function keepsAttempt({ command, before, boot }: JoinedWorker, reported: ReadonlyMap<TaskId, number>, task: LeasedTask): boolean {
  // Nothing was lost between the two ends of a resumed session.
  if (command.resumed !== undefined) return task.boot === boot;
  // For a worker that cannot report, the boot decides while its lease lasts.
  if (command.running === null) return task.boot === boot && (before === null || !isGone(before));
  // A new process may name an attempt of the last one whose outcome it found in its outbox.
  return reported.get(task.id) === task.fence;
}

/**
 * Whether the worker has the dispatch. After a full join it has reported it, or will be rechecked. For a resumed session the fleet knows
 * best, if it has the session: a dispatch may have been sent after the door checked which ones are unacked.
 */
function isAcked(work: UnitOfWork, { resumed, worker, session }: JoinWorkerCommand, { id, fence }: LeasedTask): boolean {
  if (resumed === undefined) return true;
  const attempt = work.fleet.workerInSession(worker, session)?.attempts.get(id);
  if (attempt?.fence !== fence) return !resumed.unacked.some((one) => one.task === id && one.fence === fence);
  return attempt.acked || work.fleetChanges.some((change) => change.type === "ack" && isSameAttempt(change, attempt));
}

/** The worker names an attempt that is not its own any more. */
export function stopUnknownAttempt(work: UnitOfWork, session: SessionReport, { task, fence }: AttemptRef): void {
  sendStop(work, session, { run: runOf(task), task, fence }, attemptNotHeld);
}
