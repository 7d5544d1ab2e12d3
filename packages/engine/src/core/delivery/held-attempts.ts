// Releasing an attempt when it is over. What becomes of the task is decided elsewhere.

import type { LeasedTask } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { refuseOpenCalls } from "./middleware-calls.ts";
import { type AttemptStopReason, sendStop } from "./session-messages.ts";
import { dropAttempt, type HandlerState } from "./waiting-attempts.ts";
import { mailStop } from "./worker-mail.ts";

/** Takes the attempt from its holder, whose session is told to stop unless it ended the attempt itself. */
export function releaseAttempt(
  work: UnitOfWork,
  task: LeasedTask,
  stop: AttemptStopReason | null,
  handler: HandlerState = stop === null ? "ended" : "may-run",
): void {
  // First the answers it waits for, then the stop: a worker that cannot be stopped must not wait for ever.
  if (stop !== null && task.state !== null) refuseOpenCalls(work, task, stop);
  const connected = work.fleet.workers.get(task.worker);
  const attempt = connected?.attempts.get(task.id);
  if (connected === undefined || attempt?.fence !== task.fence) {
    if (stop !== null) mailStop(work, task, stop);
    return;
  }
  dropAttempt(work, connected, attempt, handler);
  if (stop !== null) sendStop(work, connected, attempt, stop);
}
