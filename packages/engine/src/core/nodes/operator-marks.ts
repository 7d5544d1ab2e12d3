// Marks of operators on a run: nodes to skip, workers to use or avoid. The only reader and writer of `RunRow.marks`; most runs have none.

import type { PlanNode } from "@astraflow/graph";
import type { RunRow, WaitingTask, WorkerId } from "../../storage/rows.ts";
import { parsedColumn } from "../rows/parsed-column.ts";
import { type TaskPath, taskPathOf } from "../rows/task-path.ts";
import { withTaskState } from "../rows/task-state.ts";
import type { RunProgress } from "./run-progress.ts";

export interface OperatorMarks {
  /** A preset node comes after nodes that run: a node that is reached may have ended already. */
  readonly isGiven?: true;
  /** By node id or by path: who wants it skipped, and why. */
  readonly skip?: Readonly<Record<string, { readonly by: string; readonly reason: string }>>;
  /** By node id or package: where its tasks go from now on, as long as that worker is there. */
  readonly workers?: Readonly<Record<string, WorkerId>>;
  /** By node id or package: where its tasks do not go while another worker can take them. */
  readonly avoid?: Readonly<Record<string, WorkerId>>;
}

export const readMarks = parsedColumn<RunRow, OperatorMarks>((run) => run.marks, {}).read;

export const withMarks = (run: RunRow, change: OperatorMarks): RunRow => ({
  ...run,
  marks: JSON.stringify({ ...readMarks(run), ...change }),
});

/** The worker an operator chose for this node or its package; undefined if none. */
export const preferredWorker = (run: RunRow, node: PlanNode): WorkerId | undefined => findMark(readMarks(run).workers, node);
export const avoidedWorker = (run: RunRow, node: PlanNode): WorkerId | undefined => findMark(readMarks(run).avoid, node);

const findMark = (marks: Readonly<Record<string, WorkerId>> | undefined, { id, packageName }: PlanNode): WorkerId | undefined =>
  marks === undefined
    ? undefined
    : Object.hasOwn(marks, id)
      ? marks[id]
      : Object.hasOwn(marks, packageName)
        ? marks[packageName]
        : undefined;

/** Why a node is left out when it is reached; null when it is not. */
function skipMarkOf(run: RunRow, node: PlanNode, path: TaskPath): { readonly by: string; readonly reason: string } | null {
  if (run.marks === null) return null;
  const { skip = {} } = readMarks(run);
  return Object.hasOwn(skip, path) ? (skip[path] ?? null) : Object.hasOwn(skip, node.id) ? (skip[node.id] ?? null) : null;
}

/** Ends a marked node as skipped when it is reached; its successors go on. False: it is not marked. */
export function skipIfMarked(progress: RunProgress, node: PlanNode, newTask: WaitingTask, params: string): boolean {
  const mark = skipMarkOf(progress.run, node, taskPathOf(newTask));
  if (mark === null) return false;
  const { reason: why, by } = mark;
  progress.end(progress.work.moveTask(withTaskState({ ...newTask, params }, { why }), { type: "skip", result: "{}" }), {
    why,
    by,
  });
  return true;
}
