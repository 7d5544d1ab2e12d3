// The audit: who did what to what, and how it ended, as a fact beside the deed and in its unit. A deed that was refused leaves nothing
// but this. Starts and dispatches have no entry of their own: `run.created` and `task.granted` say the same.

import { Fault } from "@astraflow/protocol";
import type { AuditWords, Command } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type Key, type RunRow, type Tenant, workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { shownOrder } from "../crew/command-book.ts";

/** Something that is kept in the audit, and who asked for it. */
export interface Deed extends AuditWords {
  readonly tenant: Tenant;
  readonly by: string;
  readonly corr?: string | undefined;
}

/** Whom a deed is about: its log gets the entry. A run speaks for itself and its tasks, anything else by its key, which the turn holds. */
export type Subject = RunRow | Key;

function audit(board: Board, subject: Subject, deed: Deed, outcome: string): void {
  const { action, target, targetType, by, corr, data } = deed;
  const words = { ...data, by, ...(corr === undefined ? {} : { corr }), target, targetType, outcome };
  if (typeof subject === "string") board.say(deed.tenant, subject, `audit.${action}`, words);
  else board.tell(subject, `audit.${action}`, words);
}

/**
 * Does `work` and says so. A refusal undoes whatever the work had written before it refused, and is said with its code; where nothing of
 * the tenant is there to say it about (`subject` is null) nobody learns that somebody asked.
 */
export function audited(
  board: Board,
  deed: Deed,
  subject: () => Subject | null,
  work: () => AnswerBody | Fault,
): AnswerBody | Fault {
  const said = whole(board, work);
  const about = subject();
  if (about !== null) audit(board, about, deed, said instanceof Fault ? said.code : (deed.outcome ?? "ok"));
  return said;
}

/** What the audit says of a command; null for commands that are not kept there, or that say themselves what is. */
export function deedOf(command: Command): Deed | null {
  const about = aboutOf(command);
  if (about === null || !("by" in command)) return null;
  return { ...about, tenant: command.tenant, by: command.by, corr: "corr" in command ? command.corr : undefined };
}

function aboutOf(command: Command): AuditWords | null {
  switch (command.type) {
    case "run.cancel":
      return onRun(command, { reason: command.reason });
    case "run.skip":
    case "run.retry":
      return onRun(command, { node: command.node, reason: command.reason });
    case "run.rebind":
      return onRun(command, { node: command.node, worker: command.worker, mode: command.mode });
    case "worker.drain":
      return onWorker(command, command.on ? "worker.drain" : "worker.undrain", commandWord(command));
    case "worker.kick":
      return onWorker(command, "worker.kick", { reason: command.reason, ...commandWord(command) });
    case "worker.order": {
      const { type, ...data } = shownOrder(command.order);
      return onWorker(command, type, { ...data, command: command.id });
    }
    case "worker.noted": {
      const { type, ...data } = command.order;
      const words = onWorker(command, `worker.${type}`, { ...data, command: command.id });
      return command.error === null ? words : { ...words, outcome: command.error.code };
    }
    case "worker.enrol":
      // A sign of life is no deed.
      return command.about === null ? null : onWorker(command, "worker.enrol", { name: command.name });
    default:
      return null;
  }
}

const commandWord = ({ command }: { command?: string }): { command?: string } => (command === undefined ? {} : { command });

const onRun = ({ type, run }: { type: string; run: string }, data: AuditWords["data"] & object): AuditWords => ({
  action: type,
  targetType: "run",
  target: run,
  data,
});

function onWorker(command: { tenant: Tenant; worker: string }, action: string, data: AuditWords["data"] & object): AuditWords {
  return { action, targetType: "worker", target: command.worker.slice(command.tenant.length + 1), data };
}

/** The run or worker that a command is about, if it is there and of the caller's own tenant. */
export function subjectOf(board: Board, command: Command): Subject | null {
  if ("run" in command) {
    const run = board.run(command.run);
    return run !== null && run.tenant === command.tenant ? run : null;
  }
  if (!("worker" in command)) return null;
  const worker = board.worker(command.worker);
  return worker !== null && worker.tenant === command.tenant ? workerKey(worker.id) : null;
}

/** Work that refuses has changed nothing. */
export function whole(board: Board, work: () => AnswerBody | Fault): AnswerBody | Fault {
  const mark = board.mark();
  const said = work();
  if (said instanceof Fault) board.undo(mark);
  return said;
}
