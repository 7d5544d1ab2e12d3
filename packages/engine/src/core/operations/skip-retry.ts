// What operators do to a node of a run that is under way: leave it out, or try it again now. Moving work to another worker is rebind.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { RetryNodeCommand, SkipNodeCommand } from "../../interface/command.ts";
import type { AffectedTask, AnswerBody } from "../../interface/effect.ts";
import type { OpenTask, RunRow, TaskRow } from "../../storage/rows.ts";
import { releaseAttempt } from "../delivery/held-attempts.ts";
import { endHost } from "../nodes/end-host-task.ts";
import { readMarks, withMarks } from "../nodes/operator-marks.ts";
import { runsThroughChain } from "../nodes/reach.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { takeBackAttempt, withoutDelivery } from "../progress/end-attempt.ts";
import { handleTaskEnd, runFollowUps } from "../progress/follow-up.ts";
import { cancelOpenCalls } from "../progress/middleware-chain.ts";
import { enqueueTask, releaseKey } from "../queueing/task-queue.ts";
import { isEnded } from "../rows/task.ts";
import { lastStep, nodePath, scopeOf, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import { withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { findTargetTasks, isFault, type NodeTarget, openTasksOf, refuseEnded } from "./target.ts";

/** Skips a node: its successors go on without its result. */
export function skipNode(work: UnitOfWork, command: SkipNodeCommand): AnswerBody | Fault {
  const found = findTargetTasks(work, command, "start it anew, or replay it from the node after");
  if (isFault(found)) return found;
  const { run, target, tasks: rows } = found;
  const [only] = rows;
  if (target.path !== null && only !== undefined && isEnded(only))
    return refuseEnded(only, "replay the run from the node after it");
  if (target.path !== null && lastStep(target.path).iteration !== null)
    return fault("E.TASK.MOVE_REFUSED", `${command.node} is an iteration of a container; skip the container or a node inside`);
  const steered: AffectedTask[] = [];
  // A node that is not reached yet, or waits for others, is marked and skipped later: those before it still run.
  const isLater = target.path === null || only === undefined || only.phase === "waiting";
  if (isLater) steered.push(...markSkip(work, run, target, command, only));
  for (const row of rows)
    if (row.phase !== "waiting") {
      const now = work.existingTask(row.id);
      // One that was skipped before may have ended it.
      if (!isEnded(now)) steered.push(skipTask(work, command, now));
    }
  return { of: "steered", run: run.id, tasks: steered };
}

function markSkip(
  work: UnitOfWork,
  run: RunRow,
  target: NodeTarget,
  command: SkipNodeCommand,
  row: TaskRow | undefined,
): AffectedTask[] {
  const key = target.path ?? target.node.id;
  const skip = { ...readMarks(run).skip, [key]: { by: command.by, reason: command.reason } };
  work.put(withMarks(run, { skip }));
  if (target.path === null) return [];
  const task = taskIdAt(run.id, target.path);
  work.recordRunFact(run, "task.steered", { task, by: command.by, what: "skip", reason: command.reason });
  return [{ task, node: target.node.id, from: null, to: null, sent: "none", phase: row?.phase ?? "waiting" }];
}

function skipTask(work: UnitOfWork, command: SkipNodeCommand, task: OpenTask): AffectedTask {
  const run = work.existingRun(task.run);
  const node = work.nodeOf(run, task);
  const steered = { task: task.id, node: node.id, from: task.worker, to: null, phase: "skipped" } as const;
  work.recordRunFact(run, "task.steered", { task: task.id, by: command.by, what: "skip", reason: command.reason });
  if (task.phase !== "hosting") {
    endAsSkipped(work, run, task, command.reason);
    return { ...steered, sent: task.phase === "leased" ? "stop" : "none" };
  }
  if (runsThroughChain(node, task)) {
    // Skipping a middleware ends its host as skipped; the outermost one contains all the others.
    const outermost = work.task(taskIdAt(run.id, nodePath(scopeOf(taskPathOf(task)), node.chain[0] ?? -1)));
    if (outermost === null || isEnded(outermost)) throw new Error(`host ${task.id} has no outermost middleware under way`);
    endAsSkipped(work, run, outermost, command.reason);
    return { ...steered, from: outermost.worker, sent: outermost.phase === "leased" ? "stop" : "none" };
  }
  const progress = new RunProgress(work, run);
  endHost(progress, task, { verdict: "skipped", error: null });
  runFollowUps(progress);
  // Where there is much inside it is ended some a turn, and stays a host meanwhile.
  return { ...steered, sent: "none", phase: work.task(task.id)?.phase ?? "skipped" };
}

/** Ends a task that no other task carries out; its worker is stopped, its key released. */
function endAsSkipped(work: UnitOfWork, run: RunRow, task: OpenTask, reason: string): void {
  const progress = new RunProgress(work, run);
  const free = cancelOpenCalls(progress, task);
  const skipped = work.moveTask(withTaskState(free, { why: reason }), { type: "skip", result: "{}" });
  work.recordTaskFact(run, "task.skipped", task, { why: reason });
  if (task.phase === "leased") releaseAttempt(work, task, { code: "E.RUNNER.CANCELLED", reason: `skipped: ${reason}` });
  releaseKey(work, task);
  handleTaskEnd(progress, skipped);
}

/** A live node is tried again now: its pause is cut short, or its present attempt is taken from its worker, under a new fence. */
export function retryNode(work: UnitOfWork, command: RetryNodeCommand): AnswerBody | Fault {
  const found = findTargetTasks(work, command, "replay it from the node to run it again");
  if (isFault(found)) return found;
  const { run, target, tasks: named } = found;
  // A host with middlewares, or a container, is retried by the tasks that carry it out.
  const rows = named[0]?.phase === "hosting" ? openTasksOf(work, run, (node) => node === target.node) : named;
  if (isFault(rows)) return rows;
  const movable = rows.filter(isRetryable);
  if (movable.length === 0) return nothingToRetry(command, rows[0]);
  return { of: "steered", run: run.id, tasks: movable.map((task) => retryTaskNow(work, command, task)) };
}

const isRetryable = (task: TaskRow): boolean =>
  task.phase === "leased" || task.phase === "ready" || (task.phase === "parked" && task.line === null);

function nothingToRetry(command: RetryNodeCommand, row: TaskRow | undefined): Fault {
  if (row !== undefined && isEnded(row)) return refuseEnded(row, "replay the run from this node");
  const why =
    row === undefined || row.phase === "waiting"
      ? "has not been reached yet"
      : row.phase === "parked"
        ? `waits for concurrency key ${row.key?.slice(row.key.indexOf("/") + 1)}`
        : "is carried out by other tasks; name one of those";
  return fault("E.TASK.MOVE_REFUSED", `node ${command.node} ${why}; there is nothing to try again`, {
    node: command.node,
    phase: row?.phase ?? "waiting",
  });
}

function retryTaskNow(work: UnitOfWork, command: RetryNodeCommand, task: TaskRow): AffectedTask {
  const run = work.existingRun(task.run);
  const node = work.nodeOf(run, task);
  work.recordRunFact(run, "task.steered", { task: task.id, by: command.by, what: "retry", reason: command.reason });
  if (task.phase === "parked") enqueueTask(work, run, node, task);
  // An operator's request is no verdict on the worker: it does not count as a failed delivery.
  const message = `taken back by ${command.by}: ${command.reason}`;
  if (task.phase === "leased")
    takeBackAttempt(work, run, withoutDelivery(task), { code: "E.RUNNER.CANCELLED", message }, { mayRepeat: true });
  return {
    task: task.id,
    node: node.id,
    from: task.worker,
    to: null,
    sent: task.phase === "leased" ? "stop" : "none",
    phase: work.task(task.id)?.phase ?? task.phase,
  };
}
