// Middleware chains: who calls whom, who waits for whose answer, and how the host ends. The outermost middleware stands for the host in
// the graph; the inner ones and the host itself run once per call, each call a task of its own. How an answer travels is calls.ts, how a
// middleware asks is next.ts.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import { type RunRow, type TaskRow, taskKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { cancelInside } from "../flow/inside.ts";
import { leaveOut } from "../flow/marks.ts";
import { failUnstarted, unfitParams } from "../flow/params.ts";
import { bornTask, type Flow, paramsIn } from "../flow/reach.ts";
import { cancelTask } from "../flow/sweep.ts";
import { enterLine } from "../place/line.ts";
import { lastStep, planIn, type Slot, scopeOf, slotIn, slotOf, taskAt } from "../rows/slot.ts";
import { type Call, stateOf, type TaskState, withState } from "../rows/state.ts";
import { isEnded, moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { answerCall, attemptDue, openCalls, withCalls } from "./calls.ts";
import { endChain } from "./host.ts";

/** Where a chain stands: the scope of its host, the plan there, and the host. */
export interface ChainPlace {
  readonly scope: Slot;
  readonly plan: Plan;
  readonly host: PlanNode;
}

/** The chain that a row belongs to, as host, call of the host, or middleware. */
export function chainOf(board: Board, tools: Tools, run: RunRow, row: TaskRow): ChainPlace {
  const scope = scopeOf(slotOf(row));
  const plan = planIn(tools.plans.of(board, run), scope);
  const node = tools.plans.nodeOf(board, run, row);
  const host = plan?.nodes[node.host ?? node.ordinal];
  if (plan === null || host === undefined) throw new Error(`run ${run.id} has no chain for ${row.id}`);
  return { scope, plan, host };
}

/** A host with middlewares was reached (its row is `hosting`, its params are known): the outermost middleware is opened. */
export function openChain(board: Board, tools: Tools, run: RunRow, row: TaskRow, flow: Flow): void {
  const { scope, plan, host } = chainOf(board, tools, run, row);
  const outermost = plan.nodes[host.chain[0] ?? -1];
  if (outermost === undefined) throw new Error(`host ${row.id} has no chain`);
  const params = paramsIn(board, tools, run, scope, outermost);
  enterCall(board, tools, run, { slot: slotIn(scope, outermost.ordinal), node: outermost, params, state: {} }, flow);
}

interface Entering {
  readonly slot: Slot;
  readonly node: PlanNode;
  readonly params: string;
  readonly state: TaskState;
  /** A key that the caller holds already; waiting for it would be waiting for oneself. */
  readonly heldKeys?: ReadonlySet<string>;
}

/** A middleware, or a call of one or of the host, gets its row: in a line, or as a container that opens its frames. */
export function enterCall(board: Board, tools: Tools, run: RunRow, entering: Entering, flow: Flow): void {
  const { slot, node, params } = entering;
  const blank = withState(bornTask(board, tools, run, slot, node, 0), entering.state);
  const born = blank.key !== null && entering.heldKeys?.has(blank.key) === true ? { ...blank, key: null } : blank;
  flow.opened += 1;
  if (run.marks !== null && leaveOut(board, run, node, born, params, true, flow)) return;
  const unfit = unfitParams(node, params);
  if (unfit !== null) return failUnstarted(board, tools.plans.of(board, run), run, node, born, params, unfit, true, flow);
  if (node.container === null) return enterLine(board, tools, run, node, born, params, true);
  const host = moveTask(born, { type: "host", params }, board.now);
  board.bear(host);
  board.tell(run, "task.hosting", { task: host.id, node: node.id });
  flow.next.push({ type: "hosting", row: host });
}

/** A middleware, or a call of one or of the host, has ended, in whatever way. */
export function callEnded(board: Board, tools: Tools, run: RunRow, row: TaskRow, flow: Flow): void {
  const place = chainOf(board, tools, run, row);
  const hostId = taskAt(run.id, slotIn(place.scope, place.host.ordinal));
  const { caller } = stateOf(row);
  board.need(caller === undefined ? [taskKey(hostId)] : [taskKey(hostId), taskKey(caller.task)]);
  const host = board.task(hostId);
  if (host === null) throw new Error(`call ${row.id} has no host`);
  const { call } = lastStep(slotOf(row));
  if (call === null) return endChain(board, tools, run, place, host, row, flow);
  if (host.phase === "hosting") noteCall(board, tools, run, place, host, row);
  answerCaller(board, tools, run, row);
}

/** What the host must know in the end: which calls went well, and whether a middleware has skipped it since. */
function noteCall(board: Board, tools: Tools, run: RunRow, place: ChainPlace, host: TaskRow, row: TaskRow): void {
  const node = tools.plans.nodeOf(board, run, row);
  const { ran } = stateOf(host);
  const { ordinal, call } = lastStep(slotOf(row));
  const isHost = ordinal === place.host.ordinal;
  const isRun = row.phase === "succeeded";
  board.put(
    withState(host, {
      ...endedCall(host),
      ...(isRun && call !== null ? { ran: { ...ran, [ordinal]: call } } : {}),
      ...(isRun && isHost ? { skippedBy: undefined } : {}),
      ...(row.phase === "skipped" && !isHost ? { skippedBy: node.id } : {}),
    }),
  );
}

const endedCall = (host: TaskRow): Pick<TaskState, "inCall"> => ({ inCall: Math.max(0, (stateOf(host).inCall ?? 0) - 1) });

/** Whoever waits for this call hears how it ended. One that has moved on (its attempt is over, its time was up) hears nothing. */
function answerCaller(board: Board, tools: Tools, run: RunRow, row: TaskRow): void {
  const waiting = stateOf(row).caller;
  const caller = waiting === undefined ? null : board.task(waiting.task);
  if (waiting === undefined || caller === null || caller.fence !== waiting.fence) return;
  const call = openCalls(caller).find((one) => one.target === row.id);
  if (call !== undefined) answerCall(board, tools, run, caller, call, row, refusalOf(tools.plans.nodeOf(board, run, row), row));
}

function refusalOf(node: PlanNode, row: TaskRow): { code: string; message: string } | null {
  if (row.phase === "succeeded") return null;
  const error = row.error === null ? null : (JSON.parse(row.error) as FaultData);
  const why = error === null ? "" : `: ${error.code} ${error.message}`;
  const code = error?.code === "E.DISPATCH.UNAVAILABLE" ? "next_unavailable" : `next_${row.phase}`;
  return { code, message: `node "${node.label}" (${node.id}) was ${wordOf(row)}${why}` };
}

const wordOf = (row: TaskRow): string => (row.phase === "failed" ? "called and failed" : row.phase);

/**
 * The attempt of a caller is over while calls are open: what it called is stopped, wherever it runs, and its answer goes nowhere. Gives the
 * row without its calls; ends and retries go on from that. `flow` counts what was closed.
 */
export function dropCalls(board: Board, tools: Tools, run: RunRow, task: TaskRow, flow: Flow): TaskRow {
  if (task.state === null || stateOf(task).calls === undefined) return task;
  const why = { code: "E.RUNNER.CANCELLED", message: `the attempt of task ${task.id} that called it is over` };
  cancelCalls(board, tools, run, task, openCalls(task), why, flow);
  return withState(task, { calls: undefined });
}

/** What `caller` called is stopped; the log hears of it, the caller is told where its hold is dropped. */
function cancelCalls(
  board: Board,
  tools: Tools,
  run: RunRow,
  caller: TaskRow,
  open: readonly Call[],
  why: FaultData,
  flow: Flow,
): void {
  board.need(open.map((call) => taskKey(call.target)));
  for (const call of open) {
    cancelCall(board, tools, run, call, why, flow);
    board.tell(run, "next.answered", {
      task: caller.id,
      request: call.request,
      target: call.target,
      code: "next_cancelled",
      ms: board.now - call.askedAt,
    });
  }
}

function cancelCall(board: Board, tools: Tools, run: RunRow, call: Call, why: FaultData, flow: Flow): void {
  const target = board.task(call.target);
  if (target !== null) cancelTree(board, tools, run, target, why, flow);
}

/** A row of a chain is over before its time, with all that it called or carries. Nobody is answered and nothing follows from it. */
function cancelTree(board: Board, tools: Tools, run: RunRow, row: TaskRow, why: FaultData, flow: Flow): void {
  if (isEnded(row)) return;
  if (row.phase === "hosting" && !cancelInside(board, tools, run, row, why, flow)) return;
  const open = openCalls(row);
  const cancelled = cancelTask(board, tools, run, board.task(row.id) ?? row, why);
  flow.opened -= 1;
  if (cancelled.state !== null) board.put(withState(cancelled, { calls: undefined, ending: undefined }));
  const host = board.task(taskAt(run.id, slotIn(scopeOf(slotOf(row)), chainOf(board, tools, run, row).host.ordinal)));
  if (host?.phase === "hosting") board.put(withState(host, endedCall(host)));
  cancelCalls(board, tools, run, row, open, why, flow);
}

/** Whether the attempt itself is out of time; if not, the calls that are get `next_timeout` and what they called is stopped. */
export function expireCalls(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow, flow: Flow): boolean {
  const over = attemptDue(tools, node, task);
  if (over !== null && over <= board.now) return false;
  let caller = task;
  for (const call of openCalls(task)) {
    if (call.due === null || call.due > board.now) continue;
    const message = `${call.target} did not end within ${call.due - call.askedAt} ms`;
    cancelCall(board, tools, run, call, { code: "E.TIMEOUT", message }, flow);
    caller = answerCall(board, tools, run, caller, call, board.task(call.target), { code: "next_timeout", message });
  }
  // Nothing was out of time after all: the row says when it will be.
  if (caller === task) board.put(withCalls(tools, node, task, stateOf(task).calls ?? []));
  return true;
}
