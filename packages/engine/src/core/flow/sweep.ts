// How a run is ended early: it is condemned, its open tasks are cancelled, at once or by a cursor when they are many, then it closes.

import type { FaultData } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { dropHold } from "../place/holds.ts";
import { releaseKey } from "../place/line.ts";
import { needAddresses } from "../place/post.ts";
import { moveRun } from "../rows/run.ts";
import { stateOf } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";

export const errorText = (error: FaultData): string =>
  JSON.stringify(error.details === undefined ? { code: error.code, message: error.message } : error);

/** One task is over before its time; its worker is told, its key goes on. The counters of its run and frame are the caller's. */
export function cancelTask(board: Board, tools: Tools, run: RunRow, task: TaskRow, why: FaultData): TaskRow {
  const cancelled = moveTask(task, { type: "cancel", error: errorText(why) }, board.now);
  board.put(cancelled);
  const { frame } = stateOf(task);
  if (frame !== undefined) board.tell(run, "frame.ended", { task: task.id, index: frame.index, status: "cancelled", error: why });
  else board.tell(run, "task.cancelled", { task: task.id, fence: task.fence, worker: task.worker, error: why });
  if (task.phase === "leased") dropHold(board, tools, task, { code: why.code, reason: why.message });
  releaseKey(board, tools, task);
  return cancelled;
}

/** The run will end as `verdict`; its open tasks are cancelled now, or by the cursor when they are many. */
export function condemnRun(
  board: Board,
  tools: Tools,
  run: RunRow,
  verdict: "failed" | "cancelled",
  error: FaultData | null,
): void {
  const ending = moveRun(run, { type: "condemn", verdict, error: error === null ? null : errorText(error) }, board.now);
  if (ending.open === 0) closeRun(board, ending);
  else sweepRun(board, tools, ending);
}

export function sweepRun(board: Board, tools: Tools, run: RunRow): void {
  const limit = tools.settings.sweepTasksMax;
  const { tasks: open, last } = board.openTasks(run.id, run.cursor ?? "", limit);
  const why = {
    code: "E.RUNNER.CANCELLED",
    message: `run ${run.id} is ${run.verdict === "cancelled" ? "cancelled" : "failing"}`,
  };
  needAddresses(board, tools, open);
  // A sweep that takes several turns is told at its first: until the run is closed this is all that the log says of its verdict.
  if (last !== null && run.cursor === null)
    board.tell(run, "run.ending", {
      verdict: run.verdict,
      ...(run.error !== null && { error: JSON.parse(run.error) as unknown }),
    });
  // Written first: releasing a key below may ready a task of this very run, and must find it condemned.
  board.put(run);
  for (const seen of open) cancelTask(board, tools, run, board.task(seen.id) as TaskRow, why);
  if (last === null) closeRun(board, run);
  else board.put(moveRun(run, { type: "sweep", cursor: last, ended: open.length }, board.now));
}

function closeRun(board: Board, run: RunRow): void {
  const closed = moveRun(run, { type: "close" }, board.now);
  board.put(closed);
  board.tell(run, `run.${closed.phase}`, closed.error === null ? {} : { error: JSON.parse(closed.error) as unknown });
}
