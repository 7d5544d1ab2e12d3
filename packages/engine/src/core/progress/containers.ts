// Containers: which iterations there are, how many of them are open at once, which are tried again, what comes out. The life of a single frame
// is frames.ts, ending one early end-host.ts; what follows from a container's end is follow-up.ts.

import { type ContainerLoop, isConditionMet, type PlanNode, resolveLoopItems } from "@astraflow/graph";
import type { FaultData } from "../../interface/fault-data.ts";
import type { Millis, RunRow, TaskRow } from "../../storage/rows.ts";
import { endHost, withoutCollectedItems } from "../nodes/end-host.ts";
import { readContainerParams } from "../nodes/iteration-values.ts";
import { type FollowUps, hasTurnCapacity } from "../nodes/reach.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { iterationSlot, lastStep, slotOf, taskIdAt } from "../rows/slot.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { type LoopState, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { collectOutputs } from "./iteration-outputs.ts";
import { iterationStateOf, openIteration, outputsTooLarge, requireContainer } from "./iterations.ts";

/** A container was reached: its row is `hosting`, its parameters are known. */
export function openContainer(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  node: PlanNode,
  followUps: FollowUps,
): void {
  const { loop, timeoutMs } = requireContainer(node);
  const items = loop === null || loop.mode === "while" ? null : resolveLoopItems(loop, readContainerParams(row));
  if (typeof items === "string") {
    const error = containerFault(row, node, "E.PARAMS.INVALID", `container ${node.id} cannot begin: ${items}`);
    return endHost(work, context, run, row, { verdict: "failed", error }, followUps);
  }
  const deadline = timeoutMs === null ? null : work.now + timeoutMs;
  const state: LoopState = { count: items?.length ?? 1, next: 0, frames: 0, open: 0, deadline };
  advanceContainer(work, context, run, withTaskState(row, { loop: state }), node, followUps);
}

/** Its time has come: more frames, another try, another part of its result, or the end of its time. */
export function resumeContainer(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  node: PlanNode,
  followUps: FollowUps,
): void {
  const loop = loopStateOf(row);
  if (loop.deadline === null || loop.deadline > work.now) return advanceContainer(work, context, run, row, node, followUps);
  const limit = requireContainer(node).timeoutMs;
  const error = containerFault(row, node, "E.TIMEOUT", `container ${node.id} did not end within its ${limit} ms`);
  endHost(work, context, run, row, { verdict: "failed", error }, followUps);
}

/** A frame has ended: the next iteration, another try of this one, or the end of all. */
export function handleIterationEnd(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  host: TaskRow,
  iteration: TaskRow,
  followUps: FollowUps,
): void {
  const node = context.plans.nodeOf(work, run, host);
  const before = loopStateOf(host);
  if (before.open < 1) throw new InvariantBroken("open count", `container ${host.id} has no open iteration`);
  const loop = { ...before, open: before.open - 1 };
  if (iteration.phase === "succeeded")
    return handleIterationSuccess(work, context, run, withTaskState(host, { loop }), node, iteration, followUps);
  const error = iteration.error === null ? null : (JSON.parse(iteration.error) as FaultData);
  const { retry } = requireContainer(node);
  const { index, tries } = iterationStateOf(iteration);
  if (iteration.phase === "cancelled" || retry === null || tries + 1 >= retry.maxAttempts) {
    const verdict = iteration.phase === "cancelled" ? "cancelled" : "failed";
    return endHost(work, context, run, withTaskState(host, { loop }), { verdict, error }, followUps);
  }
  const backoff = Math.min(retry.backoffMsMax, retry.backoffMs * retry.factor ** tries);
  const delay = Math.round(backoff * (0.8 + 0.4 * context.random()));
  const again = [...(loop.again ?? []), { index, tries: tries + 1, at: work.now + delay }];
  work.recordRunFact(run, "task.retrying", { task: host.id, fence: host.fence, frame: index, delayMs: delay, error });
  advanceContainer(work, context, run, withTaskState(host, { loop: { ...loop, again } }), node, followUps);
}

/** An iteration is over. One of a while loop says whether there is another. */
function handleIterationSuccess(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  host: TaskRow,
  node: PlanNode,
  iteration: TaskRow,
  followUps: FollowUps,
): void {
  const { loop: loopSpec } = requireContainer(node);
  const loop = { ...loopStateOf(host), lastFrame: lastStep(slotOf(iteration)).iteration ?? 0 };
  const goesOn =
    loopSpec?.mode === "while" &&
    loopSpec.condition !== null &&
    isConditionMet(loopSpec.condition, JSON.parse(iteration.result ?? "{}"));
  const count = loop.count + (goesOn ? 1 : 0);
  const after = withTaskState(host, { loop: { ...loop, count } });
  if (!goesOn || count <= loopSpec.maxIterations) return advanceContainer(work, context, run, after, node, followUps);
  const message = `container ${node.id} still wants to go on after ${loopSpec.maxIterations} iterations; raise maxIterations or check its condition`;
  const error = containerFault(host, node, "E.CONTAINER.ITERATIONS", message);
  endHost(work, context, run, after, { verdict: "failed", error }, followUps);
}

/** Opens what may be open now; a container with nothing open and nothing to come has its result. */
function advanceContainer(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  node: PlanNode,
  followUps: FollowUps,
): void {
  const { loop: loopSpec } = requireContainer(node);
  const most = loopSpec?.mode === "map" ? loopSpec.parallelism : 1;
  let loop = loopStateOf(row);
  let iteration = nextIteration(loop, most, work.now);
  // Written first: a frame reads its container.
  work.put(row);
  for (; iteration !== null && hasTurnCapacity(work, context, followUps); iteration = nextIteration(loop, most, work.now)) {
    const { index, tries } = iteration;
    const values = { item: itemAt(loopSpec, row, index), last: previousOutputs(work, run, row, loop, loopSpec) };
    openIteration(work, context, run, row, node, { number: loop.frames, index, tries, ...values }, followUps);
    loop = iteration.loop;
  }
  if (loop.open === 0 && loop.next === loop.count && (loop.again ?? []).length === 0)
    return finishContainer(work, context, run, withTaskState(row, { loop }), node, followUps);
  const times = [loop.deadline, iteration === null ? null : work.now, ...(loop.again ?? []).map(({ at }) => at)];
  work.put(withTaskState({ ...row, due: earliest(times) }, { loop }));
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

function itemAt(loopSpec: ContainerLoop | null, row: TaskRow, index: number): unknown {
  if (loopSpec === null || loopSpec.mode === "while") return undefined;
  const items = resolveLoopItems(loopSpec, readContainerParams(row));
  return typeof items === "string" ? undefined : items[index];
}

/** Outputs of the iteration before, where iterations follow each other. */
function previousOutputs(work: UnitOfWork, run: RunRow, row: TaskRow, loop: LoopState, loopSpec: ContainerLoop | null): unknown {
  if (loopSpec === null || loopSpec.mode === "map" || loop.lastFrame === undefined) return undefined;
  return JSON.parse(iterationResult(work, run, row, loop.lastFrame)) as unknown;
}

function iterationResult(work: UnitOfWork, run: RunRow, row: TaskRow, iteration: number): string {
  return work.task(taskIdAt(run.id, iterationSlot(slotOf(row), iteration)))?.result ?? "{}";
}

function finishContainer(
  work: UnitOfWork,
  context: DecisionContext,
  run: RunRow,
  row: TaskRow,
  node: PlanNode,
  followUps: FollowUps,
): void {
  const { loop: loopSpec } = requireContainer(node);
  const loop = loopStateOf(row);
  if (loopSpec?.mode === "map" || loopSpec?.mode === "forEach") {
    const gathered = collectOutputs(work, context, run, row, loop);
    if (gathered === "too large") {
      const error = outputsTooLarge(row, node, "the gathered outputs");
      return endHost(work, context, run, row, { verdict: "failed", error }, followUps);
    }
    if ("loop" in gathered) return work.put(withTaskState({ ...row, due: work.now }, { loop: gathered.loop }));
    return completeContainer(work, run, withTaskState(row, { loop: withoutCollectedItems(loop) }), gathered.result, followUps);
  }
  const outputs = iterationResult(work, run, row, loop.lastFrame ?? 0);
  const result =
    loopSpec === null ? outputs : JSON.stringify({ ...(JSON.parse(outputs) as Record<string, unknown>), iterations: loop.count });
  completeContainer(work, run, row, result, followUps);
}

function completeContainer(work: UnitOfWork, run: RunRow, row: TaskRow, result: string, followUps: FollowUps): void {
  const endedRow = applyTaskTransition(row, { type: "succeed", result }, work.now);
  work.put(endedRow);
  work.recordRunFact(run, "task.succeeded", { task: endedRow.id, fence: endedRow.fence, worker: null });
  followUps.pending.push({ type: "ended", row: endedRow });
}

const containerFault = (row: TaskRow, node: PlanNode, code: string, message: string): FaultData => ({
  code,
  message,
  details: { task: row.id, node: node.id },
});

function loopStateOf(row: TaskRow): LoopState {
  const { loop } = readTaskState(row);
  if (loop === undefined) throw new Error(`container ${row.id} was never opened`);
  return loop;
}

const earliest = (times: readonly (Millis | null)[]): Millis | null =>
  times.reduce((least, at) => (at !== null && (least === null || at < least) ? at : least), null);
