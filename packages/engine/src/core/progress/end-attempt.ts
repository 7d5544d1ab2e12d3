// How an attempt ends: it succeeds, fails and is retried or fails for good, or is taken back without a verdict.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { Fact, LeasedTask, OpenTask, RunRow } from "../../storage/rows.ts";
import { attemptTimeoutMs } from "../delivery/dispatch.ts";
import { releaseAttempt } from "../delivery/held-attempts.ts";
import type { HandlerState } from "../delivery/waiting-attempts.ts";
import { isSameAttempt } from "../fleet/connected-worker.ts";
import { recordDeadLetter } from "../nodes/dead-letters.ts";
import { errorText } from "../nodes/end-run.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { recordSuccess } from "../queueing/affinity.ts";
import { queueDeadline, releaseKey, requeueTask } from "../queueing/task-queue.ts";
import { attemptVersion, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { handleTaskEnd, runFollowUps } from "./follow-up.ts";
import { withFormerHolder } from "./former-holders.ts";
import { cancelOpenCalls } from "./middleware-chain.ts";
import { isPermanentFailure, resetForNextAttempt, retryDelay, withoutLiveProgress } from "./outcome.ts";
import { findRepeatObstacle, unrepeatedFault } from "./unrepeatable.ts";

/** A task ended well (or was skipped): the run walks on. */
export function completeTask(
  progress: RunProgress,
  task: LeasedTask,
  how: "succeed" | "skip",
  result: string,
  extra: Fact["data"],
): void {
  const { work, run } = progress;
  const ended = work.moveTask(prepareEnd(progress, task), { type: how, result });
  work.recordTaskFact(run, `task.${ended.phase}`, task, extra);
  releaseAttempt(work, task, null);
  releaseKey(work, task);
  if (how === "succeed") recordSuccess(work, run, task);
  handleTaskEnd(progress, ended);
}

/** The row as its end leaves it: what it called is stopped, and its live progress is dropped. */
const prepareEnd = <R extends OpenTask>(progress: RunProgress, task: R): R =>
  withoutLiveProgress(cancelOpenCalls(progress, task));

/** The row as its next attempt finds it; what the last one called is stopped. */
function prepareNextAttempt(progress: RunProgress, task: LeasedTask): LeasedTask {
  if (task.state === null) return task;
  const free = cancelOpenCalls(progress, task);
  if (free !== task) runFollowUps(progress);
  return resetForNextAttempt(free);
}

/** An attempt failed by the worker's report or by time: retry it as the node's policy says, or fail the task. */
export function failAttempt(progress: RunProgress, task: LeasedTask, error: FaultData, result: string | null): void {
  const node = progress.nodeOf(task);
  const { work } = progress;
  const policy = { ...work.settings.retry, ...node.policy.retry };
  if (task.failures + 1 >= policy.maxAttempts || isPermanentFailure(error)) {
    failTask(progress, task, error, result);
    return;
  }
  const delay = retryDelay(policy, task.failures, work.random());
  const nextFence = retryTask(progress, node, prepareNextAttempt(progress, task), delay);
  const { id, fence } = task;
  progress.record("task.retrying", { task: id, fence, nextFence, delayMs: delay, error, ...attemptVersion(task) });
}

/** Returns the new fence of the task. */
function retryTask(progress: RunProgress, node: PlanNode, task: LeasedTask, delay: number): number {
  const { work } = progress;
  if (delay > 0) {
    releaseKey(work, task);
    return work.moveTask(task, { type: "retry", line: null, due: work.now + delay, key: task.key }).fence;
  }
  // Without a pause the key is kept: the task goes straight back into its queue.
  const [line, due] = [work.fleet.queueFor(task.route, task.pin), queueDeadline(work, node)];
  work.newlyReady.push(task.id);
  return work.moveTask(task, { type: "retry", line, due, key: task.key }).fence;
}

/** A task fails for good; its caller, iteration or run decides what that means. */
export function failTask(progress: RunProgress, task: OpenTask, error: FaultData, result: string | null): void {
  const { work } = progress;
  const failed = work.moveTask(prepareEnd(progress, task), { type: "fail", error: errorText(error), result });
  recordDeadLetter(progress, progress.nodeOf(task), failed, error);
  work.recordTaskFact(progress.run, "task.failed", task, { error });
  releaseKey(work, task);
  handleTaskEnd(progress, failed);
}

/** The worker reports that it cancelled the task itself. */
export function cancelByWorker(progress: RunProgress, task: LeasedTask): void {
  const { work } = progress;
  releaseAttempt(work, task, null);
  const cancelled = work.moveTask(prepareEnd(progress, task), { type: "cancel", error: null });
  work.recordTaskFact(progress.run, "task.cancelled", task);
  releaseKey(work, task);
  handleTaskEnd(progress, cancelled);
}

/** Whether the task may be granted once more. */
export const hasDeliveryLeft = (work: UnitOfWork, { policy }: PlanNode, { deliveries }: LeasedTask): boolean =>
  deliveries < (policy.maxDeliveries ?? work.settings.maxDeliveries);

/** The same task without its last delivery: an attempt that is given back for a good reason is no failed one. */
export const withoutDelivery = (task: LeasedTask): LeasedTask => ({ ...task, deliveries: Math.max(0, task.deliveries - 1) });

/** A grant that no worker acked was not run: the next one has its number. Of attempts that the fleet does not show nothing is known. */
function hasRun(work: UnitOfWork, task: LeasedTask, handler: HandlerState): boolean {
  if (handler === "unacked") return false;
  const attempt = work.fleet.workers.get(task.worker)?.attempts.get(task.id);
  if (task.acked || attempt?.fence !== task.fence || attempt.acked || attempt.isSentAgain === true) return true;
  return work.fleetChanges.some((one) => one.type === "ack" && isSameAttempt(one, attempt));
}

const withoutAttempt = (task: LeasedTask): LeasedTask =>
  withTaskState({ ...task, attempt: Math.max(0, task.attempt - 1) }, { isRedelivered: true });

interface TakeBackOptions {
  readonly finalCode?: "E.WORKER.LOST" | "E.DISPATCH.UNAVAILABLE";
  readonly handler?: HandlerState;
  /** A person asked for another attempt, or the worker reports that this one never began. */
  readonly mayRepeat?: boolean;
}

/** A grant without a verdict: queued again under a new fence, or, after too many in a row, failed with `finalCode`. */
export function takeBackAttempt(
  work: UnitOfWork,
  run: RunRow,
  task: LeasedTask,
  { code, message: reason }: FaultData,
  { finalCode = "E.WORKER.LOST", handler = "may-run", mayRepeat = false }: TakeBackOptions = {},
): void {
  const progress = new RunProgress(work, run);
  const node = progress.nodeOf(task);
  const { id, deliveries } = task;
  releaseAttempt(work, task, { code: "E.SESSION.STALE_BINDING", reason }, handler);
  const held = handler === "ended" ? task : withFormerHolder(work, task);
  // An ack may be on its way: only a connected worker that let the deadline of the ack pass is known not to have begun.
  const obstacle = handler === "unacked" || mayRepeat ? null : findRepeatObstacle(work, run, node, task);
  if (obstacle !== null) {
    const error = unrepeatedFault(work, task, node, obstacle, reason);
    // A retry policy that its author wrote counts it as a failed attempt.
    return node.policy.retry === undefined ? failTask(progress, held, error, null) : failAttempt(progress, held, error, null);
  }
  if (!hasDeliveryLeft(work, node, task)) {
    const message = `task ${id} was granted ${deliveries} times in a row without an answer; last: ${reason}`;
    return failTask(progress, task, { code: finalCode, message, details: { deliveries, last: code } }, null);
  }
  const next = prepareNextAttempt(progress, held);
  const wasRun = hasRun(work, task, handler);
  const back = requeueTask(work, node, wasRun ? next : withoutAttempt(next));
  const again = wasRun ? {} : { attempt: back.attempt };
  progress.record("task.requeued", {
    task: id,
    fence: back.fence,
    from: task.worker,
    code,
    reason,
    ...again,
    ...attemptVersion(task),
  });
  work.recordMetric("cmd_retry_total", { reason: code });
}

/** Pauses of a task that a worker refuses because another one holds its key there: doubled with every refusal in a row. */
const keyRefusalPause = { firstMs: 1_000, msMax: 60_000 };

/**
 * The worker runs another task under the same concurrency key: no verdict on this one. It is tried again after a pause, by any worker. The other
 * task cannot hold the key for longer than an attempt may take; refusals that go on for longer are no matter of the key.
 */
export function deferRefusedTask(work: UnitOfWork, run: RunRow, task: LeasedTask, error: FaultData): void {
  const progress = new RunProgress(work, run);
  const node = progress.nodeOf(task);
  const { count, since } = readTaskState(task).keyRefusals ?? { count: 0, since: work.now };
  releaseAttempt(work, task, null);
  const limitMs = attemptTimeoutMs(work, node);
  if (limitMs !== null && work.now - since >= limitMs) {
    const details = { refusals: count + 1, refusedForMs: work.now - since, last: error.message };
    const message = `task ${task.id} was refused ${count + 1} times because its concurrency key was taken at the worker`;
    return failTask(progress, task, { code: "E.DISPATCH.UNAVAILABLE", message, details }, null);
  }
  const delayMs = Math.min(keyRefusalPause.firstMs * 2 ** Math.min(count, 16), keyRefusalPause.msMax);
  const next = withoutAttempt(prepareNextAttempt(progress, task));
  const refused = withTaskState(next, { keyRefusals: { count: count + 1, since } });
  releaseKey(work, task);
  const { fence, attempt } = work.moveTask(refused, { type: "defer", due: work.now + delayMs });
  const name = work.fleet.workers.get(task.worker)?.name ?? task.worker;
  const reason = `worker ${name} refused it: another task holds its concurrency key there (${error.message})`;
  progress.record("task.requeued", { task: task.id, fence, from: task.worker, code: error.code, reason, delayMs, attempt });
  work.recordMetric("cmd_retry_total", { reason: error.code });
}
