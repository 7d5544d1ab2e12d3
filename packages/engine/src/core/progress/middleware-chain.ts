// Middleware chains: calls and their answers. The outermost middleware represents the host in the graph; the inner ones and the host itself
// run once per call, each call a task of its own.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import { type EndedTask, type HostingTask, type LeasedTask, type OpenTask, type TaskRow, taskKey } from "../../storage/rows.ts";
import { answerCall, attemptDeadline, openCalls, withCalls } from "../delivery/middleware-calls.ts";
import { cancelTasksInside } from "../nodes/end-host-task.ts";
import { cancelTask } from "../nodes/end-run.ts";
import { newTaskFor, nodeParams, startTask } from "../nodes/reach.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { isEnded } from "../rows/task.ts";
import { lastStep, nodePath, scopeOf, type TaskPath, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import { type MiddlewareCall, readTaskState, type TaskState, withTaskState } from "../rows/task-state.ts";
import { type ChainPosition, endChain, findChain } from "./end-chain.ts";

/** A host with middlewares was reached (its row is `hosting`, its params are known): the outermost middleware is opened. */
export function openChain(progress: RunProgress, row: HostingTask): void {
  const { scope, plan, host } = findChain(progress, row);
  const outermost = plan.nodes[host.chain[0] ?? -1];
  if (outermost === undefined) throw new Error(`host ${row.id} has no chain`);
  const params = nodeParams(progress, scope, outermost);
  startCall(progress, { path: nodePath(scope, outermost.ordinal), node: outermost, params, state: {} });
}

interface NewCall {
  readonly path: TaskPath;
  readonly node: PlanNode;
  readonly params: string;
  readonly state: TaskState;
  /** Keys that callers hold already; waiting for them would be a deadlock. */
  readonly heldKeys?: ReadonlySet<string>;
}

/** Creates the row of a middleware, or of a call of one or of the host: queued, or as a container that opens its iterations. */
export function startCall(progress: RunProgress, { path, node, params, state, heldKeys }: NewCall): void {
  const blank = withTaskState(newTaskFor(progress, path, node, 0), state);
  const isKeyHeld = blank.key !== null && heldKeys?.has(blank.key) === true;
  progress.openedTasks += 1;
  startTask(progress, node, isKeyHeld ? { ...blank, key: null } : blank, params);
}

/** A middleware, or a call of one or of the host, has ended, in whatever way. */
export function handleCallEnd(progress: RunProgress, row: EndedTask): void {
  const { work, run } = progress;
  const chain = findChain(progress, row);
  const hostId = taskIdAt(run.id, nodePath(chain.scope, chain.host.ordinal));
  const { caller } = readTaskState(row);
  work.requireRows(caller === undefined ? [taskKey(hostId)] : [taskKey(hostId), taskKey(caller.task)]);
  const host = work.existingTask(hostId);
  const { call } = lastStep(taskPathOf(row));
  // If an operator has already ended the host, that outcome is kept.
  if (host.phase === "hosting") {
    if (call === null) return endChain(progress, chain, host, row);
    recordCallOnHost(progress, chain, host, row);
  }
  if (call !== null) answerCaller(progress, row);
}

/** What the host needs in the end: which calls succeeded, and whether a middleware has skipped it since. */
function recordCallOnHost(progress: RunProgress, chain: ChainPosition, host: HostingTask, row: EndedTask): void {
  const node = progress.nodeOf(row);
  const { ran } = readTaskState(host);
  const { ordinal, call } = lastStep(taskPathOf(row));
  const isHost = ordinal === chain.host.ordinal;
  const isRun = row.phase === "succeeded";
  progress.work.put(
    withTaskState(host, {
      ...oneCallLess(host),
      ...(isRun && call !== null ? { ran: { ...ran, [ordinal]: call } } : {}),
      ...(isRun && isHost ? { skippedBy: undefined } : {}),
      ...(row.phase === "skipped" && !isHost ? { skippedBy: node.id } : {}),
    }),
  );
}

const oneCallLess = (host: HostingTask): Pick<TaskState, "inCall"> => ({
  inCall: Math.max(0, (readTaskState(host).inCall ?? 0) - 1),
});

/** Answers the caller of an ended call. A caller whose attempt is over, or whose call timed out, gets no answer. */
function answerCaller(progress: RunProgress, row: EndedTask): void {
  const { work, run } = progress;
  const waiting = readTaskState(row).caller;
  const caller = waiting === undefined ? null : work.task(waiting.task);
  if (waiting === undefined || caller?.phase !== "leased" || caller.fence !== waiting.fence) return;
  const call = openCalls(caller).find((one) => one.target === row.id);
  if (call !== undefined) answerCall(work, run, caller, call, row, callFailure(progress.nodeOf(row), row));
}

function callFailure(node: PlanNode, row: EndedTask): { code: string; message: string } | null {
  if (row.phase === "succeeded") return null;
  const error = row.error === null ? null : (JSON.parse(row.error) as FaultData);
  const why = error === null ? "" : `: ${error.code} ${error.message}`;
  const code = error?.code === "E.DISPATCH.UNAVAILABLE" ? "next_unavailable" : `next_${row.phase}`;
  return { code, message: `node "${node.label}" (${node.id}) was ${outcomeText(row)}${why}` };
}

const outcomeText = (row: TaskRow): string => (row.phase === "failed" ? "called and failed" : row.phase);

/** The attempt of a caller is over: its open calls are stopped, wherever they run, and not answered. Returns the row without its calls. */
export function cancelOpenCalls<R extends OpenTask>(progress: RunProgress, task: R): R {
  if (task.state === null || readTaskState(task).calls === undefined) return task;
  const why = { code: "E.RUNNER.CANCELLED", message: `the attempt of task ${task.id} that called it is over` };
  cancelCalls(progress, task, openCalls(task), why);
  return withTaskState(task, { calls: undefined });
}

/** Stops the calls of `caller` and records it; the caller is told where its attempt is released. */
function cancelCalls(progress: RunProgress, caller: TaskRow, open: readonly MiddlewareCall[], why: FaultData): void {
  const { work } = progress;
  work.requireRows(open.map((call) => taskKey(call.target)));
  for (const call of open) {
    cancelCall(progress, call, why);
    const { request, target, askedAt } = call;
    progress.record("next.answered", { task: caller.id, request, target, code: "next_cancelled", ms: work.now - askedAt });
  }
}

function cancelCall(progress: RunProgress, call: MiddlewareCall, why: FaultData): void {
  const target = progress.work.task(call.target);
  if (target !== null) cancelWithDescendants(progress, target, why);
}

/** Ends a row of a chain early, with all that it called or contains. No caller is answered and nothing follows from it. */
function cancelWithDescendants(progress: RunProgress, row: TaskRow, why: FaultData): void {
  const { work, run } = progress;
  if (isEnded(row)) return;
  if (row.phase === "hosting" && !cancelTasksInside(progress, row, why)) return;
  const open = openCalls(row);
  const cancelled = cancelTask(work, run, work.task(row.id) ?? row, why);
  progress.openedTasks -= 1;
  if (cancelled.state !== null) work.put(withTaskState(cancelled, { calls: undefined, ending: undefined }));
  const host = work.task(taskIdAt(run.id, nodePath(scopeOf(taskPathOf(row)), findChain(progress, row).host.ordinal)));
  if (host?.phase === "hosting") work.put(withTaskState(host, oneCallLess(host)));
  cancelCalls(progress, row, open, why);
}

/** Whether the attempt itself is out of time; if not, the calls that are get `next_timeout` and what they called is stopped. */
export function expireCalls(progress: RunProgress, node: PlanNode, task: LeasedTask): boolean {
  const { work, run } = progress;
  const over = attemptDeadline(work, node, task);
  if (over !== null && over <= work.now) return false;
  let caller = task;
  for (const call of openCalls(task)) {
    if (call.due === null || call.due > work.now) continue;
    const message = `${call.target} did not end within ${call.due - call.askedAt} ms`;
    cancelCall(progress, call, { code: "E.TIMEOUT", message });
    caller = answerCall(work, run, caller, call, work.task(call.target), { code: "next_timeout", message });
  }
  // Nothing has timed out yet: compute the next deadline again.
  if (caller === task) work.put(withCalls(work, node, task, readTaskState(task).calls ?? []));
  return true;
}
