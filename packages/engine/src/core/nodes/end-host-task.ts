// How a host is ended early: everything open inside is cancelled, some per turn if it is much, then the host ends with the given verdict.

import type { FaultData } from "../../interface/command.ts";
import type { EndedTask, HostingTask, TaskId, TaskRow } from "../../storage/rows.ts";
import { requireHolderAddresses } from "../delivery/worker-mail.ts";
import { isEnded } from "../rows/task.ts";
import {
  enclosingPaths,
  isTopLevelNode,
  lastStep,
  pathRangeInside,
  type TaskPath,
  taskIdAt,
  taskPathOf,
} from "../rows/task-path.ts";
import { type HostTaskEnding, type LoopState, readTaskState, withTaskState } from "../rows/task-state.ts";
import { RowsMissing } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { isFinalFailure, recordDeadLetter } from "./dead-letters.ts";
import { cancelTask, errorText } from "./end-run.ts";
import type { RunProgress } from "./run-progress.ts";

/** Many tasks of a run; those that are not loaded are required together, which costs one round instead of one per task. */
export function loadTasks(work: UnitOfWork, ids: readonly TaskId[]): (TaskRow | null)[] {
  const missing: RowsMissing[] = [];
  const found = ids.map((id) => {
    try {
      return work.task(id);
    } catch (problem) {
      if (!(problem instanceof RowsMissing)) throw problem;
      missing.push(problem);
      return null;
    }
  });
  if (missing.length > 0)
    throw new RowsMissing(
      missing.flatMap(({ rows }) => rows),
      [],
    );
  return found;
}

/** An iteration or container around this path has ended or is ending: whatever ends here has no successors, and nothing new is opened. */
export function isInsideEndedHost(progress: RunProgress, path: TaskPath): boolean {
  const { work, run } = progress;
  if (isTopLevelNode(path)) return false;
  const ids = enclosingPaths(path).map((one) => taskIdAt(run.id, one));
  return loadTasks(work, ids).some((row) => row === null || isEnded(row) || readTaskState(row).ending !== undefined);
}

/** Ends an iteration or a container with this verdict, once nothing inside is open any more. */
export function endHost(progress: RunProgress, host: HostingTask, ending: HostTaskEnding): void {
  const endingHost = withTaskState(host, { ending });
  progress.work.put(endingHost);
  continueEndingHost(progress, endingHost, ending);
}

/** Continues ending a host: another part of the tasks inside, then the host itself. */
export function continueEndingHost(progress: RunProgress, host: HostingTask, ending: HostTaskEnding): void {
  if (!cancelNextInside(progress, host, ending, cancelReason(host, ending))) return;
  const endedRow = writeEndedHost(progress.work, host, ending);
  // The end is the last fact of a task.
  if (ending.verdict === "failed") recordContainerDeadLetter(progress, endedRow, ending.error);
  recordHostEnd(progress, endedRow, ending);
  progress.pending.push({ type: "ended", row: endedRow });
}

/** Cancels what is inside a host that the caller ends. False: it is too much for a turn; the rest follows, then the host is cancelled. */
export function cancelTasksInside(progress: RunProgress, host: HostingTask, why: FaultData): boolean {
  const ending: HostTaskEnding = { verdict: "cancelled", error: why };
  const endingHost = withTaskState(host, { ending });
  progress.work.put(endingHost);
  return cancelNextInside(progress, endingHost, ending, why);
}

/**
 * True when nothing inside is open any more; otherwise the host is due for the next part. The host is written as ending before: a key that
 * is released here may ready a task inside. A pass that took several turns is repeated until it finds nothing: what was not reached yet
 * may have called or opened more meanwhile.
 */
function cancelNextInside(progress: RunProgress, host: HostingTask, ending: HostTaskEnding, why: FaultData): boolean {
  const { work, run } = progress;
  const { after, last } = pathRangeInside(taskPathOf(host));
  const from = ending.cursor ?? taskIdAt(run.id, after);
  const found = work.openTasksIn(run.id, from, taskIdAt(run.id, last), work.settings.sweepTasksMax);
  requireHolderAddresses(work, found.tasks);
  for (const { id } of found.tasks) {
    cancelTask(work, run, work.existingTask(id), why);
    progress.openedTasks -= 1;
  }
  const isBusy = ending.isBusy === true || found.tasks.length > 0;
  if (found.last === null && (ending.cursor === undefined || !isBusy)) return true;
  const { verdict, error } = ending;
  const further: HostTaskEnding = { verdict, error, ...(found.last !== null && { cursor: found.last, isBusy }) };
  work.put(withTaskState({ ...host, due: work.now }, { ending: further }));
  return false;
}

/** A container that failed by itself and not by a task inside, which has its own dead letter, gets one too. */
function recordContainerDeadLetter(progress: RunProgress, host: EndedTask, error: FaultData | null): void {
  if (error === null || lastStep(taskPathOf(host)).iteration !== null) return;
  const plan = progress.plan;
  const cause = String(error.details?.["task"] ?? host.id);
  // The task that failed inside has a dead letter of its own, unless this container might have retried it.
  if (cause !== host.id && isFinalFailure(plan, taskPathOf({ id: cause, run: progress.run.id }))) return;
  recordDeadLetter(progress, progress.nodeOf(host), host, error);
}

const cancelReason = (host: HostingTask, { verdict }: HostTaskEnding): FaultData => ({
  code: "E.RUNNER.CANCELLED",
  message: `${host.id} around it is ${verdict === "failed" ? "failing" : verdict}`,
});

function writeEndedHost(work: UnitOfWork, host: HostingTask, { verdict, error }: HostTaskEnding): EndedTask {
  // Readers see how far it came; collected items and pending fan-outs are of no use any more.
  const { loop, frame: iteration } = readTaskState(host);
  const kept = withTaskState(host, {
    ending: undefined,
    loop: loop && withoutCollectedItems(loop),
    frame: iteration && { index: iteration.index, tries: iteration.tries },
  });
  if (verdict === "skipped") return work.moveTask(kept, { type: "skip", result: "{}" });
  const text = error === null ? null : errorText(error);
  if (verdict === "cancelled") return work.moveTask(kept, { type: "cancel", error: text });
  return work.moveTask(kept, { type: "fail", error: text ?? "{}", result: null });
}

export function withoutCollectedItems({ items: _, ...loop }: LoopState): LoopState {
  return loop;
}

function recordHostEnd(progress: RunProgress, row: EndedTask, { verdict, error }: HostTaskEnding): void {
  const { frame: iteration } = readTaskState(row);
  const reason = error !== null && { error };
  if (iteration !== undefined && lastStep(taskPathOf(row)).iteration !== null)
    progress.record("frame.ended", { task: row.id, index: iteration.index, status: verdict, ...reason });
  else progress.work.recordTaskFact(progress.run, `task.${verdict}`, row, verdict === "failed" ? { error } : { ...reason });
}
