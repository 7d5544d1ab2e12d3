// How a run is ended early: it is condemned, its open tasks are cancelled, at once or by a cursor when they are many, then it closes.

import type { FaultData } from "../../interface/command.ts";
import type { EndedTask, InPhase, RunRow, TaskRow } from "../../storage/rows.ts";
import { releaseAttempt } from "../delivery/held-attempts.ts";
import { requireHolderAddresses } from "../delivery/worker-mail.ts";
import { releaseKey } from "../queueing/task-queue.ts";
import { applyRunTransition } from "../rows/run.ts";
import { readTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type EndingRun = InPhase<RunRow, "ending">;

export const errorText = (error: FaultData): string =>
  JSON.stringify(error.details === undefined ? { code: error.code, message: error.message } : error);

/** Ends one task early; its worker is told to stop, its key is released. The caller updates the counters of run and iteration. */
export function cancelTask(work: UnitOfWork, run: RunRow, task: TaskRow, reason: FaultData): EndedTask {
  const cancelled = work.moveTask(task, { type: "cancel", error: errorText(reason) });
  const { frame: iteration } = readTaskState(task);
  if (iteration !== undefined)
    work.recordRunFact(run, "frame.ended", { task: task.id, index: iteration.index, status: "cancelled", error: reason });
  else work.recordTaskFact(run, "task.cancelled", task, { error: reason });
  if (task.phase === "leased") releaseAttempt(work, task, { code: reason.code, reason: reason.message });
  releaseKey(work, task);
  return cancelled;
}

/** The run will end as `verdict`; its open tasks are cancelled now, or by the cursor when they are many. */
export function endRunEarly(work: UnitOfWork, run: RunRow, verdict: "failed" | "cancelled", error: FaultData | null): void {
  const ending = applyRunTransition(run, { type: "condemn", verdict, error: error === null ? null : errorText(error) }, work.now);
  if (ending.open === 0) closeRun(work, ending);
  else cancelOpenTasks(work, ending);
}

export function cancelOpenTasks(work: UnitOfWork, run: EndingRun): void {
  const limit = work.settings.sweepTasksMax;
  const { tasks: open, last } = work.openTasks(run.id, run.cursor ?? "", limit);
  const why = {
    code: "E.RUNNER.CANCELLED",
    message: `run ${run.id} is ${run.verdict === "cancelled" ? "cancelled" : "failing"}`,
  };
  requireHolderAddresses(work, open);
  // A sweep of several turns is recorded at its start: until the run is closed this is the only fact about its verdict.
  if (last !== null && run.cursor === null)
    work.recordRunFact(run, "run.ending", {
      verdict: run.verdict,
      ...(run.error !== null && { error: JSON.parse(run.error) as unknown }),
    });
  // Written first: releasing a key below may ready a task of this very run, and must find it condemned.
  work.put(run);
  for (const seen of open) cancelTask(work, run, work.existingTask(seen.id), why);
  if (last === null) closeRun(work, run);
  else work.moveRun(run, { type: "sweep", cursor: last, ended: open.length });
}

function closeRun(work: UnitOfWork, run: EndingRun): void {
  const closed = work.moveRun(run, { type: "close" });
  work.recordRunFact(run, `run.${closed.phase}`, closed.error === null ? {} : { error: JSON.parse(closed.error) as unknown });
}
