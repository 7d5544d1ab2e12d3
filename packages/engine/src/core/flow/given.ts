// Nodes that a run does not have to run, because their outcome was given with its start: pinned, taken from another run, left out. Their
// rows are born ended with the run, and joins that wait for some of them are born knowing so.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { Given } from "../../command.ts";
import type { RunRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { slotIn, topLevel } from "../rows/slot.ts";
import { withState } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { withMarks } from "./marks.ts";
import { bornTask, type Flow } from "./reach.ts";

/** Bears what is given and returns the nodes that wait for nobody else. */
export function bearGiven(
  board: Board,
  tools: Tools,
  run: RunRow,
  plan: Plan,
  given: Readonly<Record<number, Given>>,
  flow: Flow,
): number[] {
  const known = new Set(Object.keys(given).map(Number));
  for (const ordinal of known) {
    const node = plan.nodes[ordinal];
    if (node === undefined || node.host !== null) throw new Error(`run ${run.id} was given node ${ordinal}, which it has not`);
    bearEnded(board, tools, run, node, given[ordinal] as Given);
  }
  const isInTheWay = (ordinal: number) => plan.nodes[ordinal]?.before.some((one) => !known.has(one));
  if ([...known].some(isInTheWay)) board.put(withMarks(run, { isGiven: true }));
  const starts: number[] = [];
  for (const node of plan.nodes) {
    if (known.has(node.ordinal) || node.host !== null) continue;
    const needs = node.before.filter((one) => !known.has(one)).length;
    if (needs === 0) starts.push(node.ordinal);
    else if (needs < node.before.length) {
      const waiting = bornTask(board, tools, run, slotIn(topLevel, node.ordinal), node, needs);
      board.bear(waiting);
      board.tell(run, "task.waiting", { task: waiting.id });
      flow.opened += 1;
    }
  }
  return starts;
}

function bearEnded(board: Board, tools: Tools, run: RunRow, node: PlanNode, { status, result, params, why }: Given): void {
  const blank = { ...bornTask(board, tools, run, slotIn(topLevel, node.ordinal), node, 0), key: null, params: params ?? null };
  const type = status === "succeeded" ? "succeed" : "skip";
  const over = moveTask(withState(blank, { why }), { type, result }, board.now);
  board.bear(over);
  board.tell(run, `task.${status}`, { task: over.id, fence: 0, worker: null, why });
}
