// Attempts that a worker kept over a join without being able to report them. A moment later each that has not ended is sent again, as the
// very dispatch it was: a worker that still runs it says so, one that has lost it runs it now. Without this a result that got lost with
// the old connection would leave its task leased for as long as the worker beats.

import { runOf } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Attempt } from "../board/root.ts";
import { sendDispatch } from "../place/dispatch.ts";
import { dropStaleHold } from "../place/holds.ts";
import type { Tools } from "../tools.ts";
import type { Timer } from "./deadlines.ts";

/** Those whose time has come, a turn's worth of them. */
export function dueRechecks(tools: Tools, now: number): Timer[] {
  const { floor, settings } = tools;
  const due = floor.rechecks(now, settings.recheckMs).filter(({ worker }) => !floor.air.touched.has(worker));
  return due.slice(0, settings.dueMax);
}

export function recheckHolds(board: Board, tools: Tools, attempt: Attempt): void {
  for (const { worker, task: id, fence } of dueRechecks(tools, board.now)) {
    const seat = tools.floor.seats.get(worker);
    // A beat or a join of this very turn: the floor does not show yet what it means.
    if (seat === undefined || board.changed.has(worker)) continue;
    attempt(runOf(id), () => {
      if (board.moves.some((move) => move.move === "drop" && move.task === id && move.fence === fence)) return;
      const task = board.task(id);
      const run = task === null ? null : board.run(task.run);
      if (task === null || run === null || task.phase !== "leased" || task.fence !== fence || task.worker !== worker) {
        dropStaleHold(board, seat, id, fence);
        return;
      }
      // A run that is ending is swept soon, and the sweep stops the attempt.
      const isWanted = run.phase !== "ending" && task.epoch === seat.epoch;
      if (isWanted) sendDispatch(board, tools, seat, run, tools.plans.nodeOf(board, run, task), task);
      board.move({ move: "recheck", worker, task: id, fence, sentAt: isWanted ? board.now : null });
      if (isWanted) board.count("dispatch_recheck_total", { tenant: seat.tenant });
    });
  }
}
