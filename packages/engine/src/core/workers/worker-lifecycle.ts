// Workers that change, leave, are drained, kicked or sent a vendor's frame; the end of a boot's lease and what becomes of its attempts.

import { type Fault, fault } from "@astraflow/protocol";
import type {
  DescribeWorkerCommand,
  DrainWorkerCommand,
  KickWorkerCommand,
  LeaveWorkerCommand,
  RelayVendorFrameCommand,
  WorkerDescription,
} from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { workerTimings } from "../../interface/settings.ts";
import { type TaskId, type WorkerRow, workerKey } from "../../storage/rows.ts";
import { findConnectedWorker, findOwnWorker, findSession, unknownSession } from "../delivery/find-worker.ts";
import { acknowledgesDrains, sendDrain } from "../delivery/resource-pressure.ts";
import { endSession } from "../delivery/session-messages.ts";
import { mailDrain, mailReset, mailVendorFrame } from "../delivery/worker-mail.ts";
import { readDescription } from "../fleet/route.ts";
import { repinAfterLoss } from "../placement/pins.ts";
import { takeBackAttempt } from "../progress/end-attempt.ts";
import { applyWorkerTransition, isGone, stepWorker } from "../rows/worker.ts";
import { readCondition, writeCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { findCommandTarget, openCommand, recordEndedCommand, refuseTooManyOpen } from "./command-records.ts";
import { closeFulfilledCommands, failOpenCommands } from "./issued-commands.ts";
import { describedData, withKnownPackages } from "./package-changes.ts";
import { tasksPinnedTo } from "./removed-resource.ts";

export function describeWorker(work: UnitOfWork, command: DescribeWorkerCommand): AnswerBody | Fault {
  const found = findSession(work, command);
  if (found === null) return unknownSession(command.worker);
  const { connected, row } = found;
  const about = withKnownPackages(command, row.about);
  const moved = stepWorker(row, { type: "describe", about: JSON.stringify(about) }, work.now);
  if (!("kind" in moved)) return moved;
  work.put(moved);
  closeFulfilledCommands(work, moved, about, false);
  work.recordFact(row.tenant, workerKey(row.id), "worker.described", describedData(row.about, about));
  work.changeFleet({ type: "describe", worker: connected.worker, about });
  return { of: "worker", worker: connected.worker, draining: row.draining };
}

/** The socket is gone; the lease runs on, and the attempts may too. */
export function leaveWorker(work: UnitOfWork, command: LeaveWorkerCommand): AnswerBody | Fault {
  const connected = work.fleet.workerInSession(command.worker, command.session);
  if (connected === null) return { of: "word", applied: false };
  work.changeFleet({ type: "disconnect", worker: connected.worker, session: connected.session });
  const row = work.worker(command.worker);
  if (row !== null && row.phase === "online" && row.epoch === connected.epoch) {
    // One that holds something has not finished, whatever it said: it may come back with the results.
    const hasLeft = command.isOrderly === true && connected.attempts.size === 0;
    const condition = hasLeft ? writeCondition({ ...readCondition(row.condition), hasLeft }) : row.condition;
    work.moveWorker(applyWorkerTransition(row, { type: "note", condition }, work.now), { type: "leave" });
    const data = { reason: command.reason, held: connected.attempts.size, ...(hasLeft && { final: true }) };
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.left", data);
  }
  return { of: "word", applied: true };
}

export function drainWorker(work: UnitOfWork, command: DrainWorkerCommand): AnswerBody | Fault {
  const row = findCommandTarget(work, command, command.command);
  if (!("kind" in row)) return row;
  const isChange = row.draining !== command.on;
  const moved = applyWorkerTransition(row, { type: "drain", on: command.on }, work.now);
  if (isChange) {
    const connected = findConnectedWorker(work, row);
    work.put(moved);
    work.recordFact(command.tenant, workerKey(row.id), command.on ? "worker.draining" : "worker.undrained", { by: command.by });
    work.changeFleet({ type: "drain", worker: row.id, on: command.on });
    if (connected !== null) sendDrain(work, connected, command.on, `asked by ${command.by}`);
    else mailDrain(work, row, `asked by ${command.by}`);
  }
  if (command.command !== undefined) recordDrainCommand(work, moved, { ...command, command: command.command }, isChange);
  return { of: "worker", worker: row.id, draining: command.on, at: work.now };
}

/** Open until the worker acknowledges it, if it will; otherwise done: the scheduler keeps to it in any case. */
function recordDrainCommand(
  work: UnitOfWork,
  row: WorkerRow,
  { command, on, by, corr }: DrainWorkerCommand & { command: string },
  isChange: boolean,
): void {
  const issued = { id: command, order: { type: on ? "drain" : "undrain" }, by, corr } as const;
  if (!isChange) return recordEndedCommand(work, row, issued, { details: { unchanged: true } });
  if (row.phase !== "online") return recordEndedCommand(work, row, issued, { details: { kept: true } });
  if (willAcknowledgeDrain(row) && refuseTooManyOpen(row, issued) === null) openCommand(work, row, issued);
  else recordEndedCommand(work, row, issued);
}

/** A worker under resource pressure drains already and is not told. */
const willAcknowledgeDrain = (row: WorkerRow): boolean =>
  acknowledgesDrains(readDescription(row)) && readCondition(row.condition).strain === null;

/** Ends the worker's session, wherever its socket is; it cannot be resumed. Its attempts stay its own while the lease lasts. */
export function kickWorker(work: UnitOfWork, command: KickWorkerCommand): AnswerBody | Fault {
  const row = findCommandTarget(work, command, command.command);
  if (!("kind" in row)) return row;
  const why = { code: "E.AUTH.INVALID_TOKEN", reason: `kicked by ${command.by}: ${command.reason}` };
  const connected = findConnectedWorker(work, row);
  const condition = writeCondition({ ...readCondition(row.condition), session: null });
  const noted = applyWorkerTransition(row, { type: "note", condition }, work.now);
  work.put(row.phase === "online" ? applyWorkerTransition(noted, { type: "leave" }, work.now) : noted);
  work.recordFact(command.tenant, workerKey(row.id), "worker.kicked", { by: command.by, reason: command.reason });
  if (connected !== null) endSession(work, connected, why);
  else mailReset(work, row, why);
  // Done with this commit, wherever its socket is: the session cannot be resumed, and its next heartbeat is refused. Outcomes that the
  // scheduler with its socket receives before the mail count: the attempts are still its own.
  const { command: id, by, corr, reason } = command;
  const issued = { order: { type: "kick", reason }, by, corr } as const;
  if (id !== undefined) recordEndedCommand(work, row, { id, ...issued }, { details: { hadSession: row.phase === "online" } });
  return { of: "worker", worker: row.id, draining: row.draining, at: work.now };
}

/** Not stored: a worker that is not connected does not get it later. */
export function relayVendorFrame(work: UnitOfWork, command: RelayVendorFrameCommand): AnswerBody | Fault {
  const row = findOwnWorker(work, command);
  if (!("kind" in row)) return row;
  const connected = findConnectedWorker(work, row);
  if (connected !== null)
    work.emit({ type: "tell", session: connected.session, worker: row.id, tenant: row.tenant, frame: command.frame });
  else if (!mailVendorFrame(work, row, command.frame))
    return fault(
      "E.SESSION.UNKNOWN",
      `worker ${row.name} is ${isGone(row) ? row.phase : "not connected"}; nothing was sent to it`,
      { worker: row.name, phase: row.phase },
    );
  return { of: "word", applied: true };
}

/** The boot's lease is over: its attempts and the tasks pinned to it are taken back, some per turn; the row is due until none is left. */
export function expireWorker(work: UnitOfWork, worker: WorkerRow, backAt: number): TaskId[] {
  const { dialect = "" } = JSON.parse(worker.about) as Partial<WorkerDescription>;
  const graceUntil = backAt + workerTimings(work.settings, worker.tenant, dialect).leaseMs;
  if (work.now < graceUntil && !isGone(worker)) {
    work.moveWorker(worker, { type: "forgive", until: graceUntil });
    return [];
  }
  const limit = work.settings.sweepTasksMax;
  const leased = work.tasksHeldBy(worker.id, limit);
  const held = leased.length < limit ? [...leased, ...tasksPinnedTo(work, worker, limit - leased.length)] : leased;
  const silent = isGone(worker) ? worker : failOpenCommands(work, worker);
  const hasLeft = worker.phase !== "lost" && leased.length === 0 && readCondition(worker.condition).hasLeft === true;
  work.moveWorker(silent, { type: "expire", again: held.length === 0 ? null : work.now, hasLeft });
  if (!isGone(worker)) {
    const data = { boot: worker.boot, held: leased.length };
    work.recordFact(worker.tenant, workerKey(worker.id), hasLeft ? "worker.gone" : "worker.lost", data);
    const connected = work.fleet.workers.get(worker.id);
    const why = { code: "E.SESSION.STALE_BINDING", reason: "lease expired" };
    if (connected !== undefined) endSession(work, connected, why);
    else mailReset(work, worker, why);
    work.changeFleet({ type: "lose", worker: worker.id });
  }
  return held;
}

/** One attempt of a lost worker is queued again; a task that waited for it is pinned anew, or fails where that is impossible. */
export function takeBackFromLostWorker(work: UnitOfWork, id: TaskId, worker: WorkerRow): boolean {
  const task = work.task(id);
  if (task?.phase === "ready" && task.pin === worker.id) return repinAfterLoss(work, task, worker);
  if (task === null || task.phase !== "leased" || task.worker !== worker.id) return true;
  // Taken over meanwhile: a worker that joined again has settled its own attempts.
  const present = work.worker(worker.id);
  if (present === null || !isGone(present)) return true;
  const run = work.run(task.run);
  if (run === null || run.phase === "ending") return false;
  takeBackAttempt(work, run, task, { code: "E.WORKER.LOST", message: `worker ${worker.name} fell silent` });
  return true;
}
