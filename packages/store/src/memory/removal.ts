// Removes old rows from the memory store. A row that a turn holds is passed over, as the other stores do.

import {
  collectionsOwnedByRun,
  docId,
  type Millis,
  type RemovalOutcome,
  type RemovalSlice,
  type RowKey,
  type RunRow,
  runKey,
  type Tenant,
} from "@astraflow/engine";
import type { LogRow } from "../common/log-rows.ts";
import { auditFactPrefix, cutoffOf, isLogRowOld, noneRemoved, pendingCommandsMark, type RemovalOf } from "../common/removal.ts";
import { compareIds } from "../common/row-order.ts";
import { hasEnded } from "../common/row-shape.ts";
import { type MemoryTables, takeFirst } from "./tables.ts";

interface Removal {
  readonly tables: MemoryTables;
  readonly now: Millis;
  isTaken(root: RowKey): boolean;
}

export function removeOldRows(removal: Removal, slice: RemovalSlice): RemovalOutcome {
  if (slice.of === "runs") return removeRuns(removal, slice);
  if (slice.of === "log") return removeLogRows(removal, slice);
  return slice.of === "keys" ? removeKeys(removal, slice) : removeWorkers(removal, slice);
}

function removeRuns({ tables, now, isTaken }: Removal, slice: RemovalOf<"runs">): RemovalOutcome {
  const { tenant, before, limit } = slice;
  const cutoff = cutoffOf(now, slice);
  const counts = { ...noneRemoved };
  const isInSlice = ({ id }: RunRow) => id > slice.after && (before === undefined || id < before);
  const runs = tables.all("run").filter((run) => run.tenant === tenant && isInSlice(run));
  let remaining = limit;
  let after: string = slice.after;
  for (const run of runs.sort(compareIds)) {
    // Ids are in the order of creation, and no run ends before it was created.
    if (run.createdAt > cutoff) break;
    if (hasEnded(run) && (run.endedAt ?? now) <= cutoff && !isTaken(runKey(run.id))) {
      const part = removePartOfRun(tables, run, remaining);
      counts.tasks += part.tasks;
      counts.chunks += part.chunks;
      counts.logEntries += part.logEntries;
      remaining -= part.tasks + part.logEntries;
      if (remaining <= 0) return { removed: counts, next: after };
      tables.drop(runKey(run.id));
      counts.runs += 1;
    }
    after = run.id;
    remaining -= 1;
    if (remaining <= 0) return { removed: counts, next: after };
  }
  return { removed: counts, next: null };
}

/** What belongs to a run goes before the run itself, so that a run which is left for the next time is found again. */
function removePartOfRun(tables: MemoryTables, run: RunRow, limit: number) {
  const tasks = takeFirst(tables.tasksOf(run.id, ""), limit);
  let chunks = 0;
  for (const task of tasks) {
    chunks += tables.dropChunksOf(task.id);
    tables.drop(`task/${task.id}`);
  }
  for (const collection of collectionsOwnedByRun) {
    const prefix = docId(run.tenant, collection, `${run.id}.`);
    for (const doc of tables.all("doc")) if (doc.id.startsWith(prefix)) tables.drop(`doc/${doc.id}`);
  }
  const isOfRun = (row: LogRow) => row.subject === runKey(run.id) && !isAudit(row);
  const left = limit - tasks.length;
  const rows = left > 0 ? takeFirst(tables.tenant(run.tenant).log, left, isOfRun) : [];
  for (const row of rows) dropLogRow(tables, run.tenant, row);
  return { tasks: tasks.length, chunks, logEntries: rows.length };
}

function removeLogRows({ tables, now }: Removal, slice: RemovalOf<"log">): RemovalOutcome {
  const { tenant, after, limit } = slice;
  const removed: LogRow[] = [];
  let looked = 0;
  let next: string | null = null;
  for (const row of tables.tenant(tenant).log) {
    if (row.first <= Number(after)) continue;
    if (row.at > cutoffOf(now, slice)) break;
    const isOfKeptRun = row.subject.startsWith("run/") && tables.rows.has(row.subject);
    if (isLogRowOld({ at: row.at, isOfKeptRun, isAudit: isAudit(row) }, now, slice)) removed.push(row);
    looked += 1;
    if (looked < limit) continue;
    next = String(row.first);
    break;
  }
  for (const row of removed) dropLogRow(tables, tenant, row);
  return { removed: { ...noneRemoved, logEntries: removed.length }, next };
}

const isAudit = (row: LogRow): boolean => row.facts.some(({ type }) => type.startsWith(auditFactPrefix));

function dropLogRow(tables: MemoryTables, tenant: Tenant, row: LogRow): void {
  const state = tables.tenant(tenant);
  state.log.remove(row);
  state.removed = Math.max(state.removed, row.last);
}

function removeKeys({ tables, now, isTaken }: Removal, slice: RemovalOf<"keys" | "workers">): RemovalOutcome {
  const prefix = `${slice.tenant}/`;
  const keys = tables.all("ask").filter(({ id }) => id.startsWith(prefix) && id > slice.after);
  const seen = keys.sort(compareIds).slice(0, slice.limit);
  const old = seen.filter(({ id, at }) => at <= cutoffOf(now, slice) && !isTaken(`ask/${id}`));
  for (const { id } of old) tables.drop(`ask/${id}`);
  return { removed: { ...noneRemoved, keys: old.length }, next: seen.length < slice.limit ? null : (seen.at(-1)?.id ?? null) };
}

function removeWorkers({ tables, now, isTaken }: Removal, slice: RemovalOf<"keys" | "workers">): RemovalOutcome {
  const workers = tables.all("worker").filter(({ id, tenant }) => tenant === slice.tenant && id > slice.after);
  const seen = workers.sort(compareIds).slice(0, slice.limit);
  const old = seen.filter(
    ({ id, phase, due, seenAt, condition }) =>
      (phase === "lost" || phase === "left") &&
      due === null &&
      seenAt <= cutoffOf(now, slice) &&
      !condition.includes(pendingCommandsMark) &&
      !isTaken(`worker/${id}`),
  );
  for (const { id } of old) tables.drop(`worker/${id}`);
  return { removed: { ...noneRemoved, workers: old.length }, next: seen.length < slice.limit ? null : (seen.at(-1)?.id ?? null) };
}
