// The audit: who did what to what, and how it ended, as a fact in the change set of the action. A refused action leaves only this fact.

import { Fault } from "@astraflow/protocol";
import type { AuditEntry, Command } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type RowKey, type RunId, type RunRow, type Tenant, workerKey } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** An audit entry, and who asked for the action. */
export interface AuditedAction extends AuditEntry {
  readonly tenant: Tenant;
  readonly by: string;
  readonly corr?: string | undefined;
}

/** Whose log gets the entry: a run, for itself and its tasks, or the key of another row that the turn holds. */
export type AuditSubject = RunRow | RowKey;

function recordAudit(work: UnitOfWork, subject: AuditSubject, auditedAction: AuditedAction, outcome: string): void {
  const { action, target, targetType, by, corr, data } = auditedAction;
  const fields = { ...data, by, ...(corr === undefined ? {} : { corr }), target, targetType, outcome };
  if (typeof subject === "string") work.recordFact(auditedAction.tenant, subject, `audit.${action}`, fields);
  else work.recordRunFact(subject, `audit.${action}`, fields);
}

/** Performs an action and records it; a refusal rolls it back and is recorded with its code. Without a subject nothing is recorded. */
export function withAudit(
  work: UnitOfWork,
  auditedAction: AuditedAction,
  subject: () => AuditSubject | null,
  perform: () => AnswerBody | Fault,
): AnswerBody | Fault {
  const answer = allOrNothing(work, perform);
  const about = subject();
  if (about !== null)
    recordAudit(work, about, auditedAction, answer instanceof Fault ? answer.code : (auditedAction.outcome ?? "ok"));
  return answer;
}

export const runEntry = ({ type, run }: { type: string; run: string }, data: AuditEntry["data"] & object): AuditEntry => ({
  action: type,
  targetType: "run",
  target: run,
  data,
});

export function workerEntry(
  command: { tenant: Tenant; worker: string },
  action: string,
  data: AuditEntry["data"] & object,
): AuditEntry {
  return { action, targetType: "worker", target: command.worker.slice(command.tenant.length + 1), data };
}

/** The run or worker that a command is about, if it is there and of the caller's own tenant. */
export function auditSubjectOf(work: UnitOfWork, command: Command): AuditSubject | null {
  if ("run" in command) return findOwnRun(work, command, command.run);
  if (!("worker" in command)) return null;
  const worker = work.worker(command.worker);
  return worker !== null && worker.tenant === command.tenant ? workerKey(worker.id) : null;
}

export function findOwnRun(work: UnitOfWork, { tenant }: { readonly tenant: Tenant }, id: RunId): RunRow | null {
  const run = work.run(id);
  return run?.tenant === tenant ? run : null;
}

/** An action that is refused changes nothing. */
export function allOrNothing(work: UnitOfWork, perform: () => AnswerBody | Fault): AnswerBody | Fault {
  const savepoint = work.savepoint();
  const answer = perform();
  if (answer instanceof Fault) work.rollbackTo(savepoint);
  return answer;
}
