// Words for workers whose socket another scheduler holds: written as mail with the unit that made them true, delivered by the scheduler
// that holds the socket. Mail makes it quick; what makes it certain is the worker's next heartbeat, which is compared with the rows.

import { fault } from "@astraflow/protocol";
import type { VendorFrame, WorkerOrder } from "../../command.ts";
import type { Line, Mail, RunId, TaskId, TaskRow, WorkerId, WorkerRow } from "../../rows.ts";
import { workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Root } from "../board/root.ts";
import { type NextWords, tellNext } from "../chain/answer.ts";
import { dropMove, waitMove } from "../chain/waits.ts";
import type { Seat } from "../crew/floor.ts";
import { hearsDrains, keptBy, tellDrain } from "../crew/strain.ts";
import type { Tools } from "../tools.ts";

export interface Why {
  readonly code: string;
  readonly reason: string;
}

/** What a letter says; which session it is for is known where the socket is. */
type Letter =
  | ({ readonly of: "stop"; readonly run: RunId; readonly task: TaskId; readonly fence: number } & Why)
  /** For every session of the worker that joined before this epoch, or, inclusively, with it. */
  | ({ readonly of: "reset"; readonly epoch: number } & Why)
  | { readonly of: "drain"; readonly reason: string }
  /** The answer to a call of a middleware; `isWaiting`: it has others open. */
  | ({
      readonly of: "next";
      readonly run: RunId;
      readonly task: TaskId;
      readonly fence: number;
      readonly node: string;
      readonly isWaiting: boolean;
    } & NextWords)
  | { readonly of: "tell"; readonly epoch: number; readonly frame: VendorFrame }
  /** Somebody stands in a line that only this worker serves. */
  | { readonly of: "line"; readonly line: Line }
  | { readonly of: "order"; readonly epoch: number; readonly id: string; readonly order: WorkerOrder };

type Addressed = Letter & { readonly worker: WorkerId };

/** Tells the holder of an attempt, wherever its socket is, that the attempt is no longer wanted. */
export function postStop(board: Board, tools: Tools, task: TaskRow, why: Why): void {
  if (task.worker === null) return;
  const worker = board.address(task.worker);
  if (worker === null || worker.phase !== "online" || isHere(tools, worker)) return;
  post(board, worker, task.run, `stop ${task.id}#${task.fence}`, {
    of: "stop",
    run: task.run,
    task: task.id,
    fence: task.fence,
    ...why,
  });
}

/** The answer that a middleware waits for, to wherever its socket is. Where it has none the row owes it. */
export function postNext(
  board: Board,
  tools: Tools,
  task: TaskRow,
  words: NextWords & { readonly node: string; readonly isWaiting: boolean },
): void {
  if (task.worker === null) return;
  const worker = board.address(task.worker);
  if (worker === null || worker.phase !== "online" || isHere(tools, worker)) return;
  post(board, worker, task.run, `next ${task.id}#${task.fence} ${words.request}`, {
    of: "next",
    run: task.run,
    task: task.id,
    fence: task.fence,
    ...words,
  });
}

/** Asks for the addresses that stops for these attempts will need, all at once: one by one each would cost a round of its own. */
export function needAddresses(board: Board, tools: Tools, tasks: readonly TaskRow[]): void {
  const workers = new Set<WorkerId>();
  for (const { phase, worker } of tasks)
    if (phase === "leased" && worker !== null && !tools.floor.seats.has(worker)) workers.add(worker);
  board.needAddresses(workers);
}

/** Ends the worker's session of that epoch or earlier, if another scheduler still keeps one. */
export function postReset(board: Board, tools: Tools, worker: WorkerRow, why: Why): void {
  if (isHere(tools, worker)) return;
  post(board, worker, workerKey(worker.id), `reset ${worker.id} ${worker.epoch}`, { of: "reset", epoch: worker.epoch, ...why });
}

export function postDrain(board: Board, tools: Tools, worker: WorkerRow, reason: string): void {
  if (isHere(tools, worker) || worker.phase !== "online") return;
  const id = `drain ${worker.id} ${tools.nextId(board.now)}`;
  post(board, worker, workerKey(worker.id), id, { of: "drain", reason });
}

/** False where nobody holds a socket of it: the worker is not online, or is thought to be here and is not. */
export function postTell(board: Board, tools: Tools, worker: WorkerRow, frame: VendorFrame): boolean {
  if (isHere(tools, worker) || worker.phase !== "online") return false;
  const id = `tell ${worker.id} ${tools.nextId(board.now)}`;
  post(board, worker, workerKey(worker.id), id, { of: "tell", epoch: worker.epoch, frame });
  return true;
}

/** A task waits for this worker alone: hints may be lost, and nobody but the scheduler that holds its socket can grant it. */
export function postLine(board: Board, tools: Tools, worker: WorkerRow, run: RunId, line: Line): void {
  if (isHere(tools, worker) || worker.phase !== "online") return;
  post(board, worker, run, `line ${line}`, { of: "line", line });
}

/** False where nobody holds a socket of it. */
export function postOrder(board: Board, tools: Tools, worker: WorkerRow, said: { id: string; order: WorkerOrder }): boolean {
  if (isHere(tools, worker) || worker.phase !== "online") return false;
  post(board, worker, workerKey(worker.id), `order ${worker.id} ${said.id}`, { of: "order", epoch: worker.epoch, ...said });
  return true;
}

function isHere(tools: Tools, worker: WorkerRow): boolean {
  return worker.replica === tools.me.replica && worker.replicaEpoch === tools.me.epoch;
}

function post(board: Board, to: WorkerRow, root: Root, id: string, letter: Letter): void {
  const addressed: Addressed = { ...letter, worker: to.id };
  board.post(root, { replica: to.replica, epoch: to.replicaEpoch, id, body: JSON.stringify(addressed) });
}

/**
 * One letter that came for a socket of this scheduler. A worker that sits here no longer has been told by its new join. What the letter
 * says was true when it was written; whether it still concerns this seat is read from the seat, and nothing but effects follows from it.
 */
export function hearMail(board: Board, tools: Tools, mail: Mail): void {
  const letter = JSON.parse(mail.body) as Addressed;
  const seat = tools.floor.seats.get(letter.worker);
  if (seat === undefined) return;
  switch (letter.of) {
    case "stop":
      return stopHold(board, seat, letter.task, letter.fence, letter);
    case "next": {
      const hold = seat.held.get(letter.task);
      if (hold?.fence !== letter.fence) return;
      // Said in any case: the turn in which it asked may be in the air still, and the seat does not show yet that it waits.
      if (!letter.isWaiting) board.move(waitMove(seat, hold, false));
      const { request, result, error, trace } = letter;
      return tellNext(board, seat, { id: letter.task, run: letter.run }, letter.node, { request, result, error, trace });
    }
    case "reset":
      if (seat.epoch > letter.epoch) return;
      board.move({ move: "rise", worker: seat.worker, session: seat.session });
      board.effect({
        type: "reset",
        session: seat.session,
        worker: seat.worker,
        code: letter.code,
        reason: letter.reason,
      });
      return;
    case "drain": {
      // It may have been undrained here since the letter was written: the row is asked, the letter is only the reason to ask.
      const on = board.address(seat.worker)?.draining ?? seat.draining;
      const isNews = keptBy(board, seat).draining !== on;
      if (isNews) board.move({ move: "drain", worker: seat.worker, on });
      // A drain that was taken back on its way here is no news, but its commands wait for the worker's word; who never gives one is left alone.
      if (isNews || hearsDrains(seat.about)) tellDrain(board, seat, on, letter.reason);
      return;
    }
    case "tell":
      // Meant for the session it was written to; a newer one of the worker may be another process.
      if (seat.epoch !== letter.epoch) return;
      board.effect({ type: "tell", session: seat.session, worker: seat.worker, tenant: seat.tenant, frame: letter.frame });
      return;
    case "line":
      board.move({ move: "heat", line: letter.line });
      return;
    case "order":
      // Whoever joined since, or went on over a new socket, was told then.
      if (seat.epoch !== letter.epoch) return;
      board.effect({
        type: "order",
        session: seat.session,
        worker: seat.worker,
        tenant: seat.tenant,
        id: letter.id,
        order: letter.order,
      });
      return;
    default:
      throw fault("E.INTERNAL", `mail ${mail.id} holds a letter that cannot be read`);
  }
}

/** The seat's hold is over, by another scheduler's hand: the slot is free and the worker is told. */
export function stopHold(board: Board, seat: Seat, task: TaskId, fence: number, why: Why): void {
  const hold = seat.held.get(task);
  if (hold?.fence !== fence) return;
  if (board.moves.some((move) => move.move === "drop" && move.task === task && move.fence === fence)) return;
  dropMove(board, seat, hold);
  board.effect({
    type: "stop",
    session: seat.session,
    worker: seat.worker,
    tenant: seat.tenant,
    run: hold.run,
    task,
    fence,
    code: why.code,
    reason: why.reason,
  });
}
