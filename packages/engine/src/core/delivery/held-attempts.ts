// Who holds an attempt on this fleet, and how the hold is dropped when the attempt is over. What becomes of the task is decided elsewhere.

import type { TaskId, TaskRow } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/fleet.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { refuseOpenCalls } from "./middleware-calls.ts";
import { dropAttempt } from "./waiting-attempts.ts";
import { mailStop, type StopReason } from "./worker-mail.ts";

/** The task's holder has no more say: its slot is free, its session is told when it does not know. */
export function releaseAttempt(work: UnitOfWork, context: DecisionContext, task: TaskRow, stop: StopReason | null): void {
  if (task.worker === null) return;
  // First the answers it waits for, then the stop: a worker that cannot be told to stop must not wait for ever.
  if (stop !== null && task.state !== null) refuseOpenCalls(work, context, task, stop);
  const connected = context.fleet.workers.get(task.worker);
  const attempt = connected?.attempts.get(task.id);
  if (connected === undefined || attempt?.fence !== task.fence) {
    if (stop !== null) mailStop(work, context, task, stop);
    return;
  }
  dropAttempt(work, connected, attempt);
  if (stop !== null)
    work.emit({
      type: "stop",
      session: connected.session,
      worker: connected.worker,
      tenant: connected.tenant,
      run: task.run,
      task: task.id,
      fence: task.fence,
      ...stop,
    });
}

/** A hold of this fleet that the row no longer bears out: another scheduler has ended or taken back the attempt. The slot is free. */
export function releaseStaleAttempt(work: UnitOfWork, connected: ConnectedWorker, task: TaskId, fence: number): void {
  const attempt = connected.attempts.get(task);
  if (attempt?.fence !== fence) return;
  if (work.fleetChanges.some((change) => change.move === "drop" && change.task === task && change.fence === fence)) return;
  dropAttempt(work, connected, attempt);
}
