// How a task enters a queue: ready for any matching worker, parked behind a concurrency key, or parked until its time.
// A task takes its key before it becomes ready, and a released key readies the next task in the same change set.

import type { PlanNode } from "@astraflow/graph";
import type { ConcurrencyKeyRow, InPhase, LeasedTask, Millis, ReadyTask, RunRow, TaskId, TaskRow } from "../../storage/rows.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { RootBusy, RowsMissing } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

const keyQueueName = (key: string): string => `k|${key}`;

/** `<tenant>/<key>`: two tenants never share a key. */
export const concurrencyKeyOf = (run: RunRow, node: PlanNode): string | null =>
  node.policy.concurrency === undefined ? null : `${run.tenant}/${node.policy.concurrency.key}`;

export function queueDeadline(work: UnitOfWork, node: PlanNode, since: Millis = work.now): Millis | null {
  const ms = node.policy.queueTimeoutMs ?? work.settings.queueTimeoutMs;
  return ms === null ? null : since + ms;
}

/** A waiting, parked or new task enters its queue: it takes its key first, or parks behind it. */
export function enqueueTask(
  work: UnitOfWork,
  run: RunRow,
  node: PlanNode,
  task: InPhase<TaskRow, "waiting" | "parked">,
  params = task.params,
): void {
  if (task.key === null || acquireKey(work, task.key, node, task)) return readyTask(work, node, task, params);
  work.moveTask(task, { type: "park", line: keyQueueName(task.key), due: queueDeadline(work, node), params });
  work.recordRunFact(run, "task.parked", { task: task.id, key: task.key });
}

function readyTask(work: UnitOfWork, node: PlanNode, task: TaskRow, params: string | null): void {
  work.moveTask(task, { type: "ready", line: work.fleet.queueFor(task.route, task.pin), due: queueDeadline(work, node), params });
  work.newlyReady.push(task.id);
}

/** True when the task holds its key now (or did already). */
function acquireKey(work: UnitOfWork, id: string, node: PlanNode, task: TaskRow): boolean {
  const limit = node.policy.concurrency?.limit ?? 1;
  const key = work.concurrencyKey(id) ?? ({ kind: "key", id, limit, holders: [], due: null } satisfies ConcurrencyKeyRow);
  if (key.holders.includes(task.id)) return true;
  if (key.holders.length >= limit) return false;
  // The limit of the last task counts: a lowered limit takes effect as holders leave.
  work.put({ ...key, limit, holders: [...key.holders, task.id] });
  return true;
}

/** A task that ends, or waits for its retry, releases its key; the next one in the queue becomes ready in the same change set. */
export function releaseKey(work: UnitOfWork, task: TaskRow): void {
  if (task.key === null) return;
  const key = work.concurrencyKey(task.key);
  if (key === null || !key.holders.includes(task.id)) return;
  const released = { ...key, holders: key.holders.filter((holder) => holder !== task.id) };
  work.put(released);
  admitKeyWaiters(work, released, 1);
}

/** Readies tasks while the key is below its limit. A task whose run is busy makes the key due at once, so that it is not forgotten. */
export function admitKeyWaiters(work: UnitOfWork, key: ConcurrencyKeyRow, most: number): void {
  let now = key.due === null ? key : { ...key, due: null };
  const undecided = new Set<TaskId>();
  for (let readied = 0; now.holders.length < now.limit; readied++) {
    if (readied >= most + undecided.size) {
      now = { ...now, due: work.now };
      break;
    }
    let waiter: TaskRow | null = null;
    try {
      waiter = work.queueHead(keyQueueName(now.id), undecided);
      if (waiter === null) break;
      const run = work.existingRun(waiter.run);
      const node = work.nodeOf(run, waiter);
      now = { ...now, holders: [...now.holders, waiter.id] };
      readyTask(work, node, waiter, waiter.params);
    } catch (problem) {
      if (problem instanceof RootBusy) {
        now = { ...now, due: work.now };
        break;
      }
      // A task whose run cannot be read keeps its place and never gets the key; those behind it go on.
      if (problem instanceof RowsMissing || waiter === null) throw problem;
      undecided.add(waiter.id);
    }
  }
  work.put(now);
}

/** A task taken back from its holder without a verdict is queued again, under a new fence, and keeps its key. */
export function requeueTask(work: UnitOfWork, node: PlanNode, task: LeasedTask): ReadyTask {
  const due = queueDeadline(work, node);
  const moved = applyTaskTransition(task, { type: "requeue", line: work.fleet.queueFor(task.route, task.pin), due }, work.now);
  const back = work.forgetsFence ? { ...moved, fence: task.fence } : moved;
  work.put(back);
  work.newlyReady.push(back.id);
  return back;
}
