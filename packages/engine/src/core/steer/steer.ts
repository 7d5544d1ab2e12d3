// What operators do to a node of a run that is under way: leave it out, or try it again now. Moving work to another worker is rebind.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { RetryNode, SkipNode } from "../../command.ts";
import type { AnswerBody, Steered } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { dropCalls } from "../chain/chain.ts";
import { takeBack } from "../flow/end.ts";
import { endHost } from "../flow/inside.ts";
import { marksOf, withMarks } from "../flow/marks.ts";
import { newFlow } from "../flow/reach.ts";
import { follow, settle } from "../flow/settle.ts";
import { dropHold } from "../place/holds.ts";
import { enterLine, releaseKey } from "../place/line.ts";
import { lastStep, scopeOf, slotIn, slotOf, taskAt } from "../rows/slot.ts";
import { withState } from "../rows/state.ts";
import { isEnded, moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { isFault, liveRun, openTasksOf, type Target, targetOf, tasksOf } from "./target.ts";

/** A node that is left out: what waits for it goes on as if it had nothing to say. */
export function skipNode(board: Board, tools: Tools, order: SkipNode): AnswerBody | Fault {
  const run = liveRun(board, order, "start it anew, or replay it from the node after");
  if (isFault(run)) return run;
  const target = targetOf(board, tools, run, order.node);
  if (isFault(target)) return target;
  const rows = tasksOf(board, tools, run, target);
  if (isFault(rows)) return rows;
  const [only] = rows;
  if (target.slot !== null && only !== undefined && isEnded(only)) return ended(only, "replay the run from the node after it");
  if (target.slot !== null && lastStep(target.slot).frame !== null)
    return fault("E.TASK.MOVE_REFUSED", `${order.node} is an iteration of a container; skip the container or a node inside`);
  const steered: Steered[] = [];
  // What is not reached yet, or waits for more, is left out when its turn comes: those before it still run.
  const isLater = target.slot === null || only === undefined || only.phase === "waiting";
  if (isLater) steered.push(...markSkip(board, run, target, order, only));
  for (const row of rows)
    if (row.phase !== "waiting") {
      const now = board.task(row.id) as TaskRow;
      // One that was skipped before may have ended it.
      if (!isEnded(now)) steered.push(skipTask(board, tools, order, now));
    }
  return { of: "steered", run: run.id, tasks: steered };
}

const ended = (task: TaskRow, wayOut: string): Fault =>
  fault("E.TASK.ENDED", `task ${task.id} is ${task.phase}; ${wayOut}`, { task: task.id, phase: task.phase });

function markSkip(board: Board, run: RunRow, target: Target, order: SkipNode, row: TaskRow | undefined): Steered[] {
  const key = target.slot ?? target.node.id;
  const skip = { ...marksOf(run).skip, [key]: { by: order.by, reason: order.reason } };
  board.put(withMarks(run, { skip }));
  if (target.slot === null) return [];
  const task = taskAt(run.id, target.slot);
  tellSteered(board, run, task, order, "skip");
  return [{ task, node: target.node.id, from: null, to: null, sent: "none", phase: row?.phase ?? "waiting" }];
}

function tellSteered(board: Board, run: RunRow, task: string, order: SkipNode | RetryNode, what: "skip" | "retry"): void {
  board.tell(run, "task.steered", { task, by: order.by, what, reason: order.reason });
}

function skipTask(board: Board, tools: Tools, order: SkipNode, task: TaskRow): Steered {
  const run = board.run(task.run) as RunRow;
  const node = tools.plans.nodeOf(board, run, task);
  const steered = { task: task.id, node: node.id, from: task.worker, to: null, phase: "skipped" } as const;
  tellSteered(board, run, task.id, order, "skip");
  if (task.phase !== "hosting") {
    skipRow(board, tools, run, task, order.reason);
    return { ...steered, sent: task.phase === "leased" ? "stop" : "none" };
  }
  const slot = slotOf(task);
  const isBehindChain = node.chain.length > 0 && lastStep(slot).call === null;
  if (isBehindChain) {
    // A middleware that is skipped ends its host so; the outermost holds all the others.
    const outermost = board.task(taskAt(run.id, slotIn(scopeOf(slot), node.chain[0] ?? -1)));
    if (outermost === null || isEnded(outermost)) throw new Error(`host ${task.id} has no outermost middleware under way`);
    skipRow(board, tools, run, outermost, order.reason);
    return { ...steered, from: outermost.worker, sent: outermost.phase === "leased" ? "stop" : "none" };
  }
  const flow = newFlow();
  endHost(board, tools, run, task, { verdict: "skipped", error: null }, flow);
  follow(board, tools, run.id, flow);
  // Where there is much inside it is ended some a turn, and stays a host meanwhile.
  return { ...steered, sent: "none", phase: board.task(task.id)?.phase ?? "skipped" };
}

/** A task that no other task carries out is over; its worker is told, its key goes on. */
function skipRow(board: Board, tools: Tools, run: RunRow, task: TaskRow, reason: string): void {
  const flow = newFlow();
  const free = dropCalls(board, tools, run, task, flow);
  const skipped = withState(moveTask(free, { type: "skip", result: "{}" }, board.now), { why: reason });
  board.put(skipped);
  board.tell(run, "task.skipped", { task: task.id, fence: task.fence, worker: task.worker, why: reason });
  if (task.phase === "leased") dropHold(board, tools, task, { code: "E.RUNNER.CANCELLED", reason: `skipped: ${reason}` });
  releaseKey(board, tools, task);
  settle(board, tools, run.id, skipped, flow);
}

/** A live node is tried again now: its pause is cut short, or its present attempt is taken from its worker, under a new fence. */
export function retryNode(board: Board, tools: Tools, order: RetryNode): AnswerBody | Fault {
  const run = liveRun(board, order, "replay it from the node to run it again");
  if (isFault(run)) return run;
  const target = targetOf(board, tools, run, order.node);
  if (isFault(target)) return target;
  const named = tasksOf(board, tools, run, target);
  if (isFault(named)) return named;
  // A host behind a chain, or a container, is tried again by what carries it out.
  const rows = named[0]?.phase === "hosting" ? openTasksOf(board, tools, run, (node) => node === target.node) : named;
  if (isFault(rows)) return rows;
  const movable = rows.filter(isMovable);
  if (movable.length === 0) return nothingToRetry(order, rows[0]);
  return { of: "steered", run: run.id, tasks: movable.map((task) => retryTask(board, tools, order, task)) };
}

const isMovable = (task: TaskRow): boolean =>
  task.phase === "leased" || task.phase === "ready" || (task.phase === "parked" && task.line === null);

function nothingToRetry(order: RetryNode, row: TaskRow | undefined): Fault {
  if (row !== undefined && isEnded(row)) return ended(row, "replay the run from this node");
  const why =
    row === undefined || row.phase === "waiting"
      ? "has not been reached yet"
      : row.phase === "parked"
        ? `waits for concurrency key ${row.key?.slice(row.key.indexOf("/") + 1)}`
        : "is carried out by other tasks; name one of those";
  return fault("E.TASK.MOVE_REFUSED", `node ${order.node} ${why}; there is nothing to try again`, {
    node: order.node,
    phase: row?.phase ?? "waiting",
  });
}

function retryTask(board: Board, tools: Tools, order: RetryNode, task: TaskRow): Steered {
  const run = board.run(task.run) as RunRow;
  const node = tools.plans.nodeOf(board, run, task);
  tellSteered(board, run, task.id, order, "retry");
  if (task.phase === "parked") enterLine(board, tools, run, node, task);
  // An operator's word is no verdict on the worker: it is not counted as a delivery that brought nothing.
  if (task.phase === "leased")
    takeBack(
      board,
      tools,
      run,
      { ...task, deliveries: Math.max(0, task.deliveries - 1) },
      {
        unacked: false,
        code: "E.RUNNER.CANCELLED",
        message: `taken back by ${order.by}: ${order.reason}`,
      },
    );
  return {
    task: task.id,
    node: node.id,
    from: task.worker,
    to: null,
    sent: task.phase === "leased" ? "stop" : "none",
    phase: board.task(task.id)?.phase ?? task.phase,
  };
}
