// One command to one decision: the table of who decides what, and which rows each needs at the first look.

import { type Fault, fault } from "@astraflow/protocol";
import type { Command } from "../interface/command.ts";
import type { AnswerBody } from "../interface/effect.ts";
import type { TaskListQuery } from "../storage/port.ts";
import { docKey, type RowKey, type RunId, runKey, runOf, type TaskId, taskKey, workerKey } from "../storage/rows.ts";
import { auditedActionOf, auditSubjectOf, withAudit } from "./operations/audit.ts";
import { writeDocs } from "./operations/documents.ts";
import { idempotencyKeyOf, runOnce } from "./operations/idempotency.ts";
import { rebindRun } from "./operations/rebind.ts";
import { retryNode, skipNode } from "./operations/skip-retry.ts";
import { cancelRun, startRun } from "./operations/start-cancel-run.ts";
import { handleAcks, handleError, handleResult } from "./reports/acks-and-outcomes.ts";
import { handleFeedback } from "./reports/feedback.ts";
import { handleNextRequest } from "./reports/next-requests.ts";
import { enclosingSlots, isTopLevelNode, logicalSlot, slotOf, taskIdAt } from "./rows/slot.ts";
import type { DecisionContext } from "./unit-of-work/decision-context.ts";
import type { UnitOfWork } from "./unit-of-work/unit-of-work.ts";
import { enrolWorker } from "./workers/enrolment.ts";
import { recordHeartbeat } from "./workers/heartbeat.ts";
import { handleDrainAck, handlePackageReport, issueWorkerCommand, recordWorkerCommand } from "./workers/issued-commands.ts";
import { joinWorker } from "./workers/join.ts";
import { heldAttemptsMax } from "./workers/reconcile.ts";
import { handleResourceRemoved } from "./workers/removed-resource.ts";
import { describeWorker, drainWorker, kickWorker, leaveWorker, relayVendorFrame } from "./workers/worker-lifecycle.ts";

/** What callers order of runs and workers is kept in the audit, in the unit of the action; documents bring their own words for it. */
export function decide(board: UnitOfWork, context: DecisionContext, command: Command, newRun: RunId | null): AnswerBody | Fault {
  const auditedAction = auditedActionOf(command);
  if (auditedAction === null && idempotencyKeyOf(command) === null) return decideCommand(board, context, command, newRun);
  const perform = () => decideCommand(board, context, command, newRun);
  return runOnce(board, command, () =>
    auditedAction === null ? perform() : withAudit(board, auditedAction, () => auditSubjectOf(board, command), perform),
  );
}

function decideCommand(work: UnitOfWork, context: DecisionContext, command: Command, newRun: RunId | null): AnswerBody | Fault {
  switch (command.type) {
    case "run.start":
      return newRun === null
        ? fault("E.INTERNAL", "a run was ordered without an id for it")
        : startRun(work, context, command, newRun);
    case "run.cancel":
      return cancelRun(work, context, command);
    case "run.skip":
      return skipNode(work, context, command);
    case "run.retry":
      return retryNode(work, context, command);
    case "run.rebind":
      return rebindRun(work, context, command);
    case "docs.write":
      return writeDocs(work, context, command);
    case "worker.enrol":
      return enrolWorker(work, context, command);
    case "worker.order":
      return issueWorkerCommand(work, context, command);
    case "worker.noted":
      return recordWorkerCommand(work, context, command);
    case "worker.heard":
      return handleDrainAck(work, context, command);
    case "worker.package":
      return handlePackageReport(work, context, command);
    case "resource.removed":
      return handleResourceRemoved(work, context, command);
    case "task.next":
      return handleNextRequest(work, context, command);
    case "worker.join":
      return joinWorker(work, context, command);
    case "worker.beat":
      return recordHeartbeat(work, context, command);
    case "worker.describe":
      return describeWorker(work, context, command);
    case "worker.leave":
      return leaveWorker(work, context, command);
    case "worker.drain":
      return drainWorker(work, context, command);
    case "worker.kick":
      return kickWorker(work, context, command);
    case "worker.tell":
      return relayVendorFrame(work, context, command);
    case "task.ack":
      return handleAcks(work, context, command);
    case "task.feedback":
      return handleFeedback(work, context, command);
    case "task.result":
      return handleResult(work, context, command);
    case "task.error":
      return handleError(work, context, command);
  }
}

/** Lists a command is known to need. */
export function listsNeededBy(command: Command): TaskListQuery[] {
  if (command.type !== "worker.beat" && command.type !== "worker.join") return [];
  return [{ of: "held", worker: command.worker, limit: heldAttemptsMax }];
}

function idempotencyRowKeys(command: Command): RowKey[] {
  const idempotencyKey = idempotencyKeyOf(command);
  return idempotencyKey === null ? [] : [`ask/${command.tenant}/${idempotencyKey.key}`];
}

/** Rows a command is known to need; what it finds out later is asked for with `more`. */
export function rowsNeededBy(command: Command, newRun: RunId | null): RowKey[] {
  switch (command.type) {
    case "run.start": {
      const keys: RowKey[] = [`workflow/${command.tenant}/${command.digest}`];
      if (newRun !== null) keys.push(runKey(newRun));
      if (command.ask !== null) keys.push(`ask/${command.tenant}/${command.ask.key}`);
      return keys;
    }
    case "run.cancel":
    case "run.skip":
    case "run.retry":
    case "run.rebind":
      return [runKey(command.run), ...idempotencyRowKeys(command)];
    case "docs.write": {
      const keys = [...command.puts, ...(command.drops ?? [])].map(({ collection, name }) =>
        docKey(command.tenant, collection, name),
      );
      const idempotencyKey = command.ask ?? null;
      return idempotencyKey === null ? keys : [...keys, `ask/${command.tenant}/${idempotencyKey.key}`];
    }
    case "worker.order":
    case "worker.noted":
      return [workerKey(command.worker), docKey(command.tenant, "command", command.id), ...idempotencyRowKeys(command)];
    case "worker.drain":
    case "worker.kick": {
      const { tenant, worker, command: id } = command;
      return [workerKey(worker), ...(id === undefined ? [] : [docKey(tenant, "command", id)]), ...idempotencyRowKeys(command)];
    }
    case "resource.removed":
      return [workerKey(command.worker), docKey(command.tenant, "artifact", command.resource)];
    case "worker.enrol":
      return [workerKey(command.worker), ...idempotencyRowKeys(command)];
    case "worker.heard":
    case "worker.package":
    case "worker.join":
    case "worker.beat":
    case "worker.describe":
    case "worker.leave":
    case "worker.tell":
      return [workerKey(command.worker)];
    case "task.ack":
      return [];
    case "task.feedback":
      return [runKey(runOf(command.task)), taskKey(command.task)];
    case "task.result":
    case "task.error":
    case "task.next":
      return rowsForOutcome(command.task);
  }
}

/** A task with what counts down when it ends: its run, the frames and containers around it, and of a call its host. Its id names them all. */
function rowsForOutcome(task: TaskId): RowKey[] {
  const run = runOf(task);
  const slot = slotOf({ id: task, run });
  const keys = [runKey(run), taskKey(task)];
  if (isTopLevelNode(slot)) return keys;
  const logical = logicalSlot(slot);
  if (logical !== slot) keys.push(taskKey(taskIdAt(run, logical)));
  for (const one of enclosingSlots(slot)) keys.push(taskKey(taskIdAt(run, one)));
  return keys;
}
