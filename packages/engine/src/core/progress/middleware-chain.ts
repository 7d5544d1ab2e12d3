// Middleware chains: who calls whom, who waits for whose answer, and how the host ends. The outermost middleware stands for the host in
// the graph; the inner ones and the host itself run once per call, each call a task of its own. How an answer travels is calls.ts, how a
// middleware asks is next.ts.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/fault-data.ts";
import { type RunRow, type TaskRow, taskKey } from "../../storage/rows.ts";
import { answerCall, attemptDeadline, openCalls, withCalls } from "../delivery/middleware-calls.ts";
import { cancelTasksInside } from "../nodes/end-host.ts";
import { cancelTask } from "../nodes/end-run.ts";
import { failBeforeStart, findTaskParamsFault } from "../nodes/node-params.ts";
import { skipIfMarked } from "../nodes/operator-marks.ts";
import { type FollowUps, newTaskFor, nodeParams } from "../nodes/reach.ts";
import { enqueueTask } from "../queueing/task-queue.ts";
import { lastStep, nodeSlot, planOfScope, type Slot, scopeOf, slotOf, taskIdAt } from "../rows/slot.ts";
import { applyTaskTransition, isEnded } from "../rows/task.ts";
import { type MiddlewareCall, readTaskState, type TaskState, withTaskState } from "../rows/task-state.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { endChain } from "./end-chain.ts";

/** Where a chain stands: the scope of its host, the plan there, and the host. */
export interface ChainPosition {
  readonly scope: Slot;
  readonly plan: Plan;
  readonly host: PlanNode;
}

/** The chain that a row belongs to, as host, call of the host, or middleware. */
export function findChain(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow): ChainPosition {
  const scope = scopeOf(slotOf(row));
  const plan = planOfScope(context.plans.planOf(work, run), scope);
  const node = context.plans.nodeOf(work, run, row);
  const host = plan?.nodes[node.host ?? node.ordinal];
  if (plan === null || host === undefined) throw new Error(`run ${run.id} has no chain for ${row.id}`);
  return { scope, plan, host };
}

/** A host with middlewares was reached (its row is `hosting`, its params are known): the outermost middleware is opened. */
export function openChain(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow, followUps: FollowUps): void {
  const { scope, plan, host } = findChain(work, context, run, row);
  const outermost = plan.nodes[host.chain[0] ?? -1];
  if (outermost === undefined) throw new Error(`host ${row.id} has no chain`);
  const params = nodeParams(work, context, run, scope, outermost);
  startCall(work, context, run, { slot: nodeSlot(scope, outermost.ordinal), node: outermost, params, state: {} }, followUps);
}

interface NewCall {
  readonly slot: Slot;
  readonly node: PlanNode;
  readonly params: string;
  readonly state: TaskState;
  /** A key that the caller holds already; waiting for it would be waiting for oneself. */
  readonly heldKeys?: ReadonlySet<string>;
}

/** A middleware, or a call of one or of the host, gets its row: in a line, or as a container that opens its frames. */
export function startCall(work: UnitOfWork, context: DecisionContext, run: RunRow, newCall: NewCall, followUps: FollowUps): void {
  const { slot, node, params } = newCall;
  const blank = withTaskState(newTaskFor(work, context, run, slot, node, 0), newCall.state);
  const newTask = blank.key !== null && newCall.heldKeys?.has(blank.key) === true ? { ...blank, key: null } : blank;
  followUps.openedTasks += 1;
  if (run.marks !== null && skipIfMarked(work, run, node, newTask, params, true, followUps)) return;
  const unfit = findTaskParamsFault(node, params);
  if (unfit !== null)
    return failBeforeStart(work, context.plans.planOf(work, run), run, node, newTask, params, unfit, true, followUps);
  if (node.container === null) return enqueueTask(work, context, run, node, newTask, params, true);
  const host = applyTaskTransition(newTask, { type: "host", params }, work.now);
  work.insert(host);
  work.recordRunFact(run, "task.hosting", { task: host.id, node: node.id });
  followUps.pending.push({ type: "hosting", row: host });
}

/** A middleware, or a call of one or of the host, has ended, in whatever way. */
export function handleCallEnd(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow, followUps: FollowUps): void {
  const chain = findChain(work, context, run, row);
  const hostId = taskIdAt(run.id, nodeSlot(chain.scope, chain.host.ordinal));
  const { caller } = readTaskState(row);
  work.requireRows(caller === undefined ? [taskKey(hostId)] : [taskKey(hostId), taskKey(caller.task)]);
  const host = work.task(hostId);
  if (host === null) throw new Error(`call ${row.id} has no host`);
  const { call } = lastStep(slotOf(row));
  if (call === null) return endChain(work, context, run, chain, host, row, followUps);
  if (host.phase === "hosting") recordCallOnHost(work, context, run, chain, host, row);
  answerCaller(work, context, run, row);
}

/** What the host must know in the end: which calls went well, and whether a middleware has skipped it since. */
function recordCallOnHost(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  chain: ChainPosition,
  host: TaskRow,
  row: TaskRow,
): void {
  const node = context.plans.nodeOf(work, run, row);
  const { ran } = readTaskState(host);
  const { ordinal, call } = lastStep(slotOf(row));
  const isHost = ordinal === chain.host.ordinal;
  const isRun = row.phase === "succeeded";
  work.put(
    withTaskState(host, {
      ...oneCallLess(host),
      ...(isRun && call !== null ? { ran: { ...ran, [ordinal]: call } } : {}),
      ...(isRun && isHost ? { skippedBy: undefined } : {}),
      ...(row.phase === "skipped" && !isHost ? { skippedBy: node.id } : {}),
    }),
  );
}

const oneCallLess = (host: TaskRow): Pick<TaskState, "inCall"> => ({
  inCall: Math.max(0, (readTaskState(host).inCall ?? 0) - 1),
});

/** Whoever waits for this call hears how it ended. One that has moved on (its attempt is over, its time was up) hears nothing. */
function answerCaller(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow): void {
  const waiting = readTaskState(row).caller;
  const caller = waiting === undefined ? null : work.task(waiting.task);
  if (waiting === undefined || caller === null || caller.fence !== waiting.fence) return;
  const call = openCalls(caller).find((one) => one.target === row.id);
  if (call !== undefined)
    answerCall(work, context, run, caller, call, row, callFailure(context.plans.nodeOf(work, run, row), row));
}

function callFailure(node: PlanNode, row: TaskRow): { code: string; message: string } | null {
  if (row.phase === "succeeded") return null;
  const error = row.error === null ? null : (JSON.parse(row.error) as FaultData);
  const why = error === null ? "" : `: ${error.code} ${error.message}`;
  const code = error?.code === "E.DISPATCH.UNAVAILABLE" ? "next_unavailable" : `next_${row.phase}`;
  return { code, message: `node "${node.label}" (${node.id}) was ${outcomeText(row)}${why}` };
}

const outcomeText = (row: TaskRow): string => (row.phase === "failed" ? "called and failed" : row.phase);

/**
 * The attempt of a caller is over while calls are open: what it called is stopped, wherever it runs, and its answer goes nowhere. Gives the
 * row without its calls; ends and retries go on from that. `flow` counts what was closed.
 */
export function cancelOpenCalls(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  task: TaskRow,
  followUps: FollowUps,
): TaskRow {
  if (task.state === null || readTaskState(task).calls === undefined) return task;
  const why = { code: "E.RUNNER.CANCELLED", message: `the attempt of task ${task.id} that called it is over` };
  cancelCalls(work, context, run, task, openCalls(task), why, followUps);
  return withTaskState(task, { calls: undefined });
}

/** What `caller` called is stopped; the log hears of it, the caller is told where its hold is dropped. */
function cancelCalls(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  caller: TaskRow,
  open: readonly MiddlewareCall[],
  why: FaultData,
  followUps: FollowUps,
): void {
  work.requireRows(open.map((call) => taskKey(call.target)));
  for (const call of open) {
    cancelCall(work, context, run, call, why, followUps);
    work.recordRunFact(run, "next.answered", {
      task: caller.id,
      request: call.request,
      target: call.target,
      code: "next_cancelled",
      ms: work.now - call.askedAt,
    });
  }
}

function cancelCall(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  call: MiddlewareCall,
  why: FaultData,
  followUps: FollowUps,
): void {
  const target = work.task(call.target);
  if (target !== null) cancelWithDescendants(work, context, run, target, why, followUps);
}

/** A row of a chain is over before its time, with all that it called or carries. Nobody is answered and nothing follows from it. */
function cancelWithDescendants(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  why: FaultData,
  followUps: FollowUps,
): void {
  if (isEnded(row)) return;
  if (row.phase === "hosting" && !cancelTasksInside(work, context, run, row, why, followUps)) return;
  const open = openCalls(row);
  const cancelled = cancelTask(work, context, run, work.task(row.id) ?? row, why);
  followUps.openedTasks -= 1;
  if (cancelled.state !== null) work.put(withTaskState(cancelled, { calls: undefined, ending: undefined }));
  const host = work.task(taskIdAt(run.id, nodeSlot(scopeOf(slotOf(row)), findChain(work, context, run, row).host.ordinal)));
  if (host?.phase === "hosting") work.put(withTaskState(host, oneCallLess(host)));
  cancelCalls(work, context, run, row, open, why, followUps);
}

/** Whether the attempt itself is out of time; if not, the calls that are get `next_timeout` and what they called is stopped. */
export function expireCalls(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  node: PlanNode,
  task: TaskRow,
  followUps: FollowUps,
): boolean {
  const over = attemptDeadline(context, node, task);
  if (over !== null && over <= work.now) return false;
  let caller = task;
  for (const call of openCalls(task)) {
    if (call.due === null || call.due > work.now) continue;
    const message = `${call.target} did not end within ${call.due - call.askedAt} ms`;
    cancelCall(work, context, run, call, { code: "E.TIMEOUT", message }, followUps);
    caller = answerCall(work, context, run, caller, call, work.task(call.target), { code: "next_timeout", message });
  }
  // Nothing was out of time after all: the row says when it will be.
  if (caller === task) work.put(withCalls(context, node, task, readTaskState(task).calls ?? []));
  return true;
}
