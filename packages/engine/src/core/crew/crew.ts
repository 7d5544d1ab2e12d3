// Workers changing, leaving, drained, kicked and told something; the end of their boot's lease, and what becomes of the attempts they held.
// Joins are in join.ts, heartbeats in beat.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { DescribeWorker, DrainWorker, KickWorker, LeaveWorker, TellWorker, WorkerAbout } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type TaskId, type TaskRow, type WorkerRow, workerKey } from "../../rows.ts";
import { paceOf } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import { takeBack } from "../flow/end.ts";
import { losePin } from "../place/pins.ts";
import { postDrain, postReset, postTell } from "../place/post.ts";
import { lineOf } from "../place/route.ts";
import type { Tools } from "../tools.ts";
import { unknownSession } from "./beat.ts";
import { readCondition, writeCondition } from "./condition.ts";
import { settleOrders } from "./orders.ts";
import { ownWorker, seatNow } from "./seat.ts";
import { tellDrain } from "./strain.ts";
import { moveWorker, stepWorker } from "./worker.ts";

export function describeWorker(board: Board, tools: Tools, order: DescribeWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  const row = seat === null ? null : board.worker(order.worker);
  if (seat === null || row === null) return unknownSession(order.worker);
  const moved = stepWorker(row, { type: "describe", about: JSON.stringify(order.about) }, board.now);
  if (!("kind" in moved)) return moved;
  board.put(moved);
  settleOrders(board, moved, order.about);
  board.say(seat.tenant, workerKey(seat.worker), "worker.described", {
    packages: order.about.packages.length,
    slots: order.about.slots,
  });
  board.move({ move: "describe", worker: seat.worker, about: order.about });
  return { of: "worker", worker: seat.worker, draining: row.draining };
}

/** The socket is gone; the lease runs on, and so may the work. */
export function leaveWorker(board: Board, tools: Tools, order: LeaveWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  if (seat === null) return { of: "word", applied: false };
  board.move({ move: "rise", worker: seat.worker, session: seat.session });
  const row = board.worker(order.worker);
  if (row !== null && row.phase === "online" && row.epoch === seat.epoch) {
    board.put(moveWorker(row, { type: "leave" }, board.now));
    board.say(seat.tenant, workerKey(seat.worker), "worker.left", { reason: order.reason, held: seat.held.size });
  }
  return { of: "word", applied: true };
}

export function drainWorker(board: Board, tools: Tools, order: DrainWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  if (row.draining !== order.on) {
    const seat = seatNow(board, tools, row);
    board.put(moveWorker(row, { type: "drain", on: order.on }, board.now));
    board.say(order.tenant, workerKey(row.id), order.on ? "worker.draining" : "worker.undrained", { by: order.by });
    board.move({ move: "drain", worker: row.id, on: order.on });
    if (seat !== null) tellDrain(board, seat, order.on, `asked by ${order.by}`);
    else postDrain(board, tools, row, `asked by ${order.by}`);
    // Said once it is so: the same order again changes nothing and says nothing.
    if (order.command !== undefined) board.say(order.tenant, workerKey(row.id), "command.acked", { id: order.command });
  }
  return { of: "worker", worker: row.id, draining: order.on };
}

/** Its session ends, wherever its socket is, and cannot be resumed. Its attempts stay its own while the lease lasts: it may come back. */
export function kickWorker(board: Board, tools: Tools, order: KickWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  const why = { code: "E.AUTH.INVALID_TOKEN", reason: `kicked by ${order.by}: ${order.reason}` };
  const seat = seatNow(board, tools, row);
  const condition = writeCondition({ ...readCondition(row.condition), session: null });
  const noted = moveWorker(row, { type: "note", condition }, board.now);
  board.put(row.phase === "online" ? moveWorker(noted, { type: "leave" }, board.now) : noted);
  board.say(order.tenant, workerKey(row.id), "worker.kicked", { by: order.by, reason: order.reason });
  if (seat !== null) {
    board.effect({ type: "reset", session: seat.session, worker: seat.worker, ...why });
    board.move({ move: "rise", worker: seat.worker, session: seat.session });
  } else if (row.phase === "online") postReset(board, tools, row, why);
  return { of: "worker", worker: row.id, draining: row.draining };
}

/** Nothing is kept of it: a worker that is not connected is not told later. */
export function tellWorker(board: Board, tools: Tools, order: TellWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  const seat = seatNow(board, tools, row);
  if (seat !== null)
    board.effect({ type: "tell", session: seat.session, worker: seat.worker, tenant: seat.tenant, frame: order.frame });
  else if (!postTell(board, tools, row, order.frame))
    return fault(
      "E.SESSION.UNKNOWN",
      `worker ${row.name} is ${row.phase === "lost" ? "lost" : "not connected"}; nothing was sent to it`,
      {
        worker: row.name,
        phase: row.phase,
      },
    );
  return { of: "word", applied: true };
}

/**
 * The boot's lease is over. Its attempts are taken back by the sweep, some at a time, and tasks that wait for it alone are looked at again;
 * the row stays due until none is left.
 */
export function expireWorker(board: Board, tools: Tools, worker: WorkerRow, backAt: number): TaskId[] {
  const { dialect = "" } = JSON.parse(worker.about) as Partial<WorkerAbout>;
  const graceUntil = backAt + paceOf(tools.settings, worker.tenant, dialect).leaseMs;
  if (board.now < graceUntil && worker.phase !== "lost") {
    board.put(moveWorker(worker, { type: "forgive", until: graceUntil }, board.now));
    return [];
  }
  const limit = tools.settings.sweepTasksMax;
  const leased = board.heldBy(worker.id, limit);
  const held = leased.length < limit ? [...leased, ...pinnedTo(board, tools, worker, limit - leased.length)] : leased;
  board.put(moveWorker(worker, { type: "expire", again: held.length === 0 ? null : board.now }, board.now));
  if (worker.phase !== "lost") {
    board.say(worker.tenant, workerKey(worker.id), "worker.lost", { boot: worker.boot, held: leased.length });
    const seat = tools.floor.seats.get(worker.id);
    if (seat !== undefined) {
      board.effect({
        type: "reset",
        session: seat.session,
        worker: seat.worker,
        code: "E.SESSION.STALE_BINDING",
        reason: "lease expired",
      });
      board.move({ move: "rise", worker: seat.worker, session: seat.session });
    } else if (worker.phase === "online")
      postReset(board, tools, worker, { code: "E.SESSION.STALE_BINDING", reason: "lease expired" });
  }
  return held;
}

/** Tasks that stand in line for this worker and no other. */
function pinnedTo(board: Board, tools: Tools, worker: WorkerRow, limit: number): TaskId[] {
  const lines: string[] = [];
  for (const [route, needs] of tools.floor.routes) if (needs.tenant === worker.tenant) lines.push(lineOf(route, worker.id));
  return board.waitingIn(lines, limit);
}

/** One attempt of a lost worker goes back into line; a task that waited for it goes elsewhere, or fails where it cannot. */
export function loseAttempt(board: Board, tools: Tools, id: TaskId, worker: WorkerRow): boolean {
  const task: TaskRow | null = board.task(id);
  if (task?.phase === "ready" && task.pin === worker.id) return losePin(board, tools, task, worker);
  if (task === null || task.phase !== "leased" || task.worker !== worker.id) return true;
  // Taken over meanwhile: a worker that joined again has settled its own attempts.
  if (board.worker(worker.id)?.phase !== "lost") return true;
  const run = board.run(task.run);
  if (run === null || run.phase === "ending") return false;
  takeBack(board, tools, run, task, { unacked: false, code: "E.WORKER.LOST", message: `worker ${worker.name} fell silent` });
  return true;
}
