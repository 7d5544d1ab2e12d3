// Fair queueing as arithmetic: the rank a task gets when it enters a queue. The index returns tasks in rank order; nothing here picks one.

import type { ChangeSet, QueueName, Row, TaskId, TaskRow, Tenant } from "@astraflow/engine";

/** Clocks of tenants and lines as they will be after this turn; thrown away when the turn is. */
export class FairnessClocks {
  readonly tenants = new Map<Tenant, number>();
  readonly lines = new Map<QueueName, number>();
  readonly #stored: Pick<FairnessClocks, "tenantClock" | "taskQueueClock">;

  constructor(stored: Pick<FairnessClocks, "tenantClock" | "taskQueueClock">) {
    this.#stored = stored;
  }

  tenantClock(tenant: Tenant): number {
    return this.tenants.get(tenant) ?? this.#stored.tenantClock(tenant);
  }

  taskQueueClock(line: QueueName): number {
    return this.lines.get(line) ?? this.#stored.taskQueueClock(line);
  }

  /**
   * A queue's clock is the highest rank that has left it: a tenant that comes late starts there and not at zero. `after`: the task's next
   * image, or null where it was deleted.
   */
  noteTaskLeft(before: TaskRow | null, after: TaskRow | null): void {
    if (before === null || before.line === null || before.rank === null) return;
    if (after !== null && after.line === before.line && after.phase === before.phase) return;
    if (before.rank > this.taskQueueClock(before.line)) this.lines.set(before.line, before.rank);
  }

  /**
   * rank = max(tenant clock, line clock) + cost, and the tenant's clock moves there: a tenant that brings much is spread out behind
   * itself, one that was idle saves no credit.
   */
  nextRank(tenant: Tenant, line: QueueName, cost: number): number {
    const rank = Math.max(this.tenantClock(tenant), this.taskQueueClock(line)) + cost;
    this.tenants.set(tenant, rank);
    return rank;
  }
}

/** Raises the clocks of the lines that tasks of these units leave. Comes before `assignRanks`, so that an equal turn gives an equal order. */
export function advanceTaskQueueClocks(
  units: readonly ChangeSet[],
  clocks: FairnessClocks,
  before: (task: TaskId) => TaskRow | null,
): void {
  for (const unit of units) {
    for (const row of unit.puts) if (row.kind === "task") clocks.noteTaskLeft(before(row.id), row);
    for (const key of unit.deletes) if (key.startsWith("task/")) clocks.noteTaskLeft(before(key.slice(5)), null);
  }
}

/** Ranks of all tasks that enter a line in these units, in their order. */
export function assignRanks(units: readonly ChangeSet[], clocks: FairnessClocks): Map<TaskId, number> {
  const ranks = new Map<TaskId, number>();
  for (const { puts, enqueued: ready } of units) {
    if (ready.length === 0) continue;
    const lines = new Map<TaskId, QueueName>();
    for (const row of puts) if (row.kind === "task" && row.line !== null) lines.set(row.id, row.line);
    for (const { task, tenant, cost } of ready) {
      const line = lines.get(task);
      if (line === undefined) throw new Error(`task ${task} is queued without naming its queue`);
      ranks.set(task, clocks.nextRank(tenant, line, cost));
    }
  }
  return ranks;
}

/** The row as it is stored: a task that enters a queue gets its rank. */
export function withRank(row: Row, ranks: ReadonlyMap<TaskId, number>): Row {
  if (row.kind !== "task" || row.line === null) return row;
  const rank = ranks.get(row.id);
  return rank === undefined ? row : { ...row, rank };
}
