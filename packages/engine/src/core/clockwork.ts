// What time does: grants nobody acked, acks worth storing, sessions gone quiet, deadlines of runs, tasks, leases and keys.
// Each thing that is due is decided like a command of its own, so one that cannot be decided does not hold up the others.

import { type Key, keyOf, type Row, runKey, runOf, type TaskRow, taskKey, workerKey } from "../rows.ts";
import { paceOf } from "../thresholds.ts";
import type { Board } from "./board/board.ts";
import type { Attempt } from "./board/root.ts";
import { openCalls } from "./chain/calls.ts";
import { expireCalls } from "./chain/chain.ts";
import { expireWorker, loseAttempt } from "./crew/crew.ts";
import { instanceOf } from "./crew/floor.ts";
import { dueRechecks } from "./crew/recheck.ts";
import { livenessAfter } from "./crew/worker.ts";
import { failAttempt, failTask, reasonsFor, takeBack } from "./flow/end.ts";
import { newFlow } from "./flow/reach.ts";
import { follow, tendHost, tendRun } from "./flow/settle.ts";
import { sweepRun } from "./flow/sweep.ts";
import { dropHold, dropStaleHold } from "./place/holds.ts";
import { enterLine, pumpKey } from "./place/line.ts";
import { lookAtPin } from "./place/pins.ts";
import { attemptPhase, moveTask } from "./rows/task.ts";
import { expireDoc } from "./steer/docs.ts";
import type { Tools } from "./tools.ts";

export interface Now {
  /** When the scheduler or its store was last back: meanwhile nobody could have renewed, so no lease ends within its own length of it. */
  readonly backAt: number;
  /** Frames that arrived at this instant or later still wait to be applied; what they may renew must not expire first. */
  readonly horizon: number;
}

/** Rows that the timers of the floor will need at this instant. */
export function rowsForTimers(tools: Tools, now: number): Key[] {
  const { floor, settings } = tools;
  const rows: Key[] = [];
  for (const timers of [floor.unacked(now, settings.ackDeadlineMs), floor.unstored(now, settings.ackStoreMs)])
    for (const { task, worker } of timers.slice(0, settings.dueMax))
      if (!floor.air.touched.has(worker)) rows.push(taskKey(task), runKey(runOf(task)));
  for (const { task } of dueRechecks(tools, now)) rows.push(taskKey(task), runKey(runOf(task)));
  return rows;
}

export function expireGrants(board: Board, tools: Tools, when: Now, attempt: Attempt): void {
  const { ackDeadlineMs } = tools.settings;
  for (const timer of tools.floor.unacked(board.now, ackDeadlineMs)) {
    if (timer.at + ackDeadlineMs >= when.horizon) return;
    if (tools.floor.air.touched.has(timer.worker)) continue;
    attempt(runOf(timer.task), () => {
      const task = board.task(timer.task);
      const run = task === null ? null : board.run(task.run);
      const seat = tools.floor.seats.get(timer.worker);
      if (seat !== undefined && (task === null || task.phase !== "leased" || task.fence !== timer.fence))
        dropStaleHold(board, seat, timer.task, timer.fence);
      if (task === null || run === null || task.phase !== "leased" || task.fence !== timer.fence || run.phase === "ending")
        return;
      if (board.moves.some((move) => move.move === "ack" && move.task === timer.task && move.fence === timer.fence)) return;
      const name = tools.floor.seats.get(timer.worker)?.name ?? timer.worker;
      takeBack(board, tools, run, task, {
        unacked: true,
        code: "E.TIMEOUT",
        message: `worker ${name} did not ack within ${ackDeadlineMs} ms`,
      });
    });
  }
}

/** Attempts that live longer than a moment have their ack stored, so that a restart need not guess; and the log says that they run. */
export function storeAcks(board: Board, tools: Tools, attempt: Attempt): void {
  for (const timer of tools.floor.unstored(board.now, tools.settings.ackStoreMs)) {
    if (tools.floor.air.touched.has(timer.worker)) continue;
    attempt(runOf(timer.task), () => {
      const task = board.task(timer.task);
      const run = task === null ? null : board.run(task.run);
      if (task !== null && run !== null && task.fence === timer.fence && attemptPhase(task) === "granted") {
        board.put(moveTask(task, { type: "ack" }, board.now));
        board.tell(run, "task.running", { task: task.id, fence: task.fence, worker: task.worker, attempt: task.attempt });
      }
      board.move({ move: "ack", worker: timer.worker, task: timer.task, fence: timer.fence, stored: true });
    });
  }
}

/** 1x WARN, 2x DEGRADED, 3x UNHEALTHY: said once per change. The lease decides; this only shows. */
export function watchSessions(board: Board, tools: Tools, attempt: Attempt): void {
  for (const seat of tools.floor.seats.values()) {
    if (tools.floor.air.touched.has(seat.worker)) continue;
    const seen = livenessAfter(board.now - seat.beatAt, paceOf(tools.settings, seat.tenant, seat.about.dialect).heartbeatMs);
    if (seen === seat.liveness || seen === "fresh") continue;
    attempt(workerKey(seat.worker), () => {
      if (board.worker(seat.worker) === null) throw new Error(`worker ${seat.worker} sits here but has no row`);
      board.say(seat.tenant, workerKey(seat.worker), "worker.liveness", { from: seat.liveness, to: seen });
      board.move({ move: "liveness", worker: seat.worker, liveness: seen });
      board.count("ws_heartbeat_miss_total", { tenant: seat.tenant, worker: instanceOf(seat) });
    });
  }
}

export function expireDue(board: Board, tools: Tools, due: readonly Row[], when: Now, attempt: Attempt): void {
  for (const row of due) {
    if ("due" in row && row.due !== null && row.due >= when.horizon) continue;
    attempt(row.kind === "task" ? row.run : keyOf(row), () => expireRow(board, tools, row, when, attempt));
  }
}

/** The row as it stands now: a command of this turn may have moved its deadline. */
function expireRow(board: Board, tools: Tools, loaded: Row, when: Now, attempt: Attempt): void {
  switch (loaded.kind) {
    case "run": {
      const run = board.run(loaded.id);
      if (run === null || run.due === null || run.due > board.now) return;
      if (run.phase === "ending") sweepRun(board, tools, run);
      else tendRun(board, tools, run);
      return;
    }
    case "task": {
      const task = board.task(loaded.id);
      if (task !== null && task.due !== null && task.due <= board.now) expireTask(board, tools, task);
      return;
    }
    case "worker": {
      const worker = board.worker(loaded.id);
      if (worker === null || worker.due === null || worker.due > board.now) return;
      const held = expireWorker(board, tools, worker, when.backAt);
      let moved = 0;
      for (const id of held)
        attempt(runOf(id), () => {
          if (loseAttempt(board, tools, id, worker)) moved++;
        });
      // All of them are in other hands or in quarantine: trying at once again would only spin.
      const lost = board.worker(worker.id);
      if (held.length > 0 && moved === 0 && lost !== null) board.put({ ...lost, due: board.now + tools.settings.idleMs });
      return;
    }
    case "key": {
      const key = board.key(loaded.id);
      if (key !== null && key.due !== null) pumpKey(board, tools, key, tools.settings.sweepTasksMax);
      return;
    }
    case "doc":
      expireDoc(board, loaded.id);
      return;
    default:
      throw new Error(`${keyOf(loaded)} has no deadline`);
  }
}

function expireTask(board: Board, tools: Tools, task: TaskRow): void {
  const run = board.run(task.run);
  if (run === null) throw new Error(`task ${task.id} has no run`);
  if (run.phase === "ending") return;
  if (task.phase === "hosting") return tendHost(board, tools, run, task);
  const node = tools.plans.nodeOf(board, run, task);
  if (task.phase === "parked" && task.line === null) {
    enterLine(board, tools, run, node, task);
    return;
  }
  if (task.phase === "leased") {
    const flow = newFlow();
    if (openCalls(task).length > 0 && expireCalls(board, tools, run, node, task, flow)) return follow(board, tools, run.id, flow);
    const error = { code: "E.TIMEOUT", message: `attempt ${task.attempt} of task ${task.id} did not end within its time limit` };
    dropHold(board, tools, task, { code: error.code, reason: error.message });
    failAttempt(board, tools, run, task, error, null);
    return;
  }
  if (lookAtPin(board, tools, run, node, task)) return;
  const waited = board.now - (task.readyAt ?? board.now);
  const blocker = task.phase === "parked" ? `concurrency key ${task.key} was held by others` : "no worker took it";
  failTask(
    board,
    tools,
    run,
    task,
    {
      code: "E.DISPATCH.UNAVAILABLE",
      message: `task ${task.id} waited ${waited} ms in queue: ${blocker}`,
      details: { waitedMs: waited, reasons: reasonsFor(tools, task) },
    },
    null,
  );
}
