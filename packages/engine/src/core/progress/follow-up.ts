// What follows when a task has ended, all in one commit. A list of work and not recursion: nesting may be deep.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { EndedTask, HostingTask, LiveRun } from "../../storage/rows.ts";
import { continueEndingHost, isInsideEndedHost } from "../nodes/end-host-task.ts";
import { endRunEarly } from "../nodes/end-run.ts";
import { fanOut, hasPendingFanOut, resumeFanOuts, runDeadline, withPendingFanOuts } from "../nodes/fan-out.ts";
import { runsThroughChain } from "../nodes/reach.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { applyRunTransition, isRunLive } from "../rows/run.ts";
import { containerPath, lastStep, scopeOf, taskPathOf, topLevel } from "../rows/task-path.ts";
import { readTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { handleIterationEnd, openContainer, resumeContainer } from "./containers.ts";
import { continueIteration, failIteration, resumeIteration } from "./iterations.ts";
import { handleCallEnd, openChain } from "./middleware-chain.ts";

/** The ended row is written already. */
export function handleTaskEnd(progress: RunProgress, row: EndedTask): void {
  progress.pending.push({ type: "ended", row });
  runFollowUps(progress);
}

/** Works the list off, then updates the open count. `starts`: the start nodes, if they are not the plan's own. */
export function runFollowUps(progress: RunProgress, starts?: readonly number[]): void {
  for (let step = progress.pending.shift(); step !== undefined; step = progress.pending.shift()) {
    const run = progress.refresh();
    if (!isRunLive(run)) break;
    if (step.type === "ended") handleEndedRow(progress, step.row);
    else openHost(progress, step.row);
  }
  updateOpenCount(progress, starts);
}

/** A host was reached. One that was ended since, with the iteration around it, is not opened any more. */
function openHost(progress: RunProgress, row: HostingTask): void {
  if (isInsideEndedHost(progress, taskPathOf(row))) return;
  const node = progress.nodeOf(row);
  if (runsThroughChain(node, row)) openChain(progress, row);
  else openContainer(progress, row, node);
}

/** A host is due: an iteration or a container continues, or continues to end. */
export function resumeHost(progress: RunProgress, row: HostingTask): void {
  const node = progress.nodeOf(row);
  const { ending, frame: iteration } = readTaskState(row);
  // What is around it is being ended, and ends it along.
  if (isInsideEndedHost(progress, taskPathOf(row))) progress.work.put({ ...row, due: null });
  else if (ending !== undefined) continueEndingHost(progress, row, ending);
  else if (iteration !== undefined) resumeIteration(progress, row, node);
  else if (node.container === null || runsThroughChain(node, row)) throw new Error(`host ${row.id} has nothing to be due for`);
  else resumeContainer(progress, row, node);
  runFollowUps(progress);
}

/** A run is due: a fan-out continues, or its time limit has passed. */
export function resumeRun(work: UnitOfWork, run: LiveRun): void {
  const limit = runDeadline(run);
  if (limit !== null && limit <= work.now) {
    const message = `run ${run.id} did not end within its time limit`;
    endRunEarly(work, run, "failed", { code: "E.TIMEOUT", message });
    return;
  }
  const progress = new RunProgress(work, run);
  resumeFanOuts(progress, run);
  runFollowUps(progress);
}

/** Updates the open count of the run; a run with nothing open and nothing to come has succeeded. */
function updateOpenCount(progress: RunProgress, starts?: readonly number[]): void {
  const { work, openedTasks: opened } = progress;
  const run = progress.refresh();
  const left = progress.unfinishedFanOuts.length === 0 ? progress.unfinishedFanOuts : progress.unfinishedFanOuts.splice(0);
  progress.openedTasks = 0;
  if (!isRunLive(run)) return;
  if (run.open + opened === 0 && left.length === 0 && !hasPendingFanOut(run)) {
    work.moveRun(run, { type: "succeed" });
    progress.record("run.succeeded", {});
  } else if (opened !== 0 || left.length > 0)
    work.put(withPendingFanOuts(applyRunTransition(run, { type: "open", tasks: opened }, work.now), left, work.now, starts));
}

function handleEndedRow(progress: RunProgress, row: EndedTask): void {
  progress.openedTasks -= 1;
  const path = taskPathOf(row);
  if (isInsideEndedHost(progress, path)) return;
  const step = lastStep(path);
  if (step.iteration !== null) {
    return handleIterationEnd(progress, progress.hostAt(containerPath(path)), row);
  }
  const node = progress.nodeOf(row);
  if (step.call !== null || node.host !== null) return handleCallEnd(progress, row);
  const scope = scopeOf(path);
  if (row.phase === "failed" || row.phase === "cancelled") {
    if (scope === topLevel) endRunWithTask(progress, row, node);
    else failIteration(progress, scope, row, errorWithLocation(row, node));
  } else if (scope === topLevel) {
    const { plan } = progress;
    const scopeOfFanOut = { scope, plan, starts: plan.starts };
    progress.unfinishedFanOuts.push(...fanOut(progress, scopeOfFanOut, [{ from: node.ordinal, at: 0 }]).left);
  } else continueIteration(progress, scope, node.ordinal);
}

/** A node of the top level failed, or its worker cancelled it: the run ends with it. */
function endRunWithTask(progress: RunProgress, row: EndedTask, node: PlanNode): void {
  const { work, run, openedTasks: opened } = progress;
  progress.openedTasks = 0;
  progress.pending.length = 0;
  progress.unfinishedFanOuts.length = 0;
  endRunEarly(
    work,
    opened === 0 ? run : applyRunTransition(run, { type: "open", tasks: opened }, work.now),
    row.phase === "failed" ? "failed" : "cancelled",
    errorWithLocation(row, node),
  );
}

/** The error of a row with its task and node; a container's error names the task inside that caused it. */
function errorWithLocation(row: EndedTask, node: PlanNode): FaultData {
  const error = row.error === null ? workerCancelled(row) : (JSON.parse(row.error) as FaultData);
  const where = { task: row.id, node: node.id };
  return { ...error, details: node.container === null ? { ...error.details, ...where } : { ...where, ...error.details } };
}

const workerCancelled = (row: EndedTask): FaultData => ({
  code: "E.RUNNER.CANCELLED",
  message: `task ${row.id} was cancelled by its worker`,
});
