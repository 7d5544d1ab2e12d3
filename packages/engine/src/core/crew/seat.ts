// The worker that a command names, and where it sits on this floor. Reads only.

import { type Fault, fault } from "@astraflow/protocol";
import type { WorkerAbout } from "../../command.ts";
import { type Tenant, type WorkerId, type WorkerRow, workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { RootBusy } from "../board/root.ts";
import type { Tools } from "../tools.ts";
import { readCondition } from "./condition.ts";
import type { Seat } from "./floor.ts";

/** Unknown and another tenant's get one and the same answer. */
export function ownWorker(board: Board, order: { readonly tenant: Tenant; readonly worker: WorkerId }): WorkerRow | Fault {
  const row = board.worker(order.worker);
  if (row !== null && row.tenant === order.tenant) return row;
  return fault("E.NOT_FOUND", `worker ${order.worker.slice(order.tenant.length + 1)} does not exist`);
}

/**
 * The live seat of a worker here; one from before the worker moved on is nobody's any more. One that this very turn makes or changes is not
 * on the floor as it will be: the command waits for the next turn.
 */
export function seatNow(board: Board, tools: Tools, row: WorkerRow): Seat | null {
  if (board.changed.has(row.id)) throw new RootBusy(workerKey(row.id));
  const seat = tools.floor.seats.get(row.id);
  return seat !== undefined && seat.epoch === row.epoch && row.phase === "online" ? seat : null;
}

/** The seat of the session that said something about its worker: one it has here, or has left. Null: the worker has gone on elsewhere since. */
export function seatSpeaking(
  board: Board,
  tools: Tools,
  word: { readonly worker: WorkerId; readonly session: string },
): Seat | null {
  const seat = tools.floor.seatOf(word.worker, word.session) ?? seatLeft(board, word.worker, word.session);
  return seat !== null && board.worker(word.worker)?.epoch === seat.epoch ? seat : null;
}

/**
 * The seat of a session that has left and that nobody has followed, as its worker's row knows it: what it said before it left may be decided after,
 * and is as true as before. It holds nothing and is given nothing.
 */
export function seatLeft(board: Board, worker: WorkerId, session: string): Seat | null {
  const row = board.worker(worker);
  if (row === null || row.phase !== "away" || row.boot === null) return null;
  const { session: last, healthy, strain, beatAt } = readCondition(row.condition);
  if (last !== session) return null;
  return {
    worker: row.id,
    tenant: row.tenant,
    name: row.name,
    session,
    boot: row.boot,
    epoch: row.epoch,
    about: JSON.parse(row.about) as WorkerAbout,
    draining: row.draining,
    healthy,
    strain,
    liveness: "unhealthy",
    beatAt: beatAt ?? board.now,
    fullSince: null,
    isSaturated: false,
    held: new Map(),
  };
}
