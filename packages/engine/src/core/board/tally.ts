// What the floor's moves of a turn come to before the floor has made them: slots, waits, and workers that get nothing until it has.

import type { TaskId, WorkerId } from "../../rows.ts";
import type { FloorMove } from "../crew/floor.ts";

export class Tally {
  /** Slots freed (+) and used (-) in this turn, by worker. */
  readonly slots = new Map<WorkerId, number>();
  /** Workers whose seat this turn changes: the floor does not show it yet, so they get nothing before the next turn. */
  readonly changed = new Set<WorkerId>();
  /** Attempts that began to wait for what they called in this turn, or went on: the floor does not show it yet. */
  readonly waits = new Map<TaskId, boolean>();

  add(move: FloorMove): void {
    this.#count(move, 1);
    this.#noteWait(move);
    if (move.move === "sit") this.changed.add(move.seat.worker);
    if (move.move === "rise" || move.move === "describe" || move.move === "drain") this.changed.add(move.worker);
    if (move.move === "beat" && !move.healthy) this.changed.add(move.worker);
  }

  /** Takes back the moves from an index on. Whose seat they changed stays out for this turn: it only waits for the next. */
  takeBack(moves: readonly FloorMove[], from: number): void {
    let wasWaiting = false;
    for (let at = from; at < moves.length; at++) {
      const move = moves[at] as FloorMove;
      this.#count(move, -1);
      if (move.move === "wait" || (move.move === "drop" && move.wasWaiting === true)) wasWaiting = true;
    }
    if (!wasWaiting) return;
    this.waits.clear();
    for (let at = 0; at < from; at++) this.#noteWait(moves[at] as FloorMove);
  }

  /** `times` is 1 for a move that is made and -1 for one that is taken back. */
  #count(move: FloorMove, times: 1 | -1): void {
    if (move.move === "hold") this.#free(move.worker, -times);
    else if (move.move === "drop" && move.wasWaiting !== true) this.#free(move.worker, times);
    else if (move.move === "wait") this.#free(move.worker, move.isWaiting ? times : -times);
  }

  #free(worker: WorkerId, by: number): void {
    this.slots.set(worker, (this.slots.get(worker) ?? 0) + by);
  }

  #noteWait(move: FloorMove): void {
    if (move.move === "wait") this.waits.set(move.task, move.isWaiting);
    else if (move.move === "drop" && move.wasWaiting === true) this.waits.delete(move.task);
  }
}
