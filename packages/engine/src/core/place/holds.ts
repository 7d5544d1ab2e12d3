// Who holds an attempt on this floor, and how the hold is dropped when the attempt is over. What becomes of the task is decided elsewhere.

import type { TaskId, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { refuseOpenCalls } from "../chain/calls.ts";
import { dropMove } from "../chain/waits.ts";
import type { Seat } from "../crew/floor.ts";
import type { Tools } from "../tools.ts";
import { postStop, type Why } from "./post.ts";

/** The task's holder has no more say: its slot is free, its session is told when it does not know. */
export function dropHold(board: Board, tools: Tools, task: TaskRow, stop: Why | null): void {
  if (task.worker === null) return;
  // First the answers it waits for, then the stop: a worker that cannot be told to stop must not wait for ever.
  if (stop !== null && task.state !== null) refuseOpenCalls(board, tools, task, stop);
  const seat = tools.floor.seats.get(task.worker);
  const hold = seat?.held.get(task.id);
  if (seat === undefined || hold?.fence !== task.fence) {
    if (stop !== null) postStop(board, tools, task, stop);
    return;
  }
  dropMove(board, seat, hold);
  if (stop !== null)
    board.effect({
      type: "stop",
      session: seat.session,
      worker: seat.worker,
      tenant: seat.tenant,
      run: task.run,
      task: task.id,
      fence: task.fence,
      ...stop,
    });
}

/** A hold of this floor that the row no longer bears out: another scheduler has ended or taken back the attempt. The slot is free. */
export function dropStaleHold(board: Board, seat: Seat, task: TaskId, fence: number): void {
  const hold = seat.held.get(task);
  if (hold?.fence !== fence) return;
  if (board.moves.some((move) => move.move === "drop" && move.task === task && move.fence === fence)) return;
  dropMove(board, seat, hold);
}
