// What follows when a task's row has ended, in whatever way: successors are reached, frames count down, callers are answered, the run ends.
// Everything that follows from one end is on the same board, so it is one commit. Worked off as a list: nesting may be deep.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/fault-data.ts";
import type { RunId, RunRow, TaskRow } from "../../storage/rows.ts";
import { continueEndingHost, isInsideEndedHost } from "../nodes/end-host.ts";
import { endRunEarly } from "../nodes/end-run.ts";
import { fanOut, hasPendingFanOut, resumeFanOuts, runDeadline, withPendingFanOuts } from "../nodes/fan-out.ts";
import { type FollowUps, newFollowUps } from "../nodes/reach.ts";
import { applyRunTransition } from "../rows/run.ts";
import { containerSlot, lastStep, scopeOf, slotOf, taskIdAt, topLevel } from "../rows/slot.ts";
import { readTaskState } from "../rows/task-state.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { handleIterationEnd, openContainer, resumeContainer } from "./containers.ts";
import { continueIteration, failIteration, resumeIteration } from "./iterations.ts";
import { handleCallEnd, openChain } from "./middleware-chain.ts";

/** The row is on the unit of work as it ended. */
export function handleTaskEnd(work: UnitOfWork, context: DecisionContext, run: RunId, row: TaskRow, followUps: FollowUps): void {
  followUps.pending.push({ type: "ended", row });
  runFollowUps(work, context, run, followUps);
}

/** Works off what follows, then counts. `starts`: the nodes that wait for nobody, where those are not the plan's own. */
export function runFollowUps(
  work: UnitOfWork,
  context: DecisionContext,
  id: RunId,
  followUps: FollowUps,
  starts?: readonly number[],
): void {
  for (let step = followUps.pending.shift(); step !== undefined; step = followUps.pending.shift()) {
    const run = work.run(id) as RunRow;
    if (run.phase !== "queued" && run.phase !== "running") break;
    if (step.type === "ended") handleEndedRow(work, context, run, step.row, followUps);
    else openHost(work, context, run, step.row, followUps);
  }
  updateOpenCount(work, id, followUps, starts);
}

/** A host was reached. One that was ended since, with the frame around it, is not opened any more. */
function openHost(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow, followUps: FollowUps): void {
  if (isInsideEndedHost(work, run, slotOf(row))) return;
  const node = context.plans.nodeOf(work, run, row);
  if (runsThroughChain(node, row)) openChain(work, context, run, row, followUps);
  else openContainer(work, context, run, row, node, followUps);
}

/** A host behind a chain is carried out by its chain; each call of it is carried out by itself. */
const runsThroughChain = (node: PlanNode, row: TaskRow): boolean => node.chain.length > 0 && lastStep(slotOf(row)).call === null;

/** A host whose time has come: a frame or a container goes on, or is ended further. */
export function resumeHost(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow): void {
  const followUps = newFollowUps();
  const node = context.plans.nodeOf(work, run, row);
  const { ending, frame: iteration } = readTaskState(row);
  // What is around it is being ended, and ends it along.
  if (isInsideEndedHost(work, run, slotOf(row))) work.put({ ...row, due: null });
  else if (ending !== undefined) continueEndingHost(work, context, run, row, ending, followUps);
  else if (iteration !== undefined) resumeIteration(work, context, run, row, node, followUps);
  else if (node.container === null || runsThroughChain(node, row)) throw new Error(`host ${row.id} has nothing to be due for`);
  else resumeContainer(work, context, run, row, node, followUps);
  runFollowUps(work, context, run.id, followUps);
}

/** A run whose time has come: a fan-out goes on, or its time is over. */
export function resumeRun(work: UnitOfWork, context: DecisionContext, run: RunRow): void {
  const limit = runDeadline(run);
  if (limit !== null && limit <= work.now) {
    const message = `run ${run.id} did not end within its time limit`;
    endRunEarly(work, context, run, "failed", { code: "E.TIMEOUT", message });
    return;
  }
  const followUps = newFollowUps();
  resumeFanOuts(work, context, run, context.plans.planOf(work, run), followUps);
  runFollowUps(work, context, run.id, followUps);
}

/** What was opened and ended goes into the run's row; a run with nothing open and nothing to come has succeeded. */
function updateOpenCount(work: UnitOfWork, id: RunId, followUps: FollowUps, starts?: readonly number[]): void {
  const run = work.run(id) as RunRow;
  const { openedTasks: opened } = followUps;
  const left = followUps.unfinishedFanOuts.length === 0 ? followUps.unfinishedFanOuts : followUps.unfinishedFanOuts.splice(0);
  followUps.openedTasks = 0;
  if (run.phase !== "queued" && run.phase !== "running") return;
  if (run.open + opened === 0 && left.length === 0 && !hasPendingFanOut(run)) {
    work.put(applyRunTransition(run, { type: "succeed" }, work.now));
    work.recordRunFact(run, "run.succeeded", {});
  } else if (opened !== 0 || left.length > 0)
    work.put(withPendingFanOuts(applyRunTransition(run, { type: "open", tasks: opened }, work.now), left, work.now, starts));
}

function handleEndedRow(work: UnitOfWork, context: DecisionContext, run: RunRow, row: TaskRow, followUps: FollowUps): void {
  followUps.openedTasks -= 1;
  const slot = slotOf(row);
  if (isInsideEndedHost(work, run, slot)) return;
  const step = lastStep(slot);
  if (step.iteration !== null) {
    const container = work.task(taskIdAt(run.id, containerSlot(slot))) as TaskRow;
    return handleIterationEnd(work, context, run, container, row, followUps);
  }
  const node = context.plans.nodeOf(work, run, row);
  if (step.call !== null || node.host !== null) return handleCallEnd(work, context, run, row, followUps);
  const scope = scopeOf(slot);
  if (row.phase === "failed" || row.phase === "cancelled") {
    if (scope === topLevel) endRunWithTask(work, context, run, row, node, followUps);
    else failIteration(work, context, run, scope, row, errorWithLocation(row, node), followUps);
  } else if (scope === topLevel) {
    const plan = context.plans.planOf(work, run);
    const scopeOfFanOut = { scope, plan, starts: plan.starts };
    followUps.unfinishedFanOuts.push(
      ...fanOut(work, context, run, scopeOfFanOut, [{ from: node.ordinal, at: 0 }], followUps).left,
    );
  } else continueIteration(work, context, run, scope, node.ordinal, followUps);
}

/** A node of the top level failed, or its worker cancelled it: the run ends with it. */
function endRunWithTask(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  node: PlanNode,
  followUps: FollowUps,
): void {
  const { openedTasks: opened } = followUps;
  followUps.openedTasks = 0;
  followUps.pending.length = 0;
  followUps.unfinishedFanOuts.length = 0;
  endRunEarly(
    work,
    context,
    opened === 0 ? run : applyRunTransition(run, { type: "open", tasks: opened }, work.now),
    row.phase === "failed" ? "failed" : "cancelled",
    errorWithLocation(row, node),
  );
}

/** The error of a row, with the task and node it is about; a container's error names the one inside that it comes from. */
function errorWithLocation(row: TaskRow, node: PlanNode): FaultData {
  const error = row.error === null ? workerCancelled(row) : (JSON.parse(row.error) as FaultData);
  const where = { task: row.id, node: node.id };
  return { ...error, details: node.container === null ? { ...error.details, ...where } : { ...where, ...error.details } };
}

const workerCancelled = (row: TaskRow): FaultData => ({
  code: "E.RUNNER.CANCELLED",
  message: `task ${row.id} was cancelled by its worker`,
});
