// How an attempt comes to its end: it succeeds, fails and is tried again or fails for good, or is taken back without a verdict. What follows
// from the end of a task is settle.ts.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { dropCalls } from "../chain/chain.ts";
import { busyOf } from "../crew/floor.ts";
import { recordSuccess } from "../place/bindings.ts";
import { dropHold } from "../place/holds.ts";
import { queueDue, releaseKey, requeue } from "../place/line.ts";
import { type RuleCode, ruleFor, type WorkerWhy } from "../place/why.ts";
import { slotOf } from "../rows/slot.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { buryTask, isFinal } from "../word/letter.ts";
import { forNextAttempt, isLasting, withoutLiveWords } from "./outcome.ts";
import { isCalled } from "./params.ts";
import { type Flow, newFlow } from "./reach.ts";
import { follow, settle } from "./settle.ts";
import { errorText } from "./sweep.ts";

/** A task ended well (or was skipped): the run walks on. */
export function completeTask(
  board: Board,
  tools: Tools,
  run: RunRow,
  task: TaskRow,
  how: "succeed" | "skip",
  result: string,
  extra: object,
): void {
  const flow = newFlow();
  const ended = moveTask(closing(board, tools, run, task, flow), { type: how, result }, board.now);
  board.put(ended);
  board.tell(run, how === "succeed" ? "task.succeeded" : "task.skipped", {
    task: task.id,
    fence: task.fence,
    worker: task.worker,
    ...extra,
  });
  dropHold(board, tools, task, null);
  releaseKey(board, tools, task);
  if (how === "succeed") recordSuccess(board, tools, run, task);
  settle(board, tools, run.id, ended, flow);
}

/** The row as its end leaves it: what it called is stopped, its words of the moment are gone. */
const closing = (board: Board, tools: Tools, run: RunRow, task: TaskRow, flow: Flow): TaskRow =>
  withoutLiveWords(dropCalls(board, tools, run, task, flow));

/** The row as its next attempt finds it; what the last one called is stopped. */
function reopening(board: Board, tools: Tools, run: RunRow, task: TaskRow): TaskRow {
  if (task.state === null) return task;
  const flow = newFlow();
  const free = dropCalls(board, tools, run, task, flow);
  if (free !== task) follow(board, tools, run.id, flow);
  return forNextAttempt(free);
}

/** An attempt failed by the worker's word or by time: try again as the node's policy says, or fail the run. */
export function failAttempt(
  board: Board,
  tools: Tools,
  run: RunRow,
  task: TaskRow,
  error: FaultData,
  result: string | null,
): void {
  const node = tools.plans.nodeOf(board, run, task);
  const policy = { ...tools.settings.retry, ...node.policy.retry };
  if (task.failures + 1 >= policy.maxAttempts || isLasting(error)) {
    failTask(board, tools, run, task, error, result);
    return;
  }
  const backoff = Math.min(policy.backoffMsMax, policy.backoffMs * policy.factor ** task.failures);
  const delay = Math.round(backoff * (0.8 + 0.4 * tools.roll()));
  const nextFence = retryTask(board, tools, node, reopening(board, tools, run, task), delay);
  board.tell(run, "task.retrying", { task: task.id, fence: task.fence, nextFence, delayMs: delay, error });
}

/** Gives the fence that the task has from now on. */
function retryTask(board: Board, tools: Tools, node: PlanNode, task: TaskRow, delay: number): number {
  if (delay > 0) {
    releaseKey(board, tools, task);
    const parked = moveTask(task, { type: "retry", line: null, due: board.now + delay, key: task.key }, board.now);
    board.put(parked);
    return parked.fence;
  }
  // Without a pause the key is kept: the task goes straight back into its line.
  const due = queueDue(tools, node, board.now);
  const ready = moveTask(task, { type: "retry", line: tools.floor.lineOf(task.route, task.pin), due, key: task.key }, board.now);
  board.put(ready);
  board.fresh.push(task.id);
  return ready.fence;
}

/** A task fails for good; who waits for it decides what that means: a caller, a frame, the run. */
export function failTask(board: Board, tools: Tools, run: RunRow, task: TaskRow, error: FaultData, result: string | null): void {
  const flow = newFlow();
  const failed = moveTask(closing(board, tools, run, task, flow), { type: "fail", error: errorText(error), result }, board.now);
  board.put(failed);
  const node = tools.plans.nodeOf(board, run, task);
  if (!isCalled(node, task) && isFinal(tools.plans.of(board, run), slotOf(task))) buryTask(board, run, node, failed, error);
  board.tell(run, "task.failed", { task: task.id, fence: task.fence, worker: task.worker, error });
  releaseKey(board, tools, task);
  settle(board, tools, run.id, failed, flow);
}

/** The worker says that it cancelled the task itself. */
export function cancelledByWorker(board: Board, tools: Tools, run: RunRow, task: TaskRow): void {
  dropHold(board, tools, task, null);
  const flow = newFlow();
  const cancelled = moveTask(closing(board, tools, run, task, flow), { type: "cancel", error: null }, board.now);
  board.put(cancelled);
  board.tell(run, "task.cancelled", { task: task.id, fence: task.fence, worker: task.worker });
  releaseKey(board, tools, task);
  settle(board, tools, run.id, cancelled, flow);
}

/** Why an attempt was taken back; `unacked` grants brought no word at all. */
export interface Loss {
  readonly unacked: boolean;
  readonly code: string;
  readonly message: string;
}

/** A grant that brought no verdict: back into line under a new fence, or, after too many in a row, failed with the reasons. */
export function takeBack(board: Board, tools: Tools, run: RunRow, task: TaskRow, loss: Loss): void {
  const node = tools.plans.nodeOf(board, run, task);
  const most = node.policy.maxDeliveries ?? tools.settings.maxDeliveries;
  dropHold(board, tools, task, { code: "E.SESSION.STALE_BINDING", reason: loss.message });
  if (task.deliveries >= most) {
    const code = loss.unacked ? "E.DISPATCH.UNAVAILABLE" : "E.WORKER.LOST";
    const message = `task ${task.id} was granted ${task.deliveries} times in a row without an answer; last: ${loss.message}`;
    failTask(board, tools, run, task, { code, message, details: { deliveries: task.deliveries, last: loss.code } }, null);
    return;
  }
  const back = requeue(board, tools, node, reopening(board, tools, run, task));
  board.tell(run, "task.requeued", {
    task: task.id,
    fence: back.fence,
    from: task.worker,
    code: loss.code,
    reason: loss.message,
  });
  board.count("cmd_retry_total", { reason: loss.code });
}

/** What each worker of the tenant lacks for a route, for the answer to "why did nobody take it". */
export function reasonsFor(tools: Tools, task: TaskRow): ({ worker: string; code: RuleCode } & WorkerWhy["facts"])[] {
  const needs = tools.floor.routes.get(task.route);
  if (needs === undefined) return [];
  const seats = [...tools.floor.seats.values()].filter((seat) => seat.tenant === needs.tenant).slice(0, 20);
  return seats.map((seat) => {
    const candidate = { ...seat, phase: "online", busy: busyOf(seat), busyOfType: null } as const;
    const { code, facts } = ruleFor(needs, candidate, task.pin);
    return { worker: seat.name, code, ...facts };
  });
}
