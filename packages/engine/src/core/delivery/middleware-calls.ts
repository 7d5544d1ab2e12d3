// Calls of a middleware as its row stores them, and how an answer is delivered: to its session here, or by mail to another scheduler.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData, SessionReport } from "../../interface/command.ts";
import type { LeasedTask, Millis, RunRow, TaskRow } from "../../storage/rows.ts";
import type { Fleet } from "../fleet/fleet.ts";
import { lastStep, taskPathOf } from "../rows/task-path.ts";
import { type MiddlewareCall, readTaskState, withTaskState } from "../rows/task-state.ts";
import { earliestOf } from "../unit-of-work/row-set.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { attemptTimeoutMs } from "./dispatch.ts";
import { type AttemptStopReason, type MiddlewareCallResult, sendNextAnswer } from "./session-messages.ts";
import { connectedAfterTurn, setAttemptWaiting } from "./waiting-attempts.ts";
import { mailNextAnswer } from "./worker-mail.ts";

/** Calls that one attempt may have open at once. As many answered ones are stored: no more can have been lost on the way to its worker. */
export const openCallsMax = 64;

const isOpen = (call: MiddlewareCall): boolean => call.answer === undefined;

/** Calls of the present attempt that wait for their answer. */
export function openCalls(task: TaskRow): readonly MiddlewareCall[] {
  if (task.state === null || task.phase !== "leased") return [];
  return readTaskState(task).calls?.filter((call) => isOpen(call) && call.fence === task.fence) ?? [];
}

/** The row of a caller with these calls: all that are open, the last of those that were answered, and the first of their deadlines. */
export function withCalls(work: UnitOfWork, node: PlanNode, task: LeasedTask, calls: readonly MiddlewareCall[]): LeasedTask {
  const answered = calls.filter((call) => !isOpen(call)).slice(-openCallsMax);
  const kept = calls.filter((call) => isOpen(call) || answered.includes(call));
  const deadlines = [attemptDeadline(work, node, task), ...kept.map((call) => (isOpen(call) ? call.due : null))];
  return { ...withTaskState(task, { calls: kept.length === 0 ? undefined : kept }), due: earliestOf(deadlines) };
}

/** When the attempt must be over, whatever it waits for. */
export function attemptDeadline(work: UnitOfWork, node: PlanNode, task: LeasedTask): Millis | null {
  const timeoutMs = attemptTimeoutMs(work, node);
  return timeoutMs === null ? null : task.grantedAt + timeoutMs;
}

/** The worker's name if it is connected here, otherwise its instance id. Never send the tenant part of the id. */
const workerNameOf = (fleet: Fleet, worker: string): string =>
  fleet.workers.get(worker)?.name ?? worker.slice(worker.indexOf("/") + 1);

/** With which code a task failed or was ended. The code of the answer says only that it did. */
const errorCodeOf = ({ error }: TaskRow): string | null => (error === null ? null : (JSON.parse(error) as FaultData).code);

/** The answer: the result of the target, or why there is none. */
function buildNextAnswer(
  { fleet }: UnitOfWork,
  call: MiddlewareCall,
  target: TaskRow | null,
  error: MiddlewareCallResult["error"],
): MiddlewareCallResult {
  const trace = {
    task: call.target,
    status: target?.phase ?? null,
    code: target === null ? null : errorCodeOf(target),
    attempts: target?.attempt ?? 0,
    call: target === null ? null : lastStep(taskPathOf(target)).call,
    worker: target === null || target.worker === null ? null : workerNameOf(fleet, target.worker),
    askedAt: call.askedAt,
    endedAt: target?.endedAt ?? null,
  };
  return { request: call.request, result: error === null ? (target?.result ?? "{}") : null, error, trace };
}

/** A call that was answered before is answered again as it was. */
export function sendStoredAnswer(
  work: UnitOfWork,
  run: RunRow,
  task: TaskRow,
  call: MiddlewareCall,
  session: SessionReport,
): void {
  if (call.answer === undefined) return;
  const { code, message = "" } = call.answer;
  const answer = buildNextAnswer(work, call, work.task(call.target), code === null ? null : { code, message });
  sendNextAnswer(work, session, task, work.nodeOf(run, task).id, answer);
}

/** Answers one open call of a leased caller: stores it in the row, records it, sends it. */
export function answerCall(
  work: UnitOfWork,
  run: RunRow,
  caller: LeasedTask,
  call: MiddlewareCall,
  target: TaskRow | null,
  refusal: MiddlewareCallResult["error"],
): LeasedTask {
  const node = work.nodeOf(run, caller);
  const code = refusal?.code ?? null;
  const others = (readTaskState(caller).calls ?? []).filter((one) => one !== call);
  const isWaiting = others.some((one) => isOpen(one) && one.fence === caller.fence);
  const isDelivered = deliverNextAnswer(work, caller, node.id, buildNextAnswer(work, call, target, refusal), isWaiting);
  const answer = { code, ...(refusal !== null && { message: refusal.message }), ...(!isDelivered && { isOwed: true as const }) };
  const answered = withCalls(work, node, caller, [...others, { ...call, due: null, answer }]);
  work.put(answered);
  if (!isWaiting) setAttemptWaiting(work, caller, false);
  const fact = { task: caller.id, request: call.request, target: call.target, code, ms: work.now - call.askedAt };
  work.recordRunFact(run, "next.answered", fact);
  return answered;
}

/** True when a session of this fleet gets it; otherwise it goes by mail, and the row must remember that it is owed. */
function deliverNextAnswer(
  work: UnitOfWork,
  caller: LeasedTask,
  node: string,
  answer: MiddlewareCallResult,
  isWaiting: boolean,
): boolean {
  const connected = connectedAfterTurn(work, caller.worker);
  if (connected !== null && connected.attempts.get(caller.id)?.fence === caller.fence) {
    sendNextAnswer(work, connected, caller, node, answer);
    return true;
  }
  mailNextAnswer(work, caller, { node, isWaiting, ...answer });
  return false;
}

/** The attempt is taken from its worker, which may wait for answers that will never come. The caller of this writes the rows. */
export function refuseOpenCalls(work: UnitOfWork, task: LeasedTask, why: AttemptStopReason): void {
  const open = openCalls(task);
  if (open.length === 0) return;
  const { id } = work.nodeOf(work.existingRun(task.run), task);
  for (const call of open)
    deliverNextAnswer(work, task, id, buildNextAnswer(work, call, null, { code: "next_cancelled", message: why.reason }), false);
}

/** Delivers answers that no session has received: the worker has joined again. */
export function deliverPendingAnswers(work: UnitOfWork, run: RunRow, task: LeasedTask, session: SessionReport): LeasedTask {
  const calls = readTaskState(task).calls ?? [];
  const owed = calls.filter((call) => call.answer?.isOwed === true);
  if (owed.length === 0) return task;
  for (const call of owed) sendStoredAnswer(work, run, task, call, session);
  return withTaskState(task, { calls: calls.map(markDelivered) });
}

function markDelivered(call: MiddlewareCall): MiddlewareCall {
  if (call.answer === undefined) return call;
  const { isOwed: _, ...answer } = call.answer;
  return { ...call, answer };
}
