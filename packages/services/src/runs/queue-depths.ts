// What waits where: the queues of ready tasks with the workers that could take them, and one number for an autoscaler.

import {
  firstFailedRule,
  type QueueDepth,
  type StoreReader,
  type TaskRequirements,
  toCandidate,
  type WorkerRow,
} from "@astraflow/engine";
import type { QueueList } from "@astraflow/protocol";
import { readWorkerDescription } from "../presentation/worker-view.ts";

/** Tasks of a queue that are counted: with so many, more workers are needed whatever the exact number. */
const queueTasksMax = 10_000;

async function readQueues(reader: StoreReader, tenant: string) {
  const [{ items: queues, head }, { items: workers }] = await Promise.all([
    reader.page({ page: "lines", tenant, max: queueTasksMax }),
    reader.page({ page: "workers", tenant }),
  ]);
  return { queues, workers, head };
}

export async function listQueues(reader: StoreReader, tenant: string, now: number): Promise<QueueList> {
  const { queues, workers, head } = await readQueues(reader, tenant);
  return { items: queues.flatMap((queue) => presentQueue(queue, workers, now)), asOf: head };
}

/** Tasks that wait for or run in a pool or of a package, as KEDA reads them. */
export async function readQueueMetric(
  reader: StoreReader,
  tenant: string,
  { pool, packageName }: { readonly pool: string | undefined; readonly packageName: string | undefined },
) {
  const { queues, workers, head } = await readQueues(reader, tenant);
  const isWanted = (needs: TaskRequirements) =>
    (pool === undefined || (needs.pool ?? "default") === pool) &&
    (packageName === undefined || needs.packageName === packageName);
  const queued = queues
    .filter(({ route }) => route !== null && isWanted(JSON.parse(route.needs) as TaskRequirements))
    .reduce((sum, queue) => sum + queue.tasks, 0);
  const matching = workers.filter((worker) => {
    const about = readWorkerDescription(worker);
    const hasPackage = (about.packages ?? []).some(({ name }) => name === packageName);
    return worker.phase === "online" && (pool === undefined || about.pool === pool) && (packageName === undefined || hasPackage);
  });
  const running = await countHeldAttempts(reader, tenant, matching);
  const slots = matching.reduce((sum, worker) => sum + (readWorkerDescription(worker).slots ?? 0), 0);
  return { value: queued + running, queued, running, slots, asOf: head };
}

async function countHeldAttempts(reader: StoreReader, tenant: string, workers: readonly WorkerRow[]): Promise<number> {
  const counts = await Promise.all(
    workers.map(async ({ id: worker }) => (await reader.page({ page: "worker", tenant, worker, limit: 1_000 })).held.length),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function presentQueue(
  { line, route, tasks, oldestReadyAt }: QueueDepth,
  workers: readonly WorkerRow[],
  now: number,
): QueueList["items"] {
  if (route === null) return [];
  const needs = JSON.parse(route.needs) as TaskRequirements;
  const pin = line.split("|")[2] ?? null;
  const blocked: Record<string, number> = {};
  let fitting = 0;
  for (const row of workers) {
    const { code } = firstFailedRule(needs, toCandidate(row, {}), pin);
    if (code === "fits") fitting += 1;
    else blocked[code] = (blocked[code] ?? 0) + 1;
  }
  return [
    {
      queue: line,
      waiting: tasks,
      isPartial: tasks >= queueTasksMax,
      ...(oldestReadyAt !== null && { oldestWaitMs: Math.max(0, Math.round(now - oldestReadyAt)) }),
      needs: {
        package: needs.packageName,
        version: needs.packageVersion,
        nodeType: needs.nodeType,
        ...(needs.pool !== null && { pool: needs.pool }),
        ...(Object.keys(needs.tags).length > 0 && { tags: { ...needs.tags } }),
        ...(pin !== null && { worker: pin.slice(pin.indexOf("/") + 1) }),
      },
      workers: { fitting, blocked },
    },
  ];
}
