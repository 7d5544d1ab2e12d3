// Fan-outs larger than a turn: some nodes are reached at once, the rest by a cursor in the row of the run or of the iteration.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { LiveRun, Millis, RunRow, TaskRow } from "../../storage/rows.ts";
import { isRunLive } from "../rows/run.ts";
import { nodePath, type TaskPath, taskIdAt, topLevel } from "../rows/task-path.ts";
import type { FanOutCursor } from "../rows/task-state.ts";
import { loadTasks } from "./end-host-task.ts";
import { enterNode, mayHaveRow, nodeParams, reachNode } from "./reach.ts";
import type { RunProgress } from "./run-progress.ts";

/** The cursor of a live run. */
interface RunCursor {
  readonly limit: Millis | null;
  readonly reach: readonly FanOutCursor[];
  /** Start nodes of this run, if they are not the plan's own. */
  readonly starts?: readonly number[];
}

const readRunCursor = (run: RunRow): RunCursor | null =>
  run.phase === "ending" || run.cursor === null ? null : (JSON.parse(run.cursor) as RunCursor);

/** When the run must be over, whatever its row is due for. */
export const runDeadline = (run: RunRow): Millis | null => {
  const pending = readRunCursor(run);
  return pending === null ? run.due : pending.limit;
};

export const hasPendingFanOut = (run: RunRow): boolean => readRunCursor(run) !== null;

/** The run with the fan-outs that this turn had no capacity for. */
export function withPendingFanOuts(run: LiveRun, left: readonly FanOutCursor[], now: Millis, starts?: readonly number[]): RunRow {
  if (left.length === 0) return run;
  const before = readRunCursor(run);
  const kept = starts ?? before?.starts;
  const pending: RunCursor = {
    limit: runDeadline(run),
    reach: [...(before?.reach ?? []), ...left],
    ...(kept !== undefined && { starts: kept }),
  };
  return { ...run, cursor: JSON.stringify(pending), due: now };
}

/** Continues where the last turn stopped. What does not fit into this turn either is stored again. */
export function resumeFanOuts(progress: RunProgress, run: LiveRun): void {
  const { work, plan } = progress;
  const pending = readRunCursor(run);
  if (pending === null || !progress.hasCapacity()) return;
  work.put({ ...run, cursor: null, due: pending.limit });
  const starts = pending.starts ?? plan.starts;
  const { left } = fanOut(progress, { scope: topLevel, plan, starts }, pending.reach);
  const after = progress.refresh();
  if (isRunLive(after)) work.put(withPendingFanOuts(after, left, work.now, pending.starts));
}

interface FanOutScope {
  readonly scope: TaskPath;
  readonly plan: Plan;
  readonly starts: readonly number[];
}

/** Reaches as many nodes as the turn has capacity for. `opened`: nodes of the scope that are open now and were not before. */
export function fanOut(
  progress: RunProgress,
  scopeOfFanOut: FanOutScope,
  reach: readonly FanOutCursor[],
): { readonly opened: number; readonly left: FanOutCursor[] } {
  const { scope, plan } = scopeOfFanOut;
  requireFanOutRows(progress, scopeOfFanOut, reach, progress.work.settings.sweepTasksMax);
  const left: FanOutCursor[] = [];
  let opened = 0;
  for (const one of reach) {
    const targets = targetsOf(scopeOfFanOut, one.from);
    let { at } = one;
    let source: TaskRow | null = null;
    for (; at < targets.length && progress.hasCapacity(); at++) {
      const node = plan.nodes[targets[at] as number] as PlanNode;
      if (one.from !== null) source ??= sourceTask(progress, scope, one.from);
      opened += source === null ? startNode(progress, scope, node) : reachNode(progress, scope, node, source);
    }
    if (at < targets.length) left.push({ from: one.from, at });
  }
  return { opened, left };
}

const targetsOf = ({ plan, starts }: FanOutScope, from: number | null): readonly number[] =>
  from === null ? starts : (plan.nodes[from]?.after ?? []);

const sourceTask = ({ work, run }: RunProgress, scope: TaskPath, ordinal: number): TaskRow =>
  work.existingTask(taskIdAt(run.id, nodePath(scope, ordinal)));

function startNode(progress: RunProgress, scope: TaskPath, node: PlanNode): number {
  progress.countReachedNode();
  enterNode(progress, nodePath(scope, node.ordinal), node, nodeParams(progress, scope, node));
  return 1;
}

/** A single successor that waits for this node alone: only the source is read, when it is reached. */
function isSingleSuccessor(progress: RunProgress, scopeOfFanOut: FanOutScope, reach: readonly FanOutCursor[]): boolean {
  const [first] = reach;
  if (first === undefined || reach.length > 1) return false;
  const targets = targetsOf(scopeOfFanOut, first.from);
  if (targets.length > first.at + 1) return false;
  const node = scopeOfFanOut.plan.nodes[targets[first.at] ?? -1];
  return node === undefined || !mayHaveRow(progress.run, scopeOfFanOut.scope, node);
}

/** What the next `most` nodes will be reached with is read in two rounds, however many: sources and joins, then what the joins wait for. */
function requireFanOutRows(
  progress: RunProgress,
  scopeOfFanOut: FanOutScope,
  reach: readonly FanOutCursor[],
  most: number,
): void {
  const { work, run } = progress;
  const { scope, plan } = scopeOfFanOut;
  if (isSingleSuccessor(progress, scopeOfFanOut, reach)) return;
  const read = (ordinals: Iterable<number>) =>
    loadTasks(
      work,
      [...ordinals].map((ordinal) => taskIdAt(run.id, nodePath(scope, ordinal))),
    );
  const sources = new Set<number>();
  const arrivals = new Map<number, number>();
  let room = most;
  for (const { from, at } of reach) {
    if (room <= 0) break;
    const next = targetsOf(scopeOfFanOut, from).slice(at, at + room);
    if (next.length > 0 && from !== null) sources.add(from);
    for (const ordinal of next)
      if (mayHaveRow(run, scope, plan.nodes[ordinal] as PlanNode)) arrivals.set(ordinal, (arrivals.get(ordinal) ?? 0) + 1);
    room -= next.length;
  }
  const rows = read([...arrivals.keys(), ...sources]);
  const complete = [...arrivals].flatMap(([ordinal, count], at) => {
    const node = plan.nodes[ordinal] as PlanNode;
    return (rows[at]?.needs ?? node.before.length) <= count ? [node] : [];
  });
  read(new Set(complete.flatMap(({ inputs }) => inputs.map(({ source }) => source))));
}
