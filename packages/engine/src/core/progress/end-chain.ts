// Where a middleware chain is in its plan, and how its host ends: with the status of its outermost middleware and its own last result.

import { type BindingPath, type Plan, type PlanNode, valueAt, withValueAt } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import { type EndedTask, type HostingTask, type TaskRow, taskKey } from "../../storage/rows.ts";
import { recordDeadLetter } from "../nodes/dead-letters.ts";
import { errorText } from "../nodes/end-run.ts";
import { newTaskFor, TaskOutcome } from "../nodes/reach.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { applyTaskTransition, isEnded, type TaskTransition } from "../rows/task.ts";
import { callPath, nodePath, planOfScope, scopeOf, type TaskPath, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import { readTaskState, withTaskState } from "../rows/task-state.ts";

/** The scope of a chain's host, the plan of that scope, and the host. */
export interface ChainPosition {
  readonly scope: TaskPath;
  readonly plan: Plan;
  readonly host: PlanNode;
}

/** The chain that a row belongs to, as host, call of the host, or middleware. */
export function findChain(progress: RunProgress, row: TaskRow): ChainPosition {
  const scope = scopeOf(taskPathOf(row));
  const plan = planOfScope(progress.plan, scope);
  const node = progress.nodeOf(row);
  const host = plan?.nodes[node.host ?? node.ordinal];
  if (plan === null || host === undefined) throw new Error(`run ${progress.run.id} has no chain for ${row.id}`);
  return { scope, plan, host };
}

/** The outermost middleware has ended, and with it the host. */
export function endChain(progress: RunProgress, chain: ChainPosition, host: HostingTask, outermost: EndedTask): void {
  requireCallRows(progress, chain, host);
  for (const ordinal of chain.host.chain.slice(1)) closeMiddleware(progress, chain, chain.plan.nodes[ordinal] as PlanNode, host);
  const { params, result } = outputsOfChain(progress, chain, host, outermost);
  const ended = progress.work.moveTask({ ...host, params }, hostTransition(chain, host, outermost, result));
  const error = ended.error === null ? null : (JSON.parse(ended.error) as FaultData);
  if (ended.phase === "failed" && error !== null) recordDeadLetter(progress, chain.host, ended, error);
  progress.end(ended, error === null ? {} : { error });
}

/** Requires all rows of calls that are read below, at once. */
function requireCallRows(progress: RunProgress, { scope, host: node }: ChainPosition, host: HostingTask): void {
  const { work, run } = progress;
  const { called = {}, ran = {} } = readTaskState(host);
  const calls = [node.ordinal, ...node.chain].flatMap((ordinal) => {
    const numbers = new Set([called[ordinal], ran[ordinal]].filter((call) => call !== undefined));
    return [...numbers].map((call) => taskKey(taskIdAt(run.id, callPath(nodePath(scope, ordinal), call))));
  });
  work.requireRows(calls);
}

function hostTransition(
  { plan, host: node }: ChainPosition,
  host: HostingTask,
  outermost: EndedTask,
  result: string,
): TaskTransition {
  const { called, skippedBy } = readTaskState(host);
  switch (outermost.phase) {
    case "succeeded":
      // Withheld by the chain, or skipped by one inside and not run since.
      return called?.[node.ordinal] === undefined || skippedBy !== undefined
        ? { type: "skip", result }
        : { type: "succeed", result };
    case "skipped":
      return { type: "skip", result };
    case "failed": {
      const error = JSON.parse(outermost.error) as FaultData;
      const middleware = plan.nodes[node.chain[0] ?? -1]?.id;
      return { type: "fail", error: errorText({ ...error, details: { ...error.details, middleware } }), result: null };
    }
    default:
      return { type: "cancel", error: outermost.error };
  }
}

const notCalled = "not called";

/** The row of an inner middleware in the graph: as its last call ended, with its last successful result. */
function closeMiddleware(progress: RunProgress, chain: ChainPosition, node: PlanNode, host: HostingTask): void {
  const { work, run } = progress;
  const path = nodePath(chain.scope, node.ordinal);
  const { called, ran } = readTaskState(host);
  const calls = called?.[node.ordinal];
  const last = findCall(progress, path, calls);
  const lastSuccess = findCall(progress, path, ran?.[node.ordinal]);
  const newTask = newTaskFor(progress, path, node, 0);
  const seen = { ...newTask, params: (lastSuccess ?? last)?.params ?? null };
  const result = lastSuccess?.result ?? "{}";
  const closed =
    last === null
      ? work.moveTask(withTaskState(seen, { why: notCalled }), { type: "skip", result })
      : work.moveTask(applyTaskTransition(seen, { type: "host", params: seen.params }, work.now), transitionOfCall(last, result));
  work.recordTaskFact(run, `task.${closed.phase}`, closed, {
    calls: calls ?? 0,
    ...(last === null && { why: notCalled }),
    ...(closed.error !== null && { error: JSON.parse(closed.error) as unknown }),
  });
}

function transitionOfCall(last: TaskRow, result: string): TaskTransition {
  if (!isEnded(last)) return { type: "cancel", error: null };
  switch (last.phase) {
    case "succeeded":
      return { type: "succeed", result };
    case "skipped":
      return { type: "skip", result };
    case "failed":
      return { type: "fail", error: last.error, result };
    default:
      return { type: "cancel", error: last.error };
  }
}

/** The row of a call of the node at this path, by its number. */
const findCall = ({ work, run }: RunProgress, path: TaskPath, call: number | undefined): TaskRow | null =>
  call === undefined ? null : work.task(taskIdAt(run.id, callPath(path, call)));

/** The host's parameters and result, with the values of the middlewares' output ports at the same paths; the outermost middleware's value wins. */
function outputsOfChain(
  progress: RunProgress,
  chain: ChainPosition,
  host: HostingTask,
  outermost: EndedTask,
): { readonly params: string | null; readonly result: string } {
  const { ran } = readTaskState(host);
  const lastSuccess = findCall(progress, nodePath(chain.scope, chain.host.ordinal), ran?.[chain.host.ordinal]);
  let values: WrittenOutputs = { parameters: null, results: null };
  for (const ordinal of chain.host.chain.toReversed()) {
    const node = chain.plan.nodes[ordinal] as PlanNode;
    if (node.outputs === undefined || node.outputs.length === 0) continue;
    const row = node.chainIndex === 0 ? outermost : findCall(progress, nodePath(chain.scope, ordinal), ran?.[ordinal]);
    if (row !== null) values = copyOutputs(values, node.outputs, row, host, lastSuccess);
  }
  return {
    params: values.parameters === null ? host.params : JSON.stringify(values.parameters),
    result: values.results === null ? (lastSuccess?.result ?? "{}") : JSON.stringify(values.results),
  };
}

/** Null while nothing was written: bodies are read only where they change. */
interface WrittenOutputs {
  readonly parameters: unknown;
  readonly results: unknown;
}

function copyOutputs(
  values: WrittenOutputs,
  outputs: readonly BindingPath[],
  from: TaskRow,
  host: TaskRow,
  lastSuccess: TaskRow | null,
): WrittenOutputs {
  const source = new TaskOutcome(from);
  let { parameters, results } = values;
  for (const { root, steps } of outputs) {
    const value = valueAt(root === "results" ? source.results : source.params, steps);
    if (value === undefined) continue;
    if (root === "results") results = withValueAt(results ?? JSON.parse(lastSuccess?.result ?? "{}"), steps, value);
    else parameters = withValueAt(parameters ?? JSON.parse(host.params ?? "{}"), steps, value);
  }
  return { parameters, results };
}
