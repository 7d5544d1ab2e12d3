// What an operator said about a run while it ran: nodes to leave out when they are reached, workers that its packages go to or keep away
// from. The only reader and writer of `RunRow.marks`; most runs have none.

import type { PlanNode } from "@astraflow/graph";
import type { RunRow, TaskRow, WorkerId } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { type Slot, slotOf } from "../rows/slot.ts";
import { withState } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Flow } from "./reach.ts";

export interface Marks {
  /** Some node was given with the start although what stands before it runs: whoever reaches a node looks whether it is over already. */
  readonly isGiven?: true;
  /** By node id or by slot: who wants it left out, and why. */
  readonly skip?: Readonly<Record<string, { readonly by: string; readonly reason: string }>>;
  /** By node id or package: where its tasks go from now on, as long as that worker is there. */
  readonly workers?: Readonly<Record<string, WorkerId>>;
  /** By node id or package: where its tasks do not go while another worker can take them. */
  readonly avoid?: Readonly<Record<string, WorkerId>>;
}

const none: Marks = {};
const read = new WeakMap<RunRow, Marks>();

export function marksOf(run: RunRow): Marks {
  if (run.marks === null) return none;
  let marks = read.get(run);
  if (marks === undefined) read.set(run, (marks = JSON.parse(run.marks) as Marks));
  return marks;
}

export const withMarks = (run: RunRow, change: Marks): RunRow => ({
  ...run,
  marks: JSON.stringify({ ...marksOf(run), ...change }),
});

/** Where an operator wants the tasks of this node, or of its package; undefined where he said nothing. */
export const wantedAt = (run: RunRow, node: PlanNode): WorkerId | undefined => said(marksOf(run).workers, node);
export const unwantedAt = (run: RunRow, node: PlanNode): WorkerId | undefined => said(marksOf(run).avoid, node);

const said = (marks: Readonly<Record<string, WorkerId>> | undefined, { id, packageName }: PlanNode): WorkerId | undefined =>
  marks === undefined
    ? undefined
    : Object.hasOwn(marks, id)
      ? marks[id]
      : Object.hasOwn(marks, packageName)
        ? marks[packageName]
        : undefined;

/** Why a node is left out when it is reached; null when it is not. */
function skipOf(run: RunRow, node: PlanNode, slot: Slot): { readonly by: string; readonly reason: string } | null {
  if (run.marks === null) return null;
  const { skip = {} } = marksOf(run);
  return Object.hasOwn(skip, slot) ? (skip[slot] ?? null) : Object.hasOwn(skip, node.id) ? (skip[node.id] ?? null) : null;
}

/** A node that is reached and was marked is over at once; what waits for it goes on. False: it is not marked. */
export function leaveOut(
  board: Board,
  run: RunRow,
  node: PlanNode,
  born: TaskRow,
  params: string,
  isNew: boolean,
  flow: Flow,
): boolean {
  const why = skipOf(run, node, slotOf(born));
  if (why === null) return false;
  const skipped = withState(moveTask({ ...born, params }, { type: "skip", result: "{}" }, board.now), { why: why.reason });
  if (isNew) board.bear(skipped);
  else board.put(skipped);
  board.tell(run, "task.skipped", { task: skipped.id, fence: skipped.fence, worker: null, why: why.reason, by: why.by });
  flow.next.push({ type: "ended", row: skipped });
  return true;
}
