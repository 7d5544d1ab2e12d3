// One command to one decision: the table of who decides what, and which rows each needs at the first look.

import { type Fault, fault } from "@astraflow/protocol";
import type { Command } from "../command.ts";
import type { AnswerBody } from "../effect.ts";
import type { TaskList } from "../port.ts";
import { docKey, type Key, type RunId, runKey, runOf, type TaskId, taskKey, workerKey } from "../rows.ts";
import type { Board } from "./board/board.ts";
import { hearNext } from "./chain/next.ts";
import { beatWorker } from "./crew/beat.ts";
import { describeWorker, drainWorker, kickWorker, leaveWorker, tellWorker } from "./crew/crew.ts";
import { enrolWorker } from "./crew/enrol.ts";
import { joinWorker } from "./crew/join.ts";
import { hearWorker, noteOrder, orderWorker, reportPackage } from "./crew/orders.ts";
import { heldMax } from "./crew/reconcile.ts";
import { cancelRun, startRun } from "./flow/order.ts";
import { removeResource } from "./place/removed.ts";
import { around, isTop, logicalOf, slotOf, taskAt } from "./rows/slot.ts";
import { askOf, once } from "./steer/again.ts";
import { audited, deedOf, subjectOf } from "./steer/audit.ts";
import { writeDocs } from "./steer/docs.ts";
import { rebindRun } from "./steer/rebind.ts";
import { retryNode, skipNode } from "./steer/steer.ts";
import type { Tools } from "./tools.ts";
import { hearFeedback } from "./word/feedback.ts";
import { hearAcks, hearError, hearResult } from "./word/word.ts";

/** What callers order of runs and workers is kept in the audit, in the unit of the deed; documents bring their own words for it. */
export function decide(board: Board, tools: Tools, command: Command, newRun: RunId | null): AnswerBody | Fault {
  const deed = deedOf(command);
  if (deed === null && askOf(command) === null) return decideOne(board, tools, command, newRun);
  const work = () => decideOne(board, tools, command, newRun);
  return once(board, command, () => (deed === null ? work() : audited(board, deed, () => subjectOf(board, command), work)));
}

function decideOne(board: Board, tools: Tools, command: Command, newRun: RunId | null): AnswerBody | Fault {
  switch (command.type) {
    case "run.start":
      return newRun === null
        ? fault("E.INTERNAL", "a run was ordered without an id for it")
        : startRun(board, tools, command, newRun);
    case "run.cancel":
      return cancelRun(board, tools, command);
    case "run.skip":
      return skipNode(board, tools, command);
    case "run.retry":
      return retryNode(board, tools, command);
    case "run.rebind":
      return rebindRun(board, tools, command);
    case "docs.write":
      return writeDocs(board, tools, command);
    case "worker.enrol":
      return enrolWorker(board, tools, command);
    case "worker.order":
      return orderWorker(board, tools, command);
    case "worker.noted":
      return noteOrder(board, tools, command);
    case "worker.heard":
      return hearWorker(board, tools, command);
    case "worker.package":
      return reportPackage(board, tools, command);
    case "resource.removed":
      return removeResource(board, tools, command);
    case "task.next":
      return hearNext(board, tools, command);
    case "worker.join":
      return joinWorker(board, tools, command);
    case "worker.beat":
      return beatWorker(board, tools, command);
    case "worker.describe":
      return describeWorker(board, tools, command);
    case "worker.leave":
      return leaveWorker(board, tools, command);
    case "worker.drain":
      return drainWorker(board, tools, command);
    case "worker.kick":
      return kickWorker(board, tools, command);
    case "worker.tell":
      return tellWorker(board, tools, command);
    case "task.ack":
      return hearAcks(board, tools, command);
    case "task.feedback":
      return hearFeedback(board, tools, command);
    case "task.result":
      return hearResult(board, tools, command);
    case "task.error":
      return hearError(board, tools, command);
  }
}

/** Lists a command is known to need. */
export function listsFor(command: Command): TaskList[] {
  if (command.type !== "worker.beat" && command.type !== "worker.join") return [];
  return [{ of: "held", worker: command.worker, limit: heldMax }];
}

function askKeys(command: Command): Key[] {
  const ask = askOf(command);
  return ask === null ? [] : [`ask/${command.tenant}/${ask.key}`];
}

/** Rows a command is known to need; what it finds out later is asked for with `more`. */
export function rowsFor(command: Command, newRun: RunId | null): Key[] {
  switch (command.type) {
    case "run.start": {
      const keys: Key[] = [`workflow/${command.tenant}/${command.digest}`];
      if (newRun !== null) keys.push(runKey(newRun));
      if (command.ask !== null) keys.push(`ask/${command.tenant}/${command.ask.key}`);
      return keys;
    }
    case "run.cancel":
    case "run.skip":
    case "run.retry":
    case "run.rebind":
      return [runKey(command.run), ...askKeys(command)];
    case "docs.write": {
      const keys = [...command.puts, ...(command.drops ?? [])].map(({ collection, name }) =>
        docKey(command.tenant, collection, name),
      );
      const ask = command.ask ?? null;
      return ask === null ? keys : [...keys, `ask/${command.tenant}/${ask.key}`];
    }
    case "worker.order":
    case "worker.noted":
      return [workerKey(command.worker), docKey(command.tenant, "command", command.id), ...askKeys(command)];
    case "worker.drain":
    case "worker.kick": {
      const { tenant, worker, command: id } = command;
      return [workerKey(worker), ...(id === undefined ? [] : [docKey(tenant, "command", id)]), ...askKeys(command)];
    }
    case "resource.removed":
      return [workerKey(command.worker), docKey(command.tenant, "artifact", command.resource)];
    case "worker.enrol":
      return [workerKey(command.worker), ...askKeys(command)];
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
      return rowsAround(command.task);
  }
}

/** A task with what counts down when it ends: its run, the frames and containers around it, and of a call its host. Its id names them all. */
function rowsAround(task: TaskId): Key[] {
  const run = runOf(task);
  const slot = slotOf({ id: task, run });
  const keys = [runKey(run), taskKey(task)];
  if (isTop(slot)) return keys;
  const logical = logicalOf(slot);
  if (logical !== slot) keys.push(taskKey(taskAt(run, logical)));
  for (const one of around(slot)) keys.push(taskKey(taskAt(run, one)));
  return keys;
}
