// The audit: who did what to what, and how it ended, as a fact beside the action and in its unit. A action that was refused leaves nothing
// but this. Starts and dispatches have no entry of their own: `run.created` and `task.granted` say the same.

import { Fault } from "@astraflow/protocol";
import type { AuditEntry, Command } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type RowKey, type RunRow, type Tenant, workerKey } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { redactCommand } from "../workers/command-records.ts";

/** Something that is kept in the audit, and who asked for it. */
export interface AuditedAction extends AuditEntry {
  readonly tenant: Tenant;
  readonly by: string;
  readonly corr?: string | undefined;
}

/** Whom a action is about: its log gets the entry. A run speaks for itself and its tasks, anything else by its key, which the turn holds. */
export type AuditSubject = RunRow | RowKey;

function recordAudit(work: UnitOfWork, subject: AuditSubject, auditedAction: AuditedAction, outcome: string): void {
  const { action, target, targetType, by, corr, data } = auditedAction;
  const fields = { ...data, by, ...(corr === undefined ? {} : { corr }), target, targetType, outcome };
  if (typeof subject === "string") work.recordFact(auditedAction.tenant, subject, `audit.${action}`, fields);
  else work.recordRunFact(subject, `audit.${action}`, fields);
}

/**
 * Does `work` and says so. A refusal undoes whatever the work had written before it refused, and is said with its code; where nothing of
 * the tenant is there to say it about (`subject` is null) nobody learns that somebody asked.
 */
export function withAudit(
  board: UnitOfWork,
  auditedAction: AuditedAction,
  subject: () => AuditSubject | null,
  perform: () => AnswerBody | Fault,
): AnswerBody | Fault {
  const answer = allOrNothing(board, perform);
  const about = subject();
  if (about !== null)
    recordAudit(board, about, auditedAction, answer instanceof Fault ? answer.code : (auditedAction.outcome ?? "ok"));
  return answer;
}

/** What the audit says of a command; null for commands that are not kept there, or that say themselves what is. */
export function auditedActionOf(command: Command): AuditedAction | null {
  const about = auditEntryOf(command);
  if (about === null || !("by" in command)) return null;
  return { ...about, tenant: command.tenant, by: command.by, corr: "corr" in command ? command.corr : undefined };
}

function auditEntryOf(command: Command): AuditEntry | null {
  switch (command.type) {
    case "run.cancel":
      return runEntry(command, { reason: command.reason });
    case "run.skip":
    case "run.retry":
      return runEntry(command, { node: command.node, reason: command.reason });
    case "run.rebind":
      return runEntry(command, { node: command.node, worker: command.worker, mode: command.mode });
    case "worker.drain":
      return workerEntry(command, command.on ? "worker.drain" : "worker.undrain", commandField(command));
    case "worker.kick":
      return workerEntry(command, "worker.kick", { reason: command.reason, ...commandField(command) });
    case "worker.order": {
      const { type, ...data } = redactCommand(command.order);
      return workerEntry(command, type, { ...data, command: command.id });
    }
    case "worker.noted": {
      const { type, ...data } = command.order;
      const fields = workerEntry(command, `worker.${type}`, { ...data, command: command.id });
      return command.error === null ? fields : { ...fields, outcome: command.error.code };
    }
    case "worker.enrol":
      // A sign of life is no action.
      return command.about === null ? null : workerEntry(command, "worker.enrol", { name: command.name });
    default:
      return null;
  }
}

const commandField = ({ command }: { command?: string }): { command?: string } => (command === undefined ? {} : { command });

const runEntry = ({ type, run }: { type: string; run: string }, data: AuditEntry["data"] & object): AuditEntry => ({
  action: type,
  targetType: "run",
  target: run,
  data,
});

function workerEntry(command: { tenant: Tenant; worker: string }, action: string, data: AuditEntry["data"] & object): AuditEntry {
  return { action, targetType: "worker", target: command.worker.slice(command.tenant.length + 1), data };
}

/** The run or worker that a command is about, if it is there and of the caller's own tenant. */
export function auditSubjectOf(work: UnitOfWork, command: Command): AuditSubject | null {
  if ("run" in command) {
    const run = work.run(command.run);
    return run !== null && run.tenant === command.tenant ? run : null;
  }
  if (!("worker" in command)) return null;
  const worker = work.worker(command.worker);
  return worker !== null && worker.tenant === command.tenant ? workerKey(worker.id) : null;
}

/** Work that refuses has changed nothing. */
export function allOrNothing(board: UnitOfWork, perform: () => AnswerBody | Fault): AnswerBody | Fault {
  const savepoint = board.savepoint();
  const answer = perform();
  if (answer instanceof Fault) board.rollbackTo(savepoint);
  return answer;
}
