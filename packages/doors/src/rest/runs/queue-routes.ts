// What waits where: the lines of ready tasks with who could take them, and one number for an autoscaler.

import {
  firstFailedRule,
  type QueueDepth,
  type StoreReader,
  type TaskRequirements,
  toCandidate,
  type WorkerRow,
} from "@astraflow/engine";
import type { QueueList } from "@astraflow/protocol";
import { readWorkerDescription } from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { RouteHandler } from "../requests/rest-call.ts";

export interface QueueRoutesOptions {
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
}

/** Tasks of a line that are counted: whoever sees so many adds workers, whatever the exact number. */
const queueTasksMax = 10_000;

export function queueHandlers({ reader, environment }: QueueRoutesOptions): Record<"listQueues" | "getKedaMetric", RouteHandler> {
  const readQueues = async (tenant: string) => {
    const [{ items: queues, head }, { items: workers }] = await Promise.all([
      reader.page({ page: "lines", tenant, max: queueTasksMax }),
      reader.page({ page: "workers", tenant }),
    ]);
    return { lines: queues, workers, head };
  };

  return {
    async listQueues(call) {
      const { lines: queues, workers, head } = await readQueues(call.identity.tenant);
      const now = environment.clock.now();
      const items = queues.flatMap((line) => presentQueue(line, workers, now));
      return { body: { items, asOf: head } satisfies QueueList };
    },

    async getKedaMetric(call) {
      const { tenant } = call.identity;
      const { pool, package: name } = call.query;
      const { lines: queues, workers, head } = await readQueues(tenant);
      const isAsked = (needs: TaskRequirements) =>
        (pool === undefined || (needs.pool ?? "default") === pool) && (name === undefined || needs.packageName === name);
      const queued = queues
        .filter(({ route }) => route !== null && isAsked(JSON.parse(route.needs) as TaskRequirements))
        .reduce((sum, line) => sum + line.tasks, 0);
      const matchingWorkers = workers.filter((worker) => {
        const about = readWorkerDescription(worker);
        const has = (about.packages ?? []).some((one) => one.name === name);
        return worker.phase === "online" && (pool === undefined || about.pool === pool) && (name === undefined || has);
      });
      const running = await countHeldAttempts(reader, tenant, matchingWorkers);
      const slots = matchingWorkers.reduce((sum, worker) => sum + (readWorkerDescription(worker).slots ?? 0), 0);
      return { body: { value: queued + running, queued, running, slots, asOf: head } };
    },
  };
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
