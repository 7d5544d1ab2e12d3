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
import { pinnedTo } from "../place/removed.ts";
import { announcedBy } from "../place/route.ts";
import type { Tools } from "../tools.ts";
import { unknownSession } from "./beat.ts";
import { keepEnded, openOrder, refuseDebt, refuseTaken } from "./command-book.ts";
import { readCondition, writeCondition } from "./condition.ts";
import { failOrders, settleOrders } from "./orders.ts";
import { packageChanges } from "./package-changes.ts";
import { ownWorker, seatNow } from "./seat.ts";
import { hearsDrains, tellDrain } from "./strain.ts";
import { moveWorker, stepWorker } from "./worker.ts";

export function describeWorker(board: Board, tools: Tools, order: DescribeWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  const row = seat === null ? null : board.worker(order.worker);
  // A session that the worker has left for one at another scheduler no longer speaks for it.
  if (seat === null || row === null || row.epoch !== seat.epoch) return unknownSession(order.worker);
  const moved = stepWorker(row, { type: "describe", about: JSON.stringify(order.about) }, board.now);
  if (!("kind" in moved)) return moved;
  board.put(moved);
  settleOrders(board, moved, order.about);
  board.say(seat.tenant, workerKey(seat.worker), "worker.described", {
    packages: order.about.packages.length,
    slots: order.about.slots,
    ...packageChanges(row.about, order.about),
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
  const taken = order.command === undefined ? null : refuseTaken(board, order.tenant, order.command);
  if (taken !== null) return taken;
  const isChange = row.draining !== order.on;
  const moved = moveWorker(row, { type: "drain", on: order.on }, board.now);
  if (isChange) {
    const seat = seatNow(board, tools, row);
    board.put(moved);
    board.say(order.tenant, workerKey(row.id), order.on ? "worker.draining" : "worker.undrained", { by: order.by });
    board.move({ move: "drain", worker: row.id, on: order.on });
    if (seat !== null) tellDrain(board, seat, order.on, `asked by ${order.by}`);
    else postDrain(board, tools, row, `asked by ${order.by}`);
  }
  if (order.command !== undefined) keepDrain(board, moved, { ...order, command: order.command }, isChange);
  return { of: "worker", worker: row.id, draining: order.on, at: board.now };
}

/** Open until the worker has heard it, where it says that it has; else it is done: the scheduler keeps to it whatever the worker knows. */
function keepDrain(
  board: Board,
  row: WorkerRow,
  { command, on, by, corr }: DrainWorker & { command: string },
  isChange: boolean,
): void {
  const given = { id: command, order: { type: on ? "drain" : "undrain" }, by, corr } as const;
  if (!isChange) return keepEnded(board, row, given, { details: { unchanged: true } });
  if (row.phase !== "online") return keepEnded(board, row, given, { details: { kept: true } });
  if (isHeard(row) && refuseDebt(row, given) === null) openOrder(board, row, given);
  else keepEnded(board, row, given);
}

/** One that lacks room drains already and is told nothing. */
const isHeard = (row: WorkerRow): boolean => hearsDrains(announcedBy(row)) && readCondition(row.condition).strain === null;

/** Its session ends, wherever its socket is, and cannot be resumed. Its attempts stay its own while the lease lasts: it may come back. */
export function kickWorker(board: Board, tools: Tools, order: KickWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  const taken = order.command === undefined ? null : refuseTaken(board, order.tenant, order.command);
  if (taken !== null) return taken;
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
  // Done with this commit, wherever its socket is: the session cannot be resumed, and its next heartbeat is refused. Outcomes that the
  // scheduler with its socket hears before the letter count: the attempts are still its own.
  if (order.command !== undefined) {
    const { command: id, by, corr, reason } = order;
    keepEnded(board, row, { id, order: { type: "kick", reason }, by, corr }, { details: { hadSession: row.phase === "online" } });
  }
  return { of: "worker", worker: row.id, draining: row.draining, at: board.now };
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
  const silent = worker.phase === "lost" ? worker : failOrders(board, worker);
  board.put(moveWorker(silent, { type: "expire", again: held.length === 0 ? null : board.now }, board.now));
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
