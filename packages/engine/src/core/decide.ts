// One command to one decision: the table of who decides what, and which rows each needs at the first look.

import { type Fault, fault } from "@astraflow/protocol";
import type { Command } from "../command.ts";
import type { AnswerBody } from "../effect.ts";
import type { TaskList } from "../port.ts";
import { type Key, type RunId, runKey, runOf, taskKey, workerKey } from "../rows.ts";
import { beatWorker } from "./beat.ts";
import type { Board } from "./board.ts";
import { describeWorker, drainWorker, kickWorker, leaveWorker, tellWorker } from "./crew.ts";
import { joinWorker } from "./join.ts";
import { cancelRun, startRun } from "./order.ts";
import { heldMax } from "./reconcile.ts";
import type { Tools } from "./tools.ts";
import { hearAcks, hearError, hearFeedback, hearResult } from "./word.ts";

export function decide(board: Board, tools: Tools, command: Command, newRun: RunId | null): AnswerBody | Fault {
  switch (command.type) {
    case "run.start":
      return newRun === null
        ? fault("E.INTERNAL", "a run was ordered without an id for it")
        : startRun(board, tools, command, newRun);
    case "run.cancel":
      return cancelRun(board, tools, command);
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
      return [runKey(command.run)];
    case "worker.join":
    case "worker.beat":
    case "worker.describe":
    case "worker.leave":
    case "worker.drain":
    case "worker.kick":
    case "worker.tell":
      return [workerKey(command.worker)];
    case "task.ack":
      return [];
    case "task.feedback":
    case "task.result":
    case "task.error":
      return [runKey(runOf(command.task)), taskKey(command.task)];
  }
}
