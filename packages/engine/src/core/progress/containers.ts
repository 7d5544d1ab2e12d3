// Containers: which iterations there are, how many are open at once, which are retried, what the result is.

import { type ContainerLoop, isConditionMet, type PlanNode, resolveLoopItems } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { EndedTask, HostingTask, InPhase, Millis, TaskRow } from "../../storage/rows.ts";
import { endHost, loadTasks, withoutCollectedItems } from "../nodes/end-host-task.ts";
import { readContainerParams } from "../nodes/iteration-values.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { iterationPath, lastStep, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import { type LoopState, readTaskState, withTaskState } from "../rows/task-state.ts";
import { earliestOf } from "../unit-of-work/row-set.ts";
import { iterationStateOf, openIteration, outputsTooLarge, requireContainer } from "./iterations.ts";
import { resultBytesMax, retryDelay } from "./outcome.ts";

/** A container was reached: its row is `hosting`, its parameters are known. */
export function openContainer(progress: RunProgress, row: HostingTask, node: PlanNode): void {
  const { loop, timeoutMs } = requireContainer(node);
  const items = loop === null || loop.mode === "while" ? null : resolveLoopItems(loop, readContainerParams(row));
  if (typeof items === "string") {
    const error = containerFault(row, node, "E.PARAMS.INVALID", `container ${node.id} cannot begin: ${items}`);
    return endHost(progress, row, { verdict: "failed", error });
  }
  const deadline = timeoutMs === null ? null : progress.work.now + timeoutMs;
  const state: LoopState = { count: items?.length ?? 1, next: 0, frames: 0, open: 0, deadline };
  advanceContainer(progress, withTaskState(row, { loop: state }), node);
}

/** The container is due: more iterations, a retry, another part of its result, or its time limit. */
export function resumeContainer(progress: RunProgress, row: HostingTask, node: PlanNode): void {
  const loop = loopStateOf(row);
  if (loop.deadline === null || loop.deadline > progress.work.now) return advanceContainer(progress, row, node);
  const limit = requireContainer(node).timeoutMs;
  const error = containerFault(row, node, "E.TIMEOUT", `container ${node.id} did not end within its ${limit} ms`);
  endHost(progress, row, { verdict: "failed", error });
}

/** An iteration has ended: open the next, retry this one, or end the container. */
export function handleIterationEnd(progress: RunProgress, host: HostingTask, iteration: EndedTask): void {
  const { work } = progress;
  const node = progress.nodeOf(host);
  const before = loopStateOf(host);
  if (before.open < 1) throw new InvariantBroken("open count", `container ${host.id} has no open iteration`);
  const loop = { ...before, open: before.open - 1 };
  if (iteration.phase === "succeeded") return handleIterationSuccess(progress, withTaskState(host, { loop }), node, iteration);
  const error = iteration.error === null ? null : (JSON.parse(iteration.error) as FaultData);
  const { retry } = requireContainer(node);
  const { index, tries } = iterationStateOf(iteration);
  if (iteration.phase === "cancelled" || retry === null || tries + 1 >= retry.maxAttempts) {
    const verdict = iteration.phase === "cancelled" ? "cancelled" : "failed";
    return endHost(progress, withTaskState(host, { loop }), { verdict, error });
  }
  const delay = retryDelay(retry, tries, work.random());
  const again = [...(loop.again ?? []), { index, tries: tries + 1, at: work.now + delay }];
  progress.record("task.retrying", { task: host.id, fence: host.fence, frame: index, delayMs: delay, error });
  advanceContainer(progress, withTaskState(host, { loop: { ...loop, again } }), node);
}

/** An iteration succeeded. In a while loop its outputs decide whether there is another. */
function handleIterationSuccess(
  progress: RunProgress,
  host: HostingTask,
  node: PlanNode,
  iteration: InPhase<TaskRow, "succeeded" | "skipped">,
): void {
  const { loop: loopSpec } = requireContainer(node);
  const loop = { ...loopStateOf(host), lastFrame: lastStep(taskPathOf(iteration)).iteration ?? 0 };
  const goesOn =
    loopSpec?.mode === "while" && loopSpec.condition !== null && isConditionMet(loopSpec.condition, JSON.parse(iteration.result));
  const count = loop.count + (goesOn ? 1 : 0);
  const after = withTaskState(host, { loop: { ...loop, count } });
  if (!goesOn || count <= loopSpec.maxIterations) return advanceContainer(progress, after, node);
  const message = `container ${node.id} reached its limit of ${loopSpec.maxIterations} iterations and its condition still holds; raise maxIterations or check its condition`;
  const error = containerFault(host, node, "E.CONTAINER.ITERATIONS", message);
  endHost(progress, after, { verdict: "failed", error });
}

/** Opens what may be open now; a container with nothing open and nothing to come is finished. */
function advanceContainer(progress: RunProgress, row: HostingTask, node: PlanNode): void {
  const { work } = progress;
  const { loop: loopSpec } = requireContainer(node);
  const most = loopSpec?.mode === "map" ? loopSpec.parallelism : 1;
  let loop = loopStateOf(row);
  let iteration = nextIteration(loop, most, work.now);
  // Written first: an iteration reads its container.
  work.put(row);
  for (; iteration !== null && progress.hasCapacity(); iteration = nextIteration(loop, most, work.now)) {
    const { index, tries } = iteration;
    const values = { item: itemAt(loopSpec, row, index), last: previousOutputs(progress, row, loop, loopSpec) };
    openIteration(progress, row, node, { number: loop.frames, index, tries, ...values });
    loop = iteration.loop;
  }
  if (loop.open === 0 && loop.next === loop.count && (loop.again ?? []).length === 0)
    return finishContainer(progress, withTaskState(row, { loop }), node);
  const times = [loop.deadline, iteration === null ? null : work.now, ...(loop.again ?? []).map(({ at }) => at)];
  work.put(withTaskState({ ...row, due: earliestOf(times) }, { loop }));
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

function itemAt(loopSpec: ContainerLoop | null, row: HostingTask, index: number): unknown {
  if (loopSpec === null || loopSpec.mode === "while") return undefined;
  const items = resolveLoopItems(loopSpec, readContainerParams(row));
  return typeof items === "string" ? undefined : items[index];
}

/** Outputs of the iteration before, where iterations follow each other. */
function previousOutputs(progress: RunProgress, row: HostingTask, loop: LoopState, loopSpec: ContainerLoop | null): unknown {
  if (loopSpec === null || loopSpec.mode === "map" || loop.lastFrame === undefined) return undefined;
  return JSON.parse(iterationResult(progress, row, loop.lastFrame)) as unknown;
}

function iterationResult(progress: RunProgress, row: HostingTask, iteration: number): string {
  const { work, run } = progress;
  return work.task(taskIdAt(run.id, iterationPath(taskPathOf(row), iteration)))?.result ?? "{}";
}

function finishContainer(progress: RunProgress, row: HostingTask, node: PlanNode): void {
  const { work } = progress;
  const { loop: loopSpec } = requireContainer(node);
  const loop = loopStateOf(row);
  if (loopSpec?.mode === "map" || loopSpec?.mode === "forEach") {
    const gathered = collectOutputs(progress, row, loop);
    if (gathered === "too large") {
      const error = outputsTooLarge(row, node, "the gathered outputs");
      return endHost(progress, row, { verdict: "failed", error });
    }
    if ("loop" in gathered) return work.put(withTaskState({ ...row, due: work.now }, { loop: gathered.loop }));
    const finished = withTaskState(row, { loop: withoutCollectedItems(loop) });
    return progress.end(work.moveTask(finished, { type: "succeed", result: gathered.result }));
  }
  const outputs = iterationResult(progress, row, loop.lastFrame ?? 0);
  const result =
    loopSpec === null ? outputs : JSON.stringify({ ...(JSON.parse(outputs) as Record<string, unknown>), iterations: loop.count });
  progress.end(work.moveTask(row, { type: "succeed", result }));
}

/**
 * The outputs of all iterations of a list, in its order, as one result; failed tries are ignored. With more rows than a turn may read, the
 * loop as far as it was read.
 */
function collectOutputs(
  progress: RunProgress,
  row: HostingTask,
  loop: LoopState,
): { result: string } | { loop: LoopState } | "too large" {
  const { work, run } = progress;
  const from = loop.gathered ?? 0;
  const to = Math.min(loop.frames, from + work.settings.sweepTasksMax);
  const items: (string | null)[] = [...(loop.items ?? Array.from({ length: loop.count }, () => null))];
  const ids = Array.from({ length: to - from }, (_, at) => taskIdAt(run.id, iterationPath(taskPathOf(row), from + at)));
  for (const iteration of loadTasks(work, ids))
    if (iteration?.phase === "succeeded") items[iterationStateOf(iteration).index] = iteration.result;
  const bytes = items.reduce((sum, item) => sum + Buffer.byteLength(item ?? "") + 1, 0);
  if (bytes > resultBytesMax) return "too large";
  if (to < loop.frames) return { loop: { ...loop, gathered: to, items } };
  // Each output is a JSON text already: read and written again it would be the same text.
  return { result: `{"items":[${items.map((item) => item ?? "null").join(",")}],"count":${loop.count}}` };
}

const containerFault = (row: HostingTask, node: PlanNode, code: string, message: string): FaultData => ({
  code,
  message,
  details: { task: row.id, node: node.id },
});

function loopStateOf(row: HostingTask): LoopState {
  const { loop } = readTaskState(row);
  if (loop === undefined) throw new Error(`container ${row.id} was never opened`);
  return loop;
}
