// Frames: one try of one iteration of a container. A frame is open while any node of its scope is; when the last has ended well its outputs
// are its result, when one fails everything inside is cancelled first. What the container makes of that is loops.ts.

import { type ContainerPlan, collectIterationOutputs, type PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { frameOf, type Slot, slotOf, taskAt } from "../rows/slot.ts";
import { type FrameState, type Spread, stateOf, withState } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { endHost } from "./inside.ts";
import { frameText } from "./offer.ts";
import { bornTask, countReach, type Flow, hasRoom, outcomesIn } from "./reach.ts";
import { spread } from "./spread.ts";

/** A larger result of a container is refused: it would be carried in its row, and into the parameters of whoever follows. */
export const resultBytesMax = 2 * 1024 * 1024;

export function containerIn(node: PlanNode): ContainerPlan {
  if (node.container === null) throw new Error(`node ${node.id} is no container`);
  return node.container;
}

export interface NewFrame {
  readonly number: number;
  readonly index: number;
  readonly tries: number;
  readonly item: unknown;
  readonly last: unknown;
}

/** A frame is born with the nodes of its body that wait for nobody; a body without any is over at once. */
export function openFrame(
  board: Board,
  tools: Tools,
  run: RunRow,
  host: TaskRow,
  node: PlanNode,
  frame: NewFrame,
  flow: Flow,
): void {
  const { number, index, tries, item, last } = frame;
  const slot = frameOf(slotOf(host), number);
  const blank = { ...bornTask(board, tools, run, slot, node, 0), key: null };
  const params = frameText({ index, item, last });
  const born = withState(moveTask(blank, { type: "host", params }, board.now), { frame: { index, tries } });
  countReach(board, flow);
  flow.opened += 1;
  board.bear(born);
  board.tell(run, "frame.opened", { task: born.id, index });
  goOn(board, tools, run, born, node, [{ from: null, at: 0 }], 0, flow);
}

/** The nodes of a frame that its fan-outs still owe are reached, as far as this turn has room. */
export function tendFrame(board: Board, tools: Tools, run: RunRow, frame: TaskRow, node: PlanNode, flow: Flow): void {
  const { reach } = frameIn(frame);
  if (reach === undefined) board.put({ ...frame, due: null });
  else if (hasRoom(board, tools, flow)) goOn(board, tools, run, frame, node, reach, 0, flow);
}

/** A node of the frame has ended well: its successors are reached. */
export function walkFrame(board: Board, tools: Tools, run: RunRow, scope: Slot, ended: number, flow: Flow): void {
  const frame = board.task(taskAt(run.id, scope));
  if (frame === null) throw new Error(`frame ${scope} of run ${run.id} has no row`);
  const node = tools.plans.nodeOf(board, run, frame);
  goOn(board, tools, run, frame, node, [{ from: ended, at: 0 }, ...(frameIn(frame).reach ?? [])], -1, flow);
}

/** Reaches what is to be reached, then counts; a frame with nothing open and nothing owed has succeeded. */
function goOn(
  board: Board,
  tools: Tools,
  run: RunRow,
  frame: TaskRow,
  node: PlanNode,
  reach: readonly Spread[],
  ended: number,
  flow: Flow,
): void {
  const { body } = containerIn(node);
  const field = { scope: slotOf(frame), plan: body, starts: body.starts };
  const { opened, left: owed } = spread(board, tools, run, field, reach, flow);
  const needs = frame.needs + ended + opened;
  const { index, tries } = frameIn(frame);
  const due = owed.length > 0 ? board.now : null;
  const walked = withState({ ...frame, needs, due }, { frame: { index, tries, ...(owed.length > 0 && { reach: owed }) } });
  board.put(walked);
  if (needs === 0 && owed.length === 0) succeedFrame(board, tools, run, walked, node, flow);
}

function succeedFrame(board: Board, tools: Tools, run: RunRow, frame: TaskRow, node: PlanNode, flow: Flow): void {
  const container = containerIn(node);
  const wanted = new Set(container.outputs.map((output) => output.node));
  const result = JSON.stringify(collectIterationOutputs(container, outcomesIn(board, tools, run, slotOf(frame), wanted)));
  if (Buffer.byteLength(result) > resultBytesMax) {
    const error = tooLarge(frame, node, `the outputs of iteration ${frameIn(frame).index}`);
    return endHost(board, tools, run, frame, { verdict: "failed", error }, flow);
  }
  const over = moveTask(frame, { type: "succeed", result }, board.now);
  board.put(over);
  board.tell(run, "frame.ended", { task: over.id, index: frameIn(over).index, status: "succeeded" });
  flow.next.push({ type: "ended", row: over });
}

export const tooLarge = (row: TaskRow, node: PlanNode, what: string): FaultData => ({
  code: "E.RESULT.TOO_LARGE",
  message: `${what} of container ${node.id} exceed ${resultBytesMax} bytes; let its nodes hand on less, or as resources`,
  details: { task: row.id, node: node.id },
});

/** A node inside a frame failed, or its worker cancelled it: the frame ends with it. */
export function failFrame(
  board: Board,
  tools: Tools,
  run: RunRow,
  scope: Slot,
  row: TaskRow,
  error: FaultData,
  flow: Flow,
): void {
  const frame = board.task(taskAt(run.id, scope));
  if (frame === null) throw new Error(`frame ${scope} of run ${run.id} has no row`);
  const container = tools.plans.nodeOf(board, run, frame).id;
  const details = { container, frame: frameIn(frame).index, ...error.details };
  const verdict = row.phase === "failed" ? "failed" : "cancelled";
  endHost(board, tools, run, frame, { verdict, error: { ...error, details } }, flow);
}

export function frameIn(row: TaskRow): FrameState {
  const { frame } = stateOf(row);
  if (frame === undefined) throw new Error(`task ${row.id} is no frame`);
  return frame;
}
