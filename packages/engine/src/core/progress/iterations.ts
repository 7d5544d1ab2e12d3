// Iterations: each row is one try of one iteration, open while any node of its scope is. If a node fails, all inside is cancelled first.

import { type ContainerPlan, collectIterationOutputs, type PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { EndedTask, HostingTask, TaskRow } from "../../storage/rows.ts";
import { endHost } from "../nodes/end-host-task.ts";
import { fanOut } from "../nodes/fan-out.ts";
import { iterationParamsText } from "../nodes/iteration-values.ts";
import { newTaskFor, outcomesIn } from "../nodes/reach.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { iterationPath, type TaskPath, taskPathOf } from "../rows/task-path.ts";
import { type FanOutCursor, type IterationState, readTaskState, withTaskState } from "../rows/task-state.ts";
import { resultBytesMax } from "./outcome.ts";

export function requireContainer(node: PlanNode): ContainerPlan {
  if (node.container === null) throw new Error(`node ${node.id} is no container`);
  return node.container;
}

export interface NewIteration {
  readonly number: number;
  readonly index: number;
  readonly tries: number;
  readonly item: unknown;
  readonly last: unknown;
}

/** An iteration opens with the start nodes of its body; a body without any ends at once. */
export function openIteration(progress: RunProgress, host: HostingTask, node: PlanNode, iteration: NewIteration): void {
  const { work } = progress;
  const { number, index, tries, item, last } = iteration;
  const path = iterationPath(taskPathOf(host), number);
  const blank = { ...newTaskFor(progress, path, node, 0), key: null };
  const params = iterationParamsText({ index, item, last });
  const newTask = withTaskState(applyTaskTransition(blank, { type: "host", params }, work.now), { frame: { index, tries } });
  progress.countReachedNode();
  progress.openedTasks += 1;
  work.put(newTask);
  progress.record("frame.opened", { task: newTask.id, index });
  advanceIteration(progress, newTask, node, [{ from: null, at: 0 }], 0);
}

/** Continues the pending fan-outs of an iteration, as far as this turn has capacity. */
export function resumeIteration(progress: RunProgress, iteration: HostingTask, node: PlanNode): void {
  const { reach } = iterationStateOf(iteration);
  if (reach === undefined) progress.work.put({ ...iteration, due: null });
  else if (progress.hasCapacity()) advanceIteration(progress, iteration, node, reach, 0);
}

/** A node of the iteration has succeeded: its successors are reached. */
export function continueIteration(progress: RunProgress, scope: TaskPath, ended: number): void {
  const iteration = progress.hostAt(scope);
  const node = progress.nodeOf(iteration);
  advanceIteration(progress, iteration, node, [{ from: ended, at: 0 }, ...(iterationStateOf(iteration).reach ?? [])], -1);
}

/** Reaches nodes, then updates the count; an iteration with nothing open and nothing pending has succeeded. */
function advanceIteration(
  progress: RunProgress,
  iteration: HostingTask,
  node: PlanNode,
  reach: readonly FanOutCursor[],
  ended: number,
): void {
  const { work } = progress;
  const { body } = requireContainer(node);
  const scopeOfFanOut = { scope: taskPathOf(iteration), plan: body, starts: body.starts };
  const { opened, left: owed } = fanOut(progress, scopeOfFanOut, reach);
  const needs = iteration.needs + ended + opened;
  const { index, tries } = iterationStateOf(iteration);
  const due = owed.length > 0 ? work.now : null;
  const walked = withTaskState(
    { ...iteration, needs, due },
    { frame: { index, tries, ...(owed.length > 0 && { reach: owed }) } },
  );
  work.put(walked);
  if (needs === 0 && owed.length === 0) completeIteration(progress, walked, node);
}

function completeIteration(progress: RunProgress, iteration: HostingTask, node: PlanNode): void {
  const container = requireContainer(node);
  const wanted = new Set(container.outputs.map((output) => output.node));
  const result = JSON.stringify(collectIterationOutputs(container, outcomesIn(progress, taskPathOf(iteration), wanted)));
  if (Buffer.byteLength(result) > resultBytesMax) {
    const error = outputsTooLarge(iteration, node, `the outputs of iteration ${iterationStateOf(iteration).index}`);
    return endHost(progress, iteration, { verdict: "failed", error });
  }
  const row = progress.work.moveTask(iteration, { type: "succeed", result });
  progress.record("frame.ended", { task: row.id, index: iterationStateOf(row).index, status: "succeeded" });
  progress.pending.push({ type: "ended", row });
}

export const outputsTooLarge = (row: TaskRow, node: PlanNode, what: string): FaultData => ({
  code: "E.RESULT.TOO_LARGE",
  message: `${what} of container ${node.id} exceed ${resultBytesMax} bytes; let its nodes hand on less, or as resources`,
  details: { task: row.id, node: node.id },
});

/** A node inside an iteration failed, or its worker cancelled it: the iteration ends with it. */
export function failIteration(progress: RunProgress, scope: TaskPath, row: EndedTask, error: FaultData): void {
  const iteration = progress.hostAt(scope);
  const container = progress.nodeOf(iteration).id;
  const details = { container, frame: iterationStateOf(iteration).index, ...error.details };
  const verdict = row.phase === "failed" ? "failed" : "cancelled";
  endHost(progress, iteration, { verdict, error: { ...error, details } });
}

export function iterationStateOf(row: TaskRow): IterationState {
  const { frame: iteration } = readTaskState(row);
  if (iteration === undefined) throw new Error(`task ${row.id} is no iteration`);
  return iteration;
}
