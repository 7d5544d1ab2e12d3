// Containers: which iterations there are, how many of them are open at once, which are tried again, what comes out. The life of a single frame
// is frames.ts, ending one early inside.ts; what follows from a container's end is settle.ts.

import { type ContainerLoop, isConditionMet, type PlanNode, resolveLoopItems } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import type { Millis, RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { frameOf, lastStep, slotOf, taskAt } from "../rows/slot.ts";
import { type LoopState, stateOf, withState } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { containerIn, frameIn, openFrame, tooLarge } from "./frames.ts";
import { gather } from "./gather.ts";
import { endHost, withoutItems } from "./inside.ts";
import { paramsOfHost } from "./offer.ts";
import { type Flow, hasRoom } from "./reach.ts";

/** A container was reached: its row is `hosting`, its parameters are known. */
export function openContainer(board: Board, tools: Tools, run: RunRow, row: TaskRow, node: PlanNode, flow: Flow): void {
  const { loop, timeoutMs } = containerIn(node);
  const items = loop === null || loop.mode === "while" ? null : resolveLoopItems(loop, paramsOfHost(row));
  if (typeof items === "string") {
    const error = faultOf(row, node, "E.PARAMS.INVALID", `container ${node.id} cannot begin: ${items}`);
    return endHost(board, tools, run, row, { verdict: "failed", error }, flow);
  }
  const deadline = timeoutMs === null ? null : board.now + timeoutMs;
  const state: LoopState = { count: items?.length ?? 1, next: 0, frames: 0, open: 0, deadline };
  advance(board, tools, run, withState(row, { loop: state }), node, flow);
}

/** Its time has come: more frames, another try, another part of its result, or the end of its time. */
export function tendContainer(board: Board, tools: Tools, run: RunRow, row: TaskRow, node: PlanNode, flow: Flow): void {
  const loop = loopIn(row);
  if (loop.deadline === null || loop.deadline > board.now) return advance(board, tools, run, row, node, flow);
  const limit = containerIn(node).timeoutMs;
  const error = faultOf(row, node, "E.TIMEOUT", `container ${node.id} did not end within its ${limit} ms`);
  endHost(board, tools, run, row, { verdict: "failed", error }, flow);
}

/** A frame has ended: the next iteration, another try of this one, or the end of all. */
export function frameEnded(board: Board, tools: Tools, run: RunRow, host: TaskRow, frame: TaskRow, flow: Flow): void {
  const node = tools.plans.nodeOf(board, run, host);
  const before = loopIn(host);
  const loop = { ...before, open: before.open - 1 };
  if (frame.phase === "succeeded") return iterated(board, tools, run, withState(host, { loop }), node, frame, flow);
  const error = frame.error === null ? null : (JSON.parse(frame.error) as FaultData);
  const { retry } = containerIn(node);
  const { index, tries } = frameIn(frame);
  if (frame.phase === "cancelled" || retry === null || tries + 1 >= retry.maxAttempts) {
    const verdict = frame.phase === "cancelled" ? "cancelled" : "failed";
    return endHost(board, tools, run, withState(host, { loop }), { verdict, error }, flow);
  }
  const backoff = Math.min(retry.backoffMsMax, retry.backoffMs * retry.factor ** tries);
  const delay = Math.round(backoff * (0.8 + 0.4 * tools.roll()));
  const again = [...(loop.again ?? []), { index, tries: tries + 1, at: board.now + delay }];
  board.tell(run, "task.retrying", { task: host.id, fence: host.fence, frame: index, delayMs: delay, error });
  advance(board, tools, run, withState(host, { loop: { ...loop, again } }), node, flow);
}

/** An iteration is over. One of a while loop says whether there is another. */
function iterated(board: Board, tools: Tools, run: RunRow, host: TaskRow, node: PlanNode, frame: TaskRow, flow: Flow): void {
  const { loop: form } = containerIn(node);
  const loop = { ...loopIn(host), lastFrame: lastStep(slotOf(frame)).frame ?? 0 };
  const goesOn =
    form?.mode === "while" && form.condition !== null && isConditionMet(form.condition, JSON.parse(frame.result ?? "{}"));
  const count = loop.count + (goesOn ? 1 : 0);
  const after = withState(host, { loop: { ...loop, count } });
  if (!goesOn || count <= form.maxIterations) return advance(board, tools, run, after, node, flow);
  const message = `container ${node.id} still wants to go on after ${form.maxIterations} iterations; raise maxIterations or check its condition`;
  const error = faultOf(host, node, "E.CONTAINER.ITERATIONS", message);
  endHost(board, tools, run, after, { verdict: "failed", error }, flow);
}

/** Opens what may be open now; a container with nothing open and nothing to come has its result. */
function advance(board: Board, tools: Tools, run: RunRow, row: TaskRow, node: PlanNode, flow: Flow): void {
  const { loop: form } = containerIn(node);
  const most = form?.mode === "map" ? form.parallelism : 1;
  let loop = loopIn(row);
  let iteration = nextIteration(loop, most, board.now);
  // Written first: a frame reads its container.
  board.put(row);
  for (; iteration !== null && hasRoom(board, tools, flow); iteration = nextIteration(loop, most, board.now)) {
    const { index, tries } = iteration;
    const values = { item: itemAt(form, row, index), last: lastOf(board, run, row, loop, form) };
    openFrame(board, tools, run, row, node, { number: loop.frames, index, tries, ...values }, flow);
    loop = iteration.loop;
  }
  if (loop.open === 0 && loop.next === loop.count && (loop.again ?? []).length === 0)
    return finish(board, tools, run, withState(row, { loop }), node, flow);
  const times = [loop.deadline, iteration === null ? null : board.now, ...(loop.again ?? []).map(({ at }) => at)];
  board.put(withState({ ...row, due: earliest(times) }, { loop }));
}

/** The iteration to open next, and the loop once it is open. One that waits for another try keeps its place among those open. */
function nextIteration(loop: LoopState, most: number, now: Millis): { index: number; tries: number; loop: LoopState } | null {
  const again = loop.again ?? [];
  if (loop.open >= most) return null;
  const opened = { ...loop, frames: loop.frames + 1, open: loop.open + 1 };
  const retried = again.find(({ at }) => at <= now);
  if (retried !== undefined) {
    const { index, tries } = retried;
    return { index, tries, loop: { ...opened, again: again.filter((one) => one !== retried) } };
  }
  if (loop.next >= loop.count || loop.open + again.length >= most) return null;
  return { index: loop.next, tries: 0, loop: { ...opened, next: loop.next + 1 } };
}

function itemAt(form: ContainerLoop | null, row: TaskRow, index: number): unknown {
  if (form === null || form.mode === "while") return undefined;
  const items = resolveLoopItems(form, paramsOfHost(row));
  return typeof items === "string" ? undefined : items[index];
}

/** Outputs of the iteration before, where iterations follow each other. */
function lastOf(board: Board, run: RunRow, row: TaskRow, loop: LoopState, form: ContainerLoop | null): unknown {
  if (form === null || form.mode === "map" || loop.lastFrame === undefined) return undefined;
  return JSON.parse(resultOf(board, run, row, loop.lastFrame)) as unknown;
}

function resultOf(board: Board, run: RunRow, row: TaskRow, frame: number): string {
  return board.task(taskAt(run.id, frameOf(slotOf(row), frame)))?.result ?? "{}";
}

function finish(board: Board, tools: Tools, run: RunRow, row: TaskRow, node: PlanNode, flow: Flow): void {
  const { loop: form } = containerIn(node);
  const loop = loopIn(row);
  if (form?.mode === "map" || form?.mode === "forEach") {
    const gathered = gather(board, tools, run, row, loop);
    if (gathered === "too large") {
      const error = tooLarge(row, node, "the gathered outputs");
      return endHost(board, tools, run, row, { verdict: "failed", error }, flow);
    }
    if ("loop" in gathered) return board.put(withState({ ...row, due: board.now }, { loop: gathered.loop }));
    return succeed(board, run, withState(row, { loop: withoutItems(loop) }), gathered.result, flow);
  }
  const outputs = resultOf(board, run, row, loop.lastFrame ?? 0);
  const result =
    form === null ? outputs : JSON.stringify({ ...(JSON.parse(outputs) as Record<string, unknown>), iterations: loop.count });
  succeed(board, run, row, result, flow);
}

function succeed(board: Board, run: RunRow, row: TaskRow, result: string, flow: Flow): void {
  const over = moveTask(row, { type: "succeed", result }, board.now);
  board.put(over);
  board.tell(run, "task.succeeded", { task: over.id, fence: over.fence, worker: null });
  flow.next.push({ type: "ended", row: over });
}

const faultOf = (row: TaskRow, node: PlanNode, code: string, message: string): FaultData => ({
  code,
  message,
  details: { task: row.id, node: node.id },
});

function loopIn(row: TaskRow): LoopState {
  const { loop } = stateOf(row);
  if (loop === undefined) throw new Error(`container ${row.id} was never opened`);
  return loop;
}

const earliest = (times: readonly (Millis | null)[]): Millis | null =>
  times.reduce((least, at) => (at !== null && (least === null || at < least) ? at : least), null);
