// Attempts that wait for what they called through a chain, as the floor will stand after this turn: while they wait they take no slot.

import type { TaskRow, WorkerId } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { FloorMove, Hold, Seat } from "../crew/floor.ts";
import type { Tools } from "../tools.ts";

/** The attempt begins to wait, or goes on; nothing where its seat is not on this floor. */
export function setWaiting(board: Board, tools: Tools, task: TaskRow, isWaiting: boolean): void {
  const seat = task.worker === null ? null : seatIn(board, tools, task.worker);
  const hold = seat?.held.get(task.id);
  if (seat !== null && hold?.fence === task.fence) setHoldWaiting(board, seat, hold, isWaiting);
}

/** The worker's seat as it will be: one that joins in this very turn is told at its new session. */
export function seatIn(board: Board, tools: Tools, worker: WorkerId): Seat | null {
  if (board.changed.has(worker))
    for (const move of board.moves.toReversed()) {
      if (move.move === "sit" && move.seat.worker === worker) return move.seat;
      if (move.move === "rise" && move.worker === worker) return null;
    }
  return tools.floor.seats.get(worker) ?? null;
}

function setHoldWaiting(board: Board, seat: Seat, hold: Hold, isWaiting: boolean): void {
  if (isWaitingNow(board, hold) === isWaiting) return;
  board.move(waitMove(seat, hold, isWaiting));
}

export function waitMove({ worker }: Seat, { task, fence, nodeType }: Hold, isWaiting: boolean): FloorMove {
  return { move: "wait", worker, task, fence, nodeType, isWaiting };
}

/** The hold is over. One that waited had given its slot back already. */
export function dropMove(board: Board, seat: Seat, hold: Hold): void {
  const { task, fence } = hold;
  const move = { move: "drop", worker: seat.worker, task, fence } as const;
  board.move(isWaitingNow(board, hold) ? { ...move, wasWaiting: true } : move);
}

function isWaitingNow(board: Board, hold: Hold): boolean {
  return board.waits.get(hold.task) ?? hold.isWaiting === true;
}
