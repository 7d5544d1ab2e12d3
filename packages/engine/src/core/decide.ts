// All commands in one table: who decides each, which rows and lists it needs at first, and what the audit records of it.

import { type Fault, fault } from "@astraflow/protocol";
import type { AuditEntry, Command, RetryNodeCommand, SkipNodeCommand } from "../interface/command.ts";
import type { AnswerBody } from "../interface/effect.ts";
import type { TaskListQuery } from "../storage/port.ts";
import { docKey, type RowKey, type RunId, runKey, runOf, type TaskId, taskKey, workerKey } from "../storage/rows.ts";
import { auditSubjectOf, runEntry, withAudit, workerEntry } from "./operations/audit.ts";
import { writeDocs } from "./operations/documents.ts";
import { idempotencyKeyOf, runOnce } from "./operations/idempotency.ts";
import { rebindRun } from "./operations/rebind.ts";
import { retryNode, skipNode } from "./operations/skip-retry.ts";
import { cancelRun, startRun } from "./operations/start-cancel-run.ts";
import { handleAcks, handleError, handleResult } from "./reports/acks-and-outcomes.ts";
import { handleFeedback } from "./reports/attempt-feedback.ts";
import { handleNextRequest } from "./reports/middleware-next-requests.ts";
import { enclosingPaths, isTopLevelNode, logicalPath, taskIdAt, taskPathOf } from "./rows/task-path.ts";
import { setWithdrawnPackages } from "./operations/withdrawn-packages.ts";
import type { UnitOfWork } from "./unit-of-work/unit-of-work.ts";
import { redactCommand } from "./workers/command-records.ts";
import { enrolWorker } from "./workers/enrolment.ts";
import { recordHeartbeat } from "./workers/heartbeat.ts";
import { handleDrainAck, handlePackageReport, issueWorkerCommand, recordWorkerCommand } from "./workers/issued-commands.ts";
import { joinWorker } from "./workers/join.ts";
import { heldAttemptsMax } from "./workers/reconcile.ts";
import { handleResourceRemoved } from "./workers/removed-resource.ts";
import { describeWorker, drainWorker, kickWorker, leaveWorker, relayVendorFrame } from "./workers/worker-lifecycle.ts";

interface CommandHandler<C extends Command> {
  /** `newRun` is the id chosen for a run that the command starts. */
  decide(work: UnitOfWork, command: C, newRun: RunId | null): AnswerBody | Fault;
  /** Rows that the command is known to need; what it finds out later is loaded in another round. */
  rows(command: C, newRun: RunId | null): RowKey[];
  lists?(command: C): TaskListQuery[];
  /** What the audit records of it, in the same change set; null where this one is not recorded. */
  audit?(command: C): AuditEntry | null;
}

type CommandHandlers = { readonly [T in Command["type"]]: CommandHandler<Extract<Command, { type: T }>> };

const workerRow = ({ worker }: { readonly worker: string }): RowKey[] => [workerKey(worker)];
const runRow = ({ run }: { readonly run: RunId }): RowKey[] => [runKey(run)];
const outcomeRows = ({ task }: { readonly task: TaskId }): RowKey[] => rowsForOutcome(task);
const heldTasks = ({ worker }: { readonly worker: string }): TaskListQuery[] => [{ of: "held", worker, limit: heldAttemptsMax }];
const nodeEntry = (command: SkipNodeCommand | RetryNodeCommand): AuditEntry =>
  runEntry(command, { node: command.node, reason: command.reason });
const commandField = ({ command }: { readonly command?: string }) => (command === undefined ? {} : { command });
const commandRows = (tenant: string, worker: string, id: string | undefined): RowKey[] =>
  id === undefined ? [workerKey(worker)] : [workerKey(worker), docKey(tenant, "command", id)];

const commandHandlers: CommandHandlers = {
  "run.start": {
    decide: (work, command, newRun) =>
      newRun === null ? fault("E.INTERNAL", "run.start without a run id") : startRun(work, command, newRun),
    rows: ({ tenant, digest }, newRun) => [`workflow/${tenant}/${digest}`, ...(newRun === null ? [] : [runKey(newRun)])],
  },
  "run.cancel": { decide: cancelRun, rows: runRow, audit: (command) => runEntry(command, { reason: command.reason }) },
  "run.skip": { decide: skipNode, rows: runRow, audit: nodeEntry },
  "run.retry": { decide: retryNode, rows: runRow, audit: nodeEntry },
  "run.rebind": {
    decide: rebindRun,
    rows: runRow,
    audit: (command) => runEntry(command, { node: command.node, worker: command.worker, mode: command.mode }),
  },
  // Documents bring their own audit entry.
  "docs.write": {
    decide: writeDocs,
    rows: ({ tenant, puts, drops = [] }) => [...puts, ...drops].map(({ collection, name }) => docKey(tenant, collection, name)),
  },
  "packages.withdrawn": { decide: setWithdrawnPackages, rows: () => [] },
  "worker.enrol": {
    decide: enrolWorker,
    rows: workerRow,
    // A sign of life is not recorded.
    audit: (command) => (command.about === null ? null : workerEntry(command, "worker.enrol", { name: command.name })),
  },
  "worker.order": {
    decide: issueWorkerCommand,
    rows: ({ tenant, worker, id }) => commandRows(tenant, worker, id),
    audit: (command) => {
      const { type, ...data } = redactCommand(command.order);
      return workerEntry(command, type, { ...data, command: command.id });
    },
  },
  "worker.noted": {
    decide: recordWorkerCommand,
    rows: ({ tenant, worker, id }) => commandRows(tenant, worker, id),
    audit: (command) => {
      const { type, ...data } = command.order;
      const entry = workerEntry(command, `worker.${type}`, { ...data, command: command.id });
      return command.error === null ? entry : { ...entry, outcome: command.error.code };
    },
  },
  "worker.drain": {
    decide: drainWorker,
    rows: ({ tenant, worker, command }) => commandRows(tenant, worker, command),
    audit: (command) => workerEntry(command, command.on ? "worker.drain" : "worker.undrain", commandField(command)),
  },
  "worker.kick": {
    decide: kickWorker,
    rows: ({ tenant, worker, command }) => commandRows(tenant, worker, command),
    audit: (command) => workerEntry(command, "worker.kick", { reason: command.reason, ...commandField(command) }),
  },
  "worker.heard": { decide: handleDrainAck, rows: workerRow },
  "worker.package": { decide: handlePackageReport, rows: workerRow },
  "worker.join": { decide: joinWorker, rows: workerRow, lists: heldTasks },
  "worker.beat": { decide: recordHeartbeat, rows: workerRow, lists: heldTasks },
  "worker.describe": { decide: describeWorker, rows: workerRow },
  "worker.leave": { decide: leaveWorker, rows: workerRow },
  "worker.tell": { decide: relayVendorFrame, rows: workerRow },
  "resource.removed": {
    decide: handleResourceRemoved,
    rows: ({ tenant, worker, resource }) => [workerKey(worker), docKey(tenant, "artifact", resource)],
  },
  "task.ack": { decide: handleAcks, rows: () => [] },
  "task.feedback": { decide: handleFeedback, rows: ({ task }) => [runKey(runOf(task)), taskKey(task)] },
  "task.result": { decide: handleResult, rows: outcomeRows },
  "task.error": { decide: handleError, rows: outcomeRows },
  "task.next": { decide: handleNextRequest, rows: outcomeRows },
};

/** The row of the table that belongs to a command; TypeScript cannot see that the two go together. */
const handlerOf = (command: Command): CommandHandler<Command> => commandHandlers[command.type] as CommandHandler<Command>;

export function decide(work: UnitOfWork, command: Command, newRun: RunId | null): AnswerBody | Fault {
  const handler = handlerOf(command);
  const entry = handler.audit?.(command) ?? null;
  if (entry === null && idempotencyKeyOf(command) === null) return handler.decide(work, command, newRun);
  const perform = () => handler.decide(work, command, newRun);
  return runOnce(work, command, () => {
    if (entry === null || !("by" in command)) return perform();
    const { tenant, by } = command;
    const action = { ...entry, tenant, by, corr: "corr" in command ? command.corr : undefined };
    return withAudit(work, action, () => auditSubjectOf(work, command), perform);
  });
}

export const listsNeededBy = (command: Command): TaskListQuery[] => handlerOf(command).lists?.(command) ?? [];

export function rowsNeededBy(command: Command, newRun: RunId | null): RowKey[] {
  const rows = handlerOf(command).rows(command, newRun);
  const ask = "ask" in command ? (command.ask ?? null) : null;
  if (ask !== null) rows.push(`ask/${command.tenant}/${ask.key}`);
  return rows;
}

/** A task with all that counts down when it ends: its run, the iterations and containers around it, and the host of a call. */
function rowsForOutcome(task: TaskId): RowKey[] {
  const run = runOf(task);
  const path = taskPathOf({ id: task, run });
  const keys = [runKey(run), taskKey(task)];
  if (isTopLevelNode(path)) return keys;
  const logical = logicalPath(path);
  if (logical !== path) keys.push(taskKey(taskIdAt(run, logical)));
  for (const one of enclosingPaths(path)) keys.push(taskKey(taskIdAt(run, one)));
  return keys;
}
