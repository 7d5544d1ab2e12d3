// How full the sessions of this floor are. One that every look for a while has found without a free slot is saturated: said once, and once
// when it has room again. Nothing is decided by it: work without a pin waits in the line of its route, so whoever has a free slot takes it.

import { type WorkerRow, workerKey } from "../../rows.ts";
import { thresholdsOf } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import type { Attempt } from "../board/root.ts";
import type { Tools } from "../tools.ts";
import { readCondition, writeCondition } from "./condition.ts";
import { busyOf, type Seat } from "./floor.ts";
import { moveWorker } from "./worker.ts";

export function watchLoad(board: Board, tools: Tools, attempt: Attempt): void {
  for (const seat of tools.floor.seats.values()) {
    const isFull = busyOf(seat) > 0 && busyOf(seat) >= seat.about.slots;
    if (!isFull && seat.fullSince === null) continue;
    if (tools.floor.air.touched.has(seat.worker) || board.changed.has(seat.worker)) continue;
    const { worker } = seat;
    if (!isFull) {
      if (seat.isSaturated) attempt(workerKey(worker), () => showLoad(board, seat, null));
      else board.move({ move: "full", worker, since: null, isSaturated: false });
    } else if (seat.fullSince === null) board.move({ move: "full", worker, since: board.now, isSaturated: false });
    else {
      const since = seat.fullSince;
      if (!seat.isSaturated && board.now - since >= thresholdsOf(tools.settings, seat.tenant).saturatedMs)
        attempt(workerKey(worker), () => showLoad(board, seat, since));
    }
  }
}

/** Says that a seat has become saturated (`since` it was full), or that it has a free slot again (null). */
function showLoad(board: Board, seat: Seat, since: number | null): void {
  const row: WorkerRow | null = board.worker(seat.worker);
  // Taken over by another scheduler: what this floor thinks of it is the past.
  if (row === null || row.epoch !== seat.epoch || row.phase !== "online") return;
  const condition = writeCondition({ ...readCondition(row.condition), saturatedAt: since });
  board.put(moveWorker(row, { type: "note", condition }, board.now));
  if (since === null) board.say(seat.tenant, workerKey(seat.worker), "worker.unsaturated", { slots: seat.about.slots });
  else {
    board.say(seat.tenant, workerKey(seat.worker), "worker.saturated", { slots: seat.about.slots, sinceMs: board.now - since });
    board.count("worker_saturated_total", { tenant: seat.tenant });
  }
  board.move({ move: "full", worker: seat.worker, since, isSaturated: since !== null });
}
