// What an autoscaler needs to know of a tenant: how much work waits, and how much its workers can take.

import { readCondition, type StoreReader } from "@astraflow/engine";
import type { Scaling } from "@astraflow/protocol";
import { drainReasonsOf, isSaturated, readWorkerDescription } from "../presentation/worker-view.ts";

/** Open tasks of a tenant that are counted: with so many, more workers are needed whatever the exact number. */
export const countedTasksMax = 10_000;

export async function readScaling(reader: StoreReader, tenant: string): Promise<Scaling> {
  const [depth, { items, head }] = await Promise.all([
    reader.page({ page: "depth", tenant, max: countedTasksMax }),
    reader.page({ page: "workers", tenant }),
  ]);
  const tasksIn = (phase: "ready" | "leased"): number => depth.items.find((one) => one.phase === phase)?.tasks ?? 0;
  const queued = tasksIn("ready");
  const running = tasksIn("leased");
  const isPartial = depth.items.reduce((sum, one) => sum + one.tasks, 0) >= countedTasksMax;
  const workers = { online: 0, away: 0, lost: 0, saturated: 0, draining: 0 };
  let slots = 0;
  for (const worker of items) {
    const condition = readCondition(worker.condition);
    const isDraining = drainReasonsOf(worker, condition).length > 0;
    if (worker.phase !== "enrolled") workers[worker.phase] += 1;
    if (worker.phase !== "online") continue;
    if (isSaturated(worker, condition)) workers.saturated += 1;
    if (isDraining) workers.draining += 1;
    else if (condition.healthy) slots += readWorkerDescription(worker).slots ?? 0;
  }
  const free = Math.max(0, slots - running);
  return {
    queued,
    running,
    isPartial,
    slots,
    free,
    workers,
    wantedSlots: queued + running,
    asOf: head,
  };
}
