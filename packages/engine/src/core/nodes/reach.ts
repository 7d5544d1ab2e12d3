// How a node is reached: its task is created and queued, becomes a host that other tasks carry out, or counts down the branches it joins.

import { type NodeOutcome, type Plan, type PlanNode, resolveIterationParams, resolveParams } from "@astraflow/graph";
import type { RunRow, TaskRow, WaitingTask } from "../../storage/rows.ts";
import { concurrencyKeyOf, enqueueTask } from "../queueing/task-queue.ts";
import { newTaskRow } from "../rows/new-task.ts";
import { applyTaskTransition, isEnded } from "../rows/task.ts";
import {
  containerPath,
  lastStep,
  nodePath,
  planOfScope,
  type TaskPath,
  taskIdAt,
  taskPathOf,
  topLevel,
} from "../rows/task-path.ts";
import { withTaskState } from "../rows/task-state.ts";
import { isChainCall } from "./dead-letters.ts";
import { loadTasks } from "./end-host-task.ts";
import { IterationValues } from "./iteration-values.ts";
import { failBeforeStart, findMissingPartFault, findParamsMismatch } from "./node-params.ts";
import { readMarks, skipIfMarked } from "./operator-marks.ts";
import type { RunProgress } from "./run-progress.ts";
import { isSchemaEnforced, recordWarning } from "./task-warnings.ts";
import { hasOtherManifest } from "./worker-manifests.ts";

/** A node is reached and waits for no other. `arrived`: its task, where it waited for several. */
export function enterNode(progress: RunProgress, path: TaskPath, node: PlanNode, params: string, arrived?: WaitingTask): void {
  if (arrived === undefined) progress.openedTasks += 1;
  startTask(progress, node, arrived ?? newTaskFor(progress, path, node, 0), params);
}

/** A new task, or one that has waited, is queued or becomes a host that other tasks carry out; one that cannot begin ends at once. */
export function startTask(progress: RunProgress, node: PlanNode, reached: WaitingTask, params: string): void {
  const { work, run } = progress;
  if (run.marks !== null && skipIfMarked(progress, node, reached, params)) return;
  const usesChain = runsThroughChain(node, reached);
  const missing = usesChain ? null : findMissingPartFault(node, params);
  const mismatch = usesChain || missing !== null ? null : findParamsMismatch(work, run, node, params);
  // The worker that will run it may have another manifest: then its schema judges.
  const isUndecided = mismatch !== null && node.container === null && hasOtherManifest(work, run, node);
  const fault = missing ?? (isSchemaEnforced(node) && !isUndecided ? mismatch : null);
  if (fault !== null) return failBeforeStart(progress, node, reached, params, fault);
  const task = isUndecided
    ? withTaskState(reached, { isUnjudged: true })
    : mismatch === null
      ? reached
      : recordWarning(work, run, node, reached, mismatch);
  if (node.container === null && !usesChain) return enqueueTask(work, run, node, task, params);
  // A host takes no concurrency key: the tasks that carry it out may.
  const free = isChainCall(node, taskPathOf(task)) ? task : { ...task, key: null };
  const host = work.moveTask(free, { type: "host", params });
  progress.record("task.hosting", { task: host.id, node: node.id });
  progress.pending.push({ type: "hosting", row: host });
}

/** A host with middlewares is carried out by its chain; each call of it is carried out by itself. */
export const runsThroughChain = (node: PlanNode, row: TaskRow): boolean =>
  node.chain.length > 0 && lastStep(taskPathOf(row)).call === null;

export function newTaskFor(progress: RunProgress, path: TaskPath, node: PlanNode, needs: number): WaitingTask {
  const { work, run } = progress;
  const route = work.routeIdOf(run, node);
  return newTaskRow(taskIdAt(run.id, path), run.id, route, node.policy.priority ?? run.band, needs, concurrencyKeyOf(run, node));
}

/** One predecessor of a node has ended. Returns how many nodes of the scope this opened: a join is open from its first arrival on. */
export function reachNode(progress: RunProgress, scope: TaskPath, node: PlanNode, from: TaskRow): number {
  const { work, run } = progress;
  progress.countReachedNode();
  const path = nodePath(scope, node.ordinal);
  const join = mayHaveRow(run, scope, node) ? work.task(taskIdAt(run.id, path)) : null;
  if (join === null && node.before.length === 1) {
    enterNode(progress, path, node, nodeParams(progress, scope, node, from));
    return 1;
  }
  if (join === null) {
    const waiting = newTaskFor(progress, path, node, node.before.length - 1);
    work.put(waiting);
    progress.record("task.waiting", { task: waiting.id });
    progress.openedTasks += 1;
    return 1;
  }
  // Skipped before all branches arrived, or a preset result: nothing waits here any more.
  if (isEnded(join)) return 0;
  const arrived = applyTaskTransition(join, { type: "arrive" }, work.now);
  if (join.needs > 1) work.put(arrived);
  else enterNode(progress, path, node, nodeParams(progress, scope, node, from), arrived);
  return 0;
}

/** Whether a node may have a row before it is reached: a join has one from its first arrival on, any other only as a preset result. */
export const mayHaveRow = (run: RunRow, scope: TaskPath, node: PlanNode): boolean =>
  node.before.length > 1 || (scope === topLevel && run.marks !== null && readMarks(run).isGiven === true);

/** The parameters that a node of a scope runs with, as text. `from`: a predecessor that is at hand. */
export function nodeParams(progress: RunProgress, scope: TaskPath, node: PlanNode, from: TaskRow | null = null): string {
  const { work, run } = progress;
  const near = from === null ? null : taskPathOf(from);
  const isNear = from !== null && node.inputs.every(({ source }) => nodePath(scope, source) === near);
  const outcome = isNear
    ? () => new TaskOutcome(from)
    : outcomesIn(progress, scope, new Set(node.inputs.map(({ source }) => source)), from);
  if (scope === topLevel) return JSON.stringify(resolveParams(node, outcome));
  const { container } = progress.nodeOf({ id: taskIdAt(run.id, containerPath(scope)), run: run.id });
  if (container === null) throw new Error(`run ${run.id} has no container for ${scope}`);
  return JSON.stringify(resolveIterationParams(container, node, new IterationValues(work, run, scope), outcome));
}

/** What nodes of a scope offer, by ordinal. Their rows are read together. */
export function outcomesIn(
  progress: RunProgress,
  scope: TaskPath,
  ordinals: ReadonlySet<number>,
  from: TaskRow | null = null,
): (ordinal: number) => NodeOutcome | null {
  const { work, run } = progress;
  if (ordinals.size === 0) return () => null;
  const plan = requirePlan(progress, scope);
  const wanted = new Set<number>();
  for (const ordinal of ordinals) for (const one of outcomeSources(plan, ordinal)) wanted.add(one);
  const near = from === null ? null : taskPathOf(from);
  const found = new Map<number, TaskRow>();
  const far = [...wanted].filter((ordinal) => nodePath(scope, ordinal) !== near);
  const rows = loadTasks(
    work,
    far.map((ordinal) => taskIdAt(run.id, nodePath(scope, ordinal))),
  );
  for (const [at, ordinal] of far.entries()) if (rows[at]) found.set(ordinal, rows[at]);
  if (from !== null) for (const ordinal of wanted) if (nodePath(scope, ordinal) === near) found.set(ordinal, from);
  return (ordinal) => {
    const row = outcomeSources(plan, ordinal).flatMap((one) => found.get(one) ?? [])[0];
    return row === undefined ? null : new TaskOutcome(row);
  };
}

/** The plan that the nodes of a scope belong to. */
function requirePlan(progress: RunProgress, scope: TaskPath): Plan {
  const plan = planOfScope(progress.plan, scope);
  if (plan === null) throw new Error(`run ${progress.run.id} has no scope ${scope}`);
  return plan;
}

/** Where the values of a node are found: those of an inner middleware are in the result of its host, because it runs once per call. */
function outcomeSources(plan: Plan, ordinal: number): number[] {
  const host = plan.nodes[ordinal]?.host ?? null;
  return host === null ? [ordinal] : [ordinal, host];
}

/** Parameters and results are parsed only where an edge uses them. */
export class TaskOutcome implements NodeOutcome {
  readonly #task: TaskRow;
  constructor(task: TaskRow) {
    this.#task = task;
  }
  get params(): unknown {
    return this.#task.params === null ? {} : (JSON.parse(this.#task.params) as unknown);
  }
  get results(): unknown {
    return this.#task.result === null ? {} : (JSON.parse(this.#task.result) as unknown);
  }
}
