// Nodes whose outcome came with the start of the run: their rows are inserted as ended, and joins after them with a lower count.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { PresetResult } from "../../interface/command.ts";
import { withMarks } from "../nodes/operator-marks.ts";
import { newTaskFor } from "../nodes/reach.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { nodePath, topLevel } from "../rows/task-path.ts";
import { withTaskState } from "../rows/task-state.ts";

/** Inserts the preset tasks and returns the start nodes of the run. */
export function insertPresetTasks(
  progress: RunProgress,
  plan: Plan,
  presetResults: Readonly<Record<number, PresetResult>>,
): number[] {
  const { work, run } = progress;
  const known = new Set(Object.keys(presetResults).map(Number));
  for (const ordinal of known) {
    const node = plan.nodes[ordinal];
    if (node === undefined || node.host !== null)
      throw new Error(`preset result for node ${ordinal}, which run ${run.id} does not have`);
    insertPresetTask(progress, node, presetResults[ordinal] as PresetResult);
  }
  const isInTheWay = (ordinal: number) => plan.nodes[ordinal]?.before.some((one) => !known.has(one));
  if ([...known].some(isInTheWay)) work.put(withMarks(run, { isGiven: true }));
  const starts: number[] = [];
  for (const node of plan.nodes) {
    if (known.has(node.ordinal) || node.host !== null) continue;
    const needs = node.before.filter((one) => !known.has(one)).length;
    if (needs === 0) starts.push(node.ordinal);
    else if (needs < node.before.length) {
      const waiting = newTaskFor(progress, nodePath(topLevel, node.ordinal), node, needs);
      work.put(waiting);
      progress.record("task.waiting", { task: waiting.id });
      progress.openedTasks += 1;
    }
  }
  return starts;
}

function insertPresetTask(progress: RunProgress, node: PlanNode, { status, result, params, why }: PresetResult): void {
  const { work, run } = progress;
  const newTask = newTaskFor(progress, nodePath(topLevel, node.ordinal), node, 0);
  const blank = withTaskState({ ...newTask, key: null, params: params ?? null }, { why });
  const type = status === "succeeded" ? "succeed" : "skip";
  work.recordTaskFact(run, `task.${status}`, work.moveTask(blank, { type, result }), { why });
}
