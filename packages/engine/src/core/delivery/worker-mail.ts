// Words for workers whose socket another scheduler holds: written as mail with the unit that made them true, delivered by the scheduler
// that holds the socket. Mail makes it quick; what makes it certain is the worker's next heartbeat, which is compared with the rows.

import { fault } from "@astraflow/protocol";
import type { PackageCommand, VendorFrame } from "../../interface/command.ts";
import type { Mail, QueueName, RunId, TaskId, TaskRow, WorkerId, WorkerRow } from "../../storage/rows.ts";
import { workerKey } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/fleet.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { RootRef } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { type NextRequestAnswer, sendNextAnswer } from "./next-answer.ts";
import { acknowledgesDrains, drainStateAfterTurn, sendDrain } from "./resource-pressure.ts";
import { dropAttempt, waitingChange } from "./waiting-attempts.ts";

export interface StopReason {
  readonly code: string;
  readonly reason: string;
}

/** What a letter says; which session it is for is known where the socket is. */
type WorkerMail =
  | ({ readonly of: "stop"; readonly run: RunId; readonly task: TaskId; readonly fence: number } & StopReason)
  /** For every session of the worker that joined before this epoch, or, inclusively, with it. */
  | ({ readonly of: "reset"; readonly epoch: number } & StopReason)
  | { readonly of: "drain"; readonly reason: string }
  /** The answer to a call of a middleware; `waitsForChainCall`: it has others open. */
  | ({
      readonly of: "next";
      readonly run: RunId;
      readonly task: TaskId;
      readonly fence: number;
      readonly node: string;
      readonly isWaiting: boolean;
    } & NextRequestAnswer)
  | { readonly of: "tell"; readonly epoch: number; readonly frame: VendorFrame }
  /** Somebody stands in a line that only this worker serves. */
  | { readonly of: "line"; readonly line: QueueName }
  | { readonly of: "order"; readonly epoch: number; readonly id: string; readonly order: PackageCommand };

type AddressedMail = WorkerMail & { readonly worker: WorkerId };

/** Tells the holder of an attempt, wherever its socket is, that the attempt is no longer wanted. */
export function mailStop(work: UnitOfWork, context: DecisionContext, task: TaskRow, reason: StopReason): void {
  if (task.worker === null) return;
  const worker = work.peekWorker(task.worker);
  if (worker === null || worker.phase !== "online" || isConnectedHere(context, worker)) return;
  mailToWorker(work, worker, task.run, `stop ${task.id}#${task.fence}`, {
    of: "stop",
    run: task.run,
    task: task.id,
    fence: task.fence,
    ...reason,
  });
}

/** The answer that a middleware waits for, to wherever its socket is. Where it has none the row owes it. */
export function mailNextAnswer(
  work: UnitOfWork,
  context: DecisionContext,
  task: TaskRow,
  answer: NextRequestAnswer & { readonly node: string; readonly isWaiting: boolean },
): void {
  if (task.worker === null) return;
  const worker = work.peekWorker(task.worker);
  if (worker === null || worker.phase !== "online" || isConnectedHere(context, worker)) return;
  mailToWorker(work, worker, task.run, `next ${task.id}#${task.fence} ${answer.request}`, {
    of: "next",
    run: task.run,
    task: task.id,
    fence: task.fence,
    ...answer,
  });
}

/** Asks for the addresses that stops for these attempts will need, all at once: one by one each would cost a round of its own. */
export function requireHolderAddresses(work: UnitOfWork, context: DecisionContext, tasks: readonly TaskRow[]): void {
  const workers = new Set<WorkerId>();
  for (const { phase, worker } of tasks)
    if (phase === "leased" && worker !== null && !context.fleet.workers.has(worker)) workers.add(worker);
  work.requirePeekedWorkers(workers);
}

/** Ends the worker's session of that epoch or earlier, if another scheduler still keeps one. */
export function mailReset(work: UnitOfWork, context: DecisionContext, worker: WorkerRow, reason: StopReason): void {
  if (isConnectedHere(context, worker)) return;
  mailToWorker(work, worker, workerKey(worker.id), `reset ${worker.id} ${worker.epoch}`, {
    of: "reset",
    epoch: worker.epoch,
    ...reason,
  });
}

export function mailDrain(work: UnitOfWork, context: DecisionContext, worker: WorkerRow, reason: string): void {
  if (isConnectedHere(context, worker) || worker.phase !== "online") return;
  const id = `drain ${worker.id} ${context.nextId(work.now)}`;
  mailToWorker(work, worker, workerKey(worker.id), id, { of: "drain", reason });
}

/** False where nobody holds a socket of it: the worker is not online, or is thought to be here and is not. */
export function mailVendorFrame(work: UnitOfWork, context: DecisionContext, worker: WorkerRow, frame: VendorFrame): boolean {
  if (isConnectedHere(context, worker) || worker.phase !== "online") return false;
  const id = `tell ${worker.id} ${context.nextId(work.now)}`;
  mailToWorker(work, worker, workerKey(worker.id), id, { of: "tell", epoch: worker.epoch, frame });
  return true;
}

/** A task waits for this worker alone: hints may be lost, and nobody but the scheduler that holds its socket can grant it. */
export function mailQueueHint(work: UnitOfWork, context: DecisionContext, worker: WorkerRow, run: RunId, queue: QueueName): void {
  if (isConnectedHere(context, worker) || worker.phase !== "online") return;
  mailToWorker(work, worker, run, `line ${queue}`, { of: "line", line: queue });
}

/** False where nobody holds a socket of it. */
export function mailWorkerCommand(
  work: UnitOfWork,
  context: DecisionContext,
  worker: WorkerRow,
  issued: { id: string; order: PackageCommand },
): boolean {
  if (isConnectedHere(context, worker) || worker.phase !== "online") return false;
  mailToWorker(work, worker, workerKey(worker.id), `order ${worker.id} ${issued.id}`, {
    of: "order",
    epoch: worker.epoch,
    ...issued,
  });
  return true;
}

function isConnectedHere(context: DecisionContext, worker: WorkerRow): boolean {
  return worker.replica === context.self.replica && worker.replicaEpoch === context.self.epoch;
}

function mailToWorker(work: UnitOfWork, to: WorkerRow, root: RootRef, id: string, message: WorkerMail): void {
  const addressedMail: AddressedMail = { ...message, worker: to.id };
  work.sendMail(root, { replica: to.replica, epoch: to.replicaEpoch, id, body: JSON.stringify(addressedMail) });
}

/**
 * One letter that came for a socket of this scheduler. A worker that sits here no longer has been told by its new join. What the letter
 * says was true when it was written; whether it still concerns this connected worker is read from the connected worker, and nothing but effects follows from it.
 */
export function handleMail(work: UnitOfWork, context: DecisionContext, mail: Mail): void {
  const message = JSON.parse(mail.body) as AddressedMail;
  const connected = context.fleet.workers.get(message.worker);
  if (connected === undefined) return;
  switch (message.of) {
    case "stop":
      return stopAttempt(work, connected, message.task, message.fence, message);
    case "next": {
      const attempt = connected.attempts.get(message.task);
      if (attempt?.fence !== message.fence) return;
      // Said in any case: the turn in which it asked may be pending still, and the connected worker does not show yet that it waits.
      if (!message.isWaiting) work.changeFleet(waitingChange(connected, attempt, false));
      const { request, result, error, trace } = message;
      return sendNextAnswer(work, connected, { id: message.task, run: message.run }, message.node, {
        request,
        result,
        error,
        trace,
      });
    }
    case "reset":
      if (connected.epoch > message.epoch) return;
      work.changeFleet({ move: "rise", worker: connected.worker, session: connected.session });
      work.emit({
        type: "reset",
        session: connected.session,
        worker: connected.worker,
        code: message.code,
        reason: message.reason,
      });
      return;
    case "drain": {
      // It may have been undrained here since the letter was written: the row is asked, the letter is only the reason to ask.
      const on = work.peekWorker(connected.worker)?.draining ?? connected.draining;
      const isNews = drainStateAfterTurn(work, connected).draining !== on;
      if (isNews) work.changeFleet({ move: "drain", worker: connected.worker, on });
      // A drain that was taken back on its way here is no news, but its commands wait for the worker's word; who never gives one is left alone.
      if (isNews || acknowledgesDrains(connected.about)) sendDrain(work, connected, on, message.reason);
      return;
    }
    case "tell":
      // Meant for the session it was written to; a newer one of the worker may be another process.
      if (connected.epoch !== message.epoch) return;
      work.emit({
        type: "tell",
        session: connected.session,
        worker: connected.worker,
        tenant: connected.tenant,
        frame: message.frame,
      });
      return;
    case "line":
      work.changeFleet({ move: "heat", line: message.line });
      return;
    case "order":
      // Whoever joined since, or went on over a new socket, was told then.
      if (connected.epoch !== message.epoch) return;
      work.emit({
        type: "order",
        session: connected.session,
        worker: connected.worker,
        tenant: connected.tenant,
        id: message.id,
        order: message.order,
      });
      return;
    default:
      throw fault("E.INTERNAL", `mail ${mail.id} holds a letter that cannot be read`);
  }
}

/** The connected worker's hold is over, by another scheduler's hand: the slot is free and the worker is told. */
export function stopAttempt(work: UnitOfWork, connected: ConnectedWorker, task: TaskId, fence: number, reason: StopReason): void {
  const attempt = connected.attempts.get(task);
  if (attempt?.fence !== fence) return;
  if (work.fleetChanges.some((change) => change.move === "drop" && change.task === task && change.fence === fence)) return;
  dropAttempt(work, connected, attempt);
  work.emit({
    type: "stop",
    session: connected.session,
    worker: connected.worker,
    tenant: connected.tenant,
    run: attempt.run,
    task,
    fence,
    code: reason.code,
    reason: reason.reason,
  });
}
