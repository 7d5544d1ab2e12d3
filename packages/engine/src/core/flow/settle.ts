// What follows when a task's row has ended, in whatever way: successors are reached, frames count down, callers are answered, the run ends.
// Everything that follows from one end is on the same board, so it is one commit. Worked off as a list: nesting may be deep.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import type { RunId, RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { callEnded, openChain } from "../chain/chain.ts";
import { moveRun } from "../rows/run.ts";
import { containerOf, lastStep, scopeOf, slotOf, taskAt, topLevel } from "../rows/slot.ts";
import { stateOf } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { failFrame, tendFrame, walkFrame } from "./frames.ts";
import { isDoomed, sweepHost } from "./inside.ts";
import { frameEnded, openContainer, tendContainer } from "./loops.ts";
import { type Flow, newFlow } from "./reach.ts";
import { isSpreading, limitOf, resumeSpreads, spread, withSpreads } from "./spread.ts";
import { condemnRun } from "./sweep.ts";

/** The row is on the board as it ended. */
export function settle(board: Board, tools: Tools, run: RunId, row: TaskRow, flow: Flow): void {
  flow.next.push({ type: "ended", row });
  follow(board, tools, run, flow);
}

/** Works off what follows, then counts. `starts`: the nodes that wait for nobody, where those are not the plan's own. */
export function follow(board: Board, tools: Tools, id: RunId, flow: Flow, starts?: readonly number[]): void {
  for (let step = flow.next.shift(); step !== undefined; step = flow.next.shift()) {
    const run = board.run(id) as RunRow;
    if (run.phase !== "queued" && run.phase !== "running") break;
    if (step.type === "ended") settleRow(board, tools, run, step.row, flow);
    else openHost(board, tools, run, step.row, flow);
  }
  countRun(board, id, flow, starts);
}

/** A host was reached. One that was ended since, with the frame around it, is not opened any more. */
function openHost(board: Board, tools: Tools, run: RunRow, row: TaskRow, flow: Flow): void {
  if (isDoomed(board, run, slotOf(row))) return;
  const node = tools.plans.nodeOf(board, run, row);
  if (isBehindChain(node, row)) openChain(board, tools, run, row, flow);
  else openContainer(board, tools, run, row, node, flow);
}

/** A host behind a chain is carried out by its chain; each call of it is carried out by itself. */
const isBehindChain = (node: PlanNode, row: TaskRow): boolean => node.chain.length > 0 && lastStep(slotOf(row)).call === null;

/** A host whose time has come: a frame or a container goes on, or is ended further. */
export function tendHost(board: Board, tools: Tools, run: RunRow, row: TaskRow): void {
  const flow = newFlow();
  const node = tools.plans.nodeOf(board, run, row);
  const { ending, frame } = stateOf(row);
  // What is around it is being ended, and ends it along.
  if (isDoomed(board, run, slotOf(row))) board.put({ ...row, due: null });
  else if (ending !== undefined) sweepHost(board, tools, run, row, ending, flow);
  else if (frame !== undefined) tendFrame(board, tools, run, row, node, flow);
  else if (node.container === null || isBehindChain(node, row)) throw new Error(`host ${row.id} has nothing to be due for`);
  else tendContainer(board, tools, run, row, node, flow);
  follow(board, tools, run.id, flow);
}

/** A run whose time has come: a fan-out goes on, or its time is over. */
export function tendRun(board: Board, tools: Tools, run: RunRow): void {
  const limit = limitOf(run);
  if (limit !== null && limit <= board.now) {
    const message = `run ${run.id} did not end within its time limit`;
    condemnRun(board, tools, run, "failed", { code: "E.TIMEOUT", message });
    return;
  }
  const flow = newFlow();
  resumeSpreads(board, tools, run, tools.plans.of(board, run), flow);
  follow(board, tools, run.id, flow);
}

/** What was opened and ended goes into the run's row; a run with nothing open and nothing to come has succeeded. */
function countRun(board: Board, id: RunId, flow: Flow, starts?: readonly number[]): void {
  const run = board.run(id) as RunRow;
  const { opened } = flow;
  const left = flow.left.length === 0 ? flow.left : flow.left.splice(0);
  flow.opened = 0;
  if (run.phase !== "queued" && run.phase !== "running") return;
  if (run.open + opened === 0 && left.length === 0 && !isSpreading(run)) {
    board.put(moveRun(run, { type: "succeed" }, board.now));
    board.tell(run, "run.succeeded", {});
  } else if (opened !== 0 || left.length > 0)
    board.put(withSpreads(moveRun(run, { type: "open", tasks: opened }, board.now), left, board.now, starts));
}

function settleRow(board: Board, tools: Tools, run: RunRow, row: TaskRow, flow: Flow): void {
  flow.opened -= 1;
  const slot = slotOf(row);
  if (isDoomed(board, run, slot)) return;
  const step = lastStep(slot);
  if (step.frame !== null) {
    const container = board.task(taskAt(run.id, containerOf(slot))) as TaskRow;
    return frameEnded(board, tools, run, container, row, flow);
  }
  const node = tools.plans.nodeOf(board, run, row);
  if (step.call !== null || node.host !== null) return callEnded(board, tools, run, row, flow);
  const scope = scopeOf(slot);
  if (row.phase === "failed" || row.phase === "cancelled") {
    if (scope === topLevel) condemn(board, tools, run, row, node, flow);
    else failFrame(board, tools, run, scope, row, errorOf(row, node), flow);
  } else if (scope === topLevel) {
    const plan = tools.plans.of(board, run);
    const field = { scope, plan, starts: plan.starts };
    flow.left.push(...spread(board, tools, run, field, [{ from: node.ordinal, at: 0 }], flow).left);
  } else walkFrame(board, tools, run, scope, node.ordinal, flow);
}

/** A node of the top level failed, or its worker cancelled it: the run ends with it. */
function condemn(board: Board, tools: Tools, run: RunRow, row: TaskRow, node: PlanNode, flow: Flow): void {
  const { opened } = flow;
  flow.opened = 0;
  flow.next.length = 0;
  flow.left.length = 0;
  condemnRun(
    board,
    tools,
    opened === 0 ? run : moveRun(run, { type: "open", tasks: opened }, board.now),
    row.phase === "failed" ? "failed" : "cancelled",
    errorOf(row, node),
  );
}

/** The error of a row, with the task and node it is about; a container's error names the one inside that it comes from. */
function errorOf(row: TaskRow, node: PlanNode): FaultData {
  const error = row.error === null ? cancelledBy(row) : (JSON.parse(row.error) as FaultData);
  const where = { task: row.id, node: node.id };
  return { ...error, details: node.container === null ? { ...error.details, ...where } : { ...where, ...error.details } };
}

const cancelledBy = (row: TaskRow): FaultData => ({
  code: "E.RUNNER.CANCELLED",
  message: `task ${row.id} was cancelled by its worker`,
});
