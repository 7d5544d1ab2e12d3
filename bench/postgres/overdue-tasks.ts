// Queued tasks whose deadline has passed, written through the store's port, so that the plans of claims and deadlines find rows. They are never run.

import type { ChangeSet, RowKey, Store } from "@astraflow/engine";
import { sampleRun, sampleTask } from "@astraflow/engine/testing";

export const overdueTaskQueue = "r|nobody";

/** A hundred runs whose only task waits in a line and is overdue, so that claims and deadlines find something. */
export async function insertOverdueTasks(store: Store): Promise<void> {
  const ids = Array.from({ length: 100 }, (_, n) => `ffffffff-ffff-7000-8000-${String(n).padStart(12, "0")}`);
  const tx = await store.begin({ rows: ids.map((id): RowKey => `run/${id}`), claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const units = ids.map((id): ChangeSet => {
    const run = sampleRun(id, {
      tenant: "bench",
      phase: "running",
      workflow: "bench/none",
      client: "bench",
      startedAt: 1,
      due: 1,
    });
    const task = sampleTask(`${id}.0`, { phase: "ready", route: "nobody", line: overdueTaskQueue, due: 1, readyAt: 1 });
    const ready = [{ task: task.id, tenant: run.tenant, cost: 1 }];
    return {
      roots: [`run/${id}`],
      puts: [run, task],
      inserted: new Set<RowKey>([`run/${id}`, `task/${id}.0`]),
      deletes: [],
      enqueued: ready,
      logEntries: [],
      mail: [],
    };
  });
  const outcome = await tx.commit(1_000_000_000, units);
  if (outcome.outcome !== "committed") throw new Error(`the waiting tasks were not stored: ${outcome.outcome}`);
}
