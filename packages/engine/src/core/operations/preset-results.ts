// Nodes that a run does not have to run, because their outcome was given with its start: pinned, taken from another run, left out. Their
// rows are born ended with the run, and joins that wait for some of them are born knowing so.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { PresetResult } from "../../interface/command.ts";
import type { RunRow } from "../../storage/rows.ts";
import { withMarks } from "../nodes/operator-marks.ts";
import { type FollowUps, newTaskFor } from "../nodes/reach.ts";
import { nodeSlot, topLevel } from "../rows/slot.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { withTaskState } from "../rows/task-state.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Bears what is given and returns the nodes that wait for nobody else. */
export function insertPresetTasks(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  plan: Plan,
  presetResults: Readonly<Record<number, PresetResult>>,
  followUps: FollowUps,
): number[] {
  const known = new Set(Object.keys(presetResults).map(Number));
  for (const ordinal of known) {
    const node = plan.nodes[ordinal];
    if (node === undefined || node.host !== null) throw new Error(`run ${run.id} was given node ${ordinal}, which it has not`);
    insertPresetTask(work, context, run, node, presetResults[ordinal] as PresetResult);
  }
  const isInTheWay = (ordinal: number) => plan.nodes[ordinal]?.before.some((one) => !known.has(one));
  if ([...known].some(isInTheWay)) work.put(withMarks(run, { isGiven: true }));
  const starts: number[] = [];
  for (const node of plan.nodes) {
    if (known.has(node.ordinal) || node.host !== null) continue;
    const needs = node.before.filter((one) => !known.has(one)).length;
    if (needs === 0) starts.push(node.ordinal);
    else if (needs < node.before.length) {
      const waiting = newTaskFor(work, context, run, nodeSlot(topLevel, node.ordinal), node, needs);
      work.insert(waiting);
      work.recordRunFact(run, "task.waiting", { task: waiting.id });
      followUps.openedTasks += 1;
    }
  }
  return starts;
}

function insertPresetTask(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  node: PlanNode,
  { status, result, params, why }: PresetResult,
): void {
  const blank = {
    ...newTaskFor(work, context, run, nodeSlot(topLevel, node.ordinal), node, 0),
    key: null,
    params: params ?? null,
  };
  const type = status === "succeeded" ? "succeed" : "skip";
  const endedRow = applyTaskTransition(withTaskState(blank, { why }), { type, result }, work.now);
  work.insert(endedRow);
  work.recordRunFact(run, `task.${status}`, { task: endedRow.id, fence: 0, worker: null, why });
}
