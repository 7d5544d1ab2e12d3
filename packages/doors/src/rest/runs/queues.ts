// What waits where: the lines of ready tasks with who could take them, and one number for an autoscaler.

import { candidateOf, type LineDepth, type Needs, type Reader, ruleFor, type WorkerRow } from "@astraflow/engine";
import type { QueueList } from "@astraflow/protocol";
import type { DoorEnvironment } from "../../outside.ts";
import type { Handler } from "../call.ts";
import { aboutOf } from "../workers/view-workers.ts";

export interface QueueOptions {
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
}

/** Tasks of a line that are counted: whoever sees so many adds workers, whatever the exact number. */
const lineTasksMax = 10_000;

export function queueHandlers({ reader, environment }: QueueOptions): Record<"listQueues" | "getKedaMetric", Handler> {
  const look = async (tenant: string) => {
    const [{ items: lines, head }, { items: workers }] = await Promise.all([
      reader.page({ page: "lines", tenant, max: lineTasksMax }),
      reader.page({ page: "workers", tenant }),
    ]);
    return { lines, workers, head };
  };

  return {
    async listQueues(call) {
      const { lines, workers, head } = await look(call.identity.tenant);
      const now = environment.clock.now();
      const items = lines.flatMap((line) => viewQueue(line, workers, now));
      return { body: { items, asOf: head } satisfies QueueList };
    },

    async getKedaMetric(call) {
      const { tenant } = call.identity;
      const { pool, package: name } = call.query;
      const { lines, workers, head } = await look(tenant);
      const isAsked = (needs: Needs) =>
        (pool === undefined || (needs.pool ?? "default") === pool) && (name === undefined || needs.packageName === name);
      const queued = lines
        .filter(({ route }) => route !== null && isAsked(JSON.parse(route.needs) as Needs))
        .reduce((sum, line) => sum + line.tasks, 0);
      const mine = workers.filter((worker) => {
        const about = aboutOf(worker);
        const has = (about.packages ?? []).some((one) => one.name === name);
        return worker.phase === "online" && (pool === undefined || about.pool === pool) && (name === undefined || has);
      });
      const running = await heldBy(reader, tenant, mine);
      const slots = mine.reduce((sum, worker) => sum + (aboutOf(worker).slots ?? 0), 0);
      return { body: { value: queued + running, queued, running, slots, asOf: head } };
    },
  };
}

async function heldBy(reader: Reader, tenant: string, workers: readonly WorkerRow[]): Promise<number> {
  const counts = await Promise.all(
    workers.map(async ({ id: worker }) => (await reader.page({ page: "worker", tenant, worker, limit: 1_000 })).held.length),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function viewQueue(
  { line, route, tasks, oldestReadyAt }: LineDepth,
  workers: readonly WorkerRow[],
  now: number,
): QueueList["items"] {
  if (route === null) return [];
  const needs = JSON.parse(route.needs) as Needs;
  const pin = line.split("|")[2] ?? null;
  const blocked: Record<string, number> = {};
  let fitting = 0;
  for (const row of workers) {
    const { code } = ruleFor(needs, candidateOf(row, {}), pin);
    if (code === "fits") fitting += 1;
    else blocked[code] = (blocked[code] ?? 0) + 1;
  }
  return [
    {
      queue: line,
      waiting: tasks,
      isPartial: tasks >= lineTasksMax,
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
