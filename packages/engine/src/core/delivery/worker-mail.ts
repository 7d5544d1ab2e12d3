// Messages for workers connected to another scheduler. Mail makes it quick; the next heartbeat, compared with the rows, makes it certain.

import { fault } from "@astraflow/protocol";
import type { PackageCommand, VendorFrame } from "../../interface/command.ts";
import type { LeasedTask, Mail, QueueName, RunId, TaskId, TaskRow, WorkerId, WorkerRow } from "../../storage/rows.ts";
import { workerKey } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import type { RootRef } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { acknowledgesDrains, drainStateAfterTurn, sendDrain } from "./resource-pressure.ts";
import {
  type AttemptStopReason,
  endSession,
  type MiddlewareCallResult,
  sendNextAnswer,
  stopAttempt,
} from "./session-messages.ts";
import { waitingChange } from "./waiting-attempts.ts";

/** Body of a mail; which session it is for is known where the socket is. Stored as JSON. */
type WorkerMail =
  | ({ readonly of: "stop"; readonly run: RunId; readonly task: TaskId; readonly fence: number } & AttemptStopReason)
  /** For every session of the worker that joined before this epoch, or, inclusively, with it. */
  | ({ readonly of: "reset"; readonly epoch: number } & AttemptStopReason)
  | { readonly of: "drain"; readonly reason: string }
  /** The answer to a call of a middleware; `isWaiting`: it has other calls open. */
  | ({
      readonly of: "next";
      readonly run: RunId;
      readonly task: TaskId;
      readonly fence: number;
      readonly node: string;
      readonly isWaiting: boolean;
    } & MiddlewareCallResult)
  | { readonly of: "tell"; readonly epoch: number; readonly frame: VendorFrame }
  /** A task waits in a queue that only this worker serves. */
  | { readonly of: "line"; readonly line: QueueName }
  | { readonly of: "order"; readonly epoch: number; readonly id: string; readonly order: PackageCommand };

type AddressedMail = WorkerMail & { readonly worker: WorkerId };

/** Tells the holder of an attempt, wherever its socket is, that the attempt is no longer wanted. */
export function mailStop(work: UnitOfWork, task: LeasedTask, reason: AttemptStopReason): void {
  const { id, run, fence } = task;
  mailToHolder(work, task, `stop ${id}#${fence}`, { of: "stop", run, task: id, fence, ...reason });
}

/** The answer that a middleware waits for, to wherever its socket is. Where it has none the row remembers that it is owed. */
export function mailNextAnswer(
  work: UnitOfWork,
  task: LeasedTask,
  answer: MiddlewareCallResult & { readonly node: string; readonly isWaiting: boolean },
): void {
  const { id, run, fence } = task;
  mailToHolder(work, task, `next ${id}#${fence} ${answer.request}`, { of: "next", run, task: id, fence, ...answer });
}

function mailToHolder(work: UnitOfWork, task: LeasedTask, id: string, message: WorkerMail): void {
  const worker = work.peekWorker(task.worker);
  if (worker !== null) mailToWorker(work, worker, id, message, task.run);
}

/** Requires the rows that stops for these attempts will need, all at once: one by one each would cost a round of its own. */
export function requireHolderAddresses(work: UnitOfWork, tasks: readonly TaskRow[]): void {
  const workers = new Set<WorkerId>();
  for (const task of tasks) if (task.phase === "leased" && !work.fleet.workers.has(task.worker)) workers.add(task.worker);
  work.requirePeekedWorkers(workers);
}

/** Ends the worker's session of that epoch or earlier, if another scheduler still has one. */
export const mailReset = (work: UnitOfWork, worker: WorkerRow, reason: AttemptStopReason): boolean =>
  mailToWorker(work, worker, `reset ${worker.id} ${worker.epoch}`, { of: "reset", epoch: worker.epoch, ...reason });

export const mailDrain = (work: UnitOfWork, worker: WorkerRow, reason: string): boolean =>
  mailToWorker(work, worker, `drain ${worker.id} ${work.nextId()}`, { of: "drain", reason });

export const mailVendorFrame = (work: UnitOfWork, worker: WorkerRow, frame: VendorFrame): boolean =>
  mailToWorker(work, worker, `tell ${worker.id} ${work.nextId()}`, { of: "tell", epoch: worker.epoch, frame });

/** A task waits for this worker alone: hints may be lost, and only the scheduler that holds its socket can grant it. */
export const mailQueueHint = (work: UnitOfWork, worker: WorkerRow, run: RunId, queue: QueueName): boolean =>
  mailToWorker(work, worker, `line ${queue}`, { of: "line", line: queue }, run);

export const mailWorkerCommand = (work: UnitOfWork, worker: WorkerRow, issued: { id: string; order: PackageCommand }): boolean =>
  mailToWorker(work, worker, `order ${worker.id} ${issued.id}`, { of: "order", epoch: worker.epoch, ...issued });

/** Written with the change set of `root`. False where no other scheduler holds a socket of the worker. */
function mailToWorker(
  work: UnitOfWork,
  to: WorkerRow,
  id: string,
  message: WorkerMail,
  root: RootRef = workerKey(to.id),
): boolean {
  const { replica, replicaEpoch: epoch } = to;
  if (to.phase !== "online" || (replica === work.self.replica && epoch === work.self.epoch)) return false;
  const addressedMail: AddressedMail = { ...message, worker: to.id };
  work.sendMail(root, { replica, epoch, id, body: JSON.stringify(addressedMail) });
  return true;
}

/** One message for a worker of this scheduler. Whether it still holds is read from the connected worker; only effects follow. */
export function handleMail(work: UnitOfWork, mail: Mail): void {
  const message = JSON.parse(mail.body) as AddressedMail;
  const connected = work.fleet.workers.get(message.worker);
  if (connected === undefined) return;
  const { session, worker, tenant } = connected;
  switch (message.of) {
    case "stop":
      return stopAttempt(work, connected, message, message);
    case "next":
      return deliverMailedAnswer(work, connected, message);
    case "reset":
      if (connected.epoch <= message.epoch) endSession(work, connected, message);
      return;
    case "drain":
      return deliverMailedDrain(work, connected, message.reason);
    case "tell":
      // Meant for the session it was written to: a newer session of the worker may be another process.
      if (connected.epoch === message.epoch) work.emit({ type: "tell", session, worker, tenant, frame: message.frame });
      return;
    case "line":
      work.changeFleet({ type: "activate", line: message.line });
      return;
    case "order":
      // A session that joined or resumed since was sent its open commands then.
      if (connected.epoch === message.epoch)
        work.emit({ type: "order", session, worker, tenant, id: message.id, order: message.order });
      return;
    default:
      throw fault("E.INTERNAL", `mail ${mail.id} has an unknown type`);
  }
}

function deliverMailedAnswer(work: UnitOfWork, connected: ConnectedWorker, message: Extract<WorkerMail, { of: "next" }>): void {
  const attempt = connected.attempts.get(message.task);
  if (attempt?.fence !== message.fence) return;
  // Recorded in any case: the turn in which it asked may still be pending, and the connected worker does not show yet that it waits.
  if (!message.isWaiting) work.changeFleet(waitingChange(connected, attempt, false));
  const { request, result, error, trace } = message;
  sendNextAnswer(work, connected, { id: message.task, run: message.run }, message.node, { request, result, error, trace });
}

function deliverMailedDrain(work: UnitOfWork, connected: ConnectedWorker, reason: string): void {
  // It may have been undrained here since the mail was written: the row decides, the mail is only the reason to look.
  const on = work.peekWorker(connected.worker)?.draining ?? connected.draining;
  const isNews = drainStateAfterTurn(work, connected).draining !== on;
  if (isNews) work.changeFleet({ type: "drain", worker: connected.worker, on });
  // A drain that was undone on its way here is not news, but its commands wait for the acknowledgement of workers that give one.
  if (isNews || acknowledgesDrains(connected.about)) sendDrain(work, connected, on, reason);
}
