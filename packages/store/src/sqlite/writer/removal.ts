// Removes old rows from the file, a few at a time, inside a transaction of the caller's. What belongs to a run goes before the run's own row:
// if the process dies in between, the run is found again.

import {
  collectionsOwnedByRun,
  docId,
  type Millis,
  type Position,
  type RemovalOutcome,
  type RemovalSlice,
  type RemovedCounts,
  type Row,
  type RowKey,
  type RunId,
  runKey,
  type Tenant,
} from "@astraflow/engine";
import { auditFactMark, cutoffOf, isLogRowOld, noneRemoved, pendingCommandsMark, type RemovalOf } from "../../common/removal.ts";
import { type RowKind, runPhases, workerPhases } from "../../common/row-shape.ts";
import type { SqliteCells } from "../file/connection.ts";
import { columnsByKind, decodeRow, readRows } from "../rows/columns.ts";
import { unindexRuns } from "../search/run-search.ts";
import {
  findRemovableLogRows,
  indexSubjectHistory,
  oldestUnindexedAt,
  removeHistories,
  removeLogRow,
} from "../search/subject-history.ts";
import type { SqliteRepository } from "./repository.ts";
import { writeRow } from "./write-turn.ts";

const countSql = (rows: string): string => `(SELECT count(*) FROM (SELECT 1 FROM ${rows} LIMIT ?2))`;
const hasEndedSql = `phase IN (${(["succeeded", "failed", "cancelled"] as const).map((phase) => runPhases.indexOf(phase)).join(", ")})`;
const runsSql = `SELECT id, "createdAt", ${hasEndedSql} AND coalesce("endedAt", ?1) <= ?2 FROM run INDEXED BY run_of
  WHERE tenant = ?3 AND id > ?4 AND id < ?5 ORDER BY id LIMIT ?6`;
/** Most runs have at least so many rows of their own, so more runs than this share of the limit are not read in vain. */
const rowsPerRun = 4;
/** How many rows belong to each run, counted up to a limit. */
const sizesSql = `SELECT one.value, ${countSql("task WHERE id > one.value || '.' AND id < one.value || '/'")},
    ${countSql("chunk WHERE task > one.value || '.' AND task < one.value || '/'")},
    ${[...collectionsOwnedByRun].map((_, at) => countSql(`doc WHERE id > ?${at + 4} || one.value || '.' AND id < ?${at + 4} || one.value || '/'`)).join(" + ")},
    ${countSql("event_of WHERE subject = 'run/' || one.value AND tenant = ?3")}
  FROM json_each(?1) AS one`;
const deleteRunsSql = `DELETE FROM run WHERE id IN (SELECT value FROM json_each(?)) RETURNING ${columnsByKind.run.names}`;
const deleteTasksOfRunsSql = `DELETE FROM task WHERE rowid IN (SELECT task.rowid FROM json_each(?) AS one
  CROSS JOIN task ON task.id > one.value || '.' AND task.id < one.value || '/') RETURNING id`;
const deleteChunksOfRunsSql = `DELETE FROM chunk WHERE rowid IN (SELECT chunk.rowid FROM json_each(?) AS one
  CROSS JOIN chunk ON chunk.task > one.value || '.' AND chunk.task < one.value || '/')`;
const deleteTasksSql = "DELETE FROM task WHERE rowid IN (SELECT rowid FROM task WHERE id > ? AND id < ? LIMIT ?) RETURNING id";
const deleteChunksSql = "DELETE FROM chunk WHERE rowid IN (SELECT rowid FROM chunk WHERE task > ? AND task < ? LIMIT ?)";
const documentsSql = `SELECT ${columnsByKind.doc.names} FROM doc WHERE id > ? AND id < ? LIMIT ?`;
const logRowsSql = `SELECT first, last, at, subject, instr(facts, ?3) > 0,
    subject LIKE 'run/%' AND EXISTS (SELECT 1 FROM run WHERE run.id = substr(subject, 5))
  FROM event WHERE tenant = ?1 AND first > ?2 ORDER BY first LIMIT ?4`;
const raiseRemovedSql = "UPDATE tenant SET removed = max(removed, ?) WHERE id = ?";
const keysSql = `SELECT ${columnsByKind.ask.names} FROM ask WHERE id > ? AND id < ? ORDER BY id LIMIT ?`;
const workersSql = `SELECT ${columnsByKind.worker.names} FROM worker
  WHERE id > ? AND id < ? AND tenant = ? AND phase IN (${workerPhases.indexOf("lost")}, ${workerPhases.indexOf("left")}) AND due IS NULL AND "seenAt" <= ?
    AND instr(condition, ?) = 0 ORDER BY id LIMIT ?`;
/** No id is as high as this: ids are made of printable text. */
const highestId = "\u{10ffff}";

/** A run with how much of it there is besides tasks and log rows, which nearly all have. */
interface RunSize {
  readonly id: RunId;
  readonly chunks: number;
  readonly documents: number;
}

type Counts = { -readonly [K in keyof RemovedCounts]: number };

export class SqliteRemoval {
  readonly #repository: SqliteRepository;
  readonly #now: Millis;
  readonly #counts: Counts = { ...noneRemoved };
  #remaining: number;
  /** What the caches hold of the removed rows goes when the removal is committed. */
  readonly #removedRows: Row[] = [];
  readonly #removedIds: [kind: RowKind, id: string][] = [];
  readonly #removedPositions = new Map<Tenant, Position>();
  readonly #indexedTenants = new Set<Tenant>();

  constructor(repository: SqliteRepository, now: Millis, { limit }: RemovalSlice) {
    this.#repository = repository;
    this.#now = now;
    this.#remaining = limit;
  }

  /** Runs inside an open transaction. */
  remove(slice: RemovalSlice): RemovalOutcome {
    const next = this.#removeSlice(slice);
    for (const [tenant, position] of this.#removedPositions) this.#repository.connection.write(raiseRemovedSql, position, tenant);
    return { removed: this.#counts, next };
  }

  /** Called once the commit has succeeded. */
  updateCaches(): void {
    for (const row of this.#removedRows) this.#repository.noteWritten(row, null);
    for (const [kind, id] of this.#removedIds) this.#repository.cache.delete(kind, id);
    for (const tenant of this.#indexedTenants) {
      const state = this.#repository.tenant(tenant);
      this.#repository.setTenant(tenant, { ...state, indexed: state.position, unindexedRows: 0 });
    }
    for (const [tenant, position] of this.#removedPositions) {
      const state = this.#repository.tenant(tenant);
      this.#repository.setTenant(tenant, { ...state, removed: Math.max(state.removed, position) });
    }
  }

  #removeSlice(slice: RemovalSlice): string | null {
    if (slice.of === "runs") return this.#removeRuns(slice);
    if (slice.of === "log") return this.#removeLogRows(slice);
    return slice.of === "keys" ? this.#removeKeys(slice) : this.#removeWorkers(slice);
  }

  #removeRuns(slice: RemovalOf<"runs">): string | null {
    const { tenant, limit } = slice;
    const cutoff = cutoffOf(this.#now, slice);
    const { runs, isEnd } = this.#readRunsUntil(slice, cutoff);
    const old = runs.flatMap(({ id, isOld }) => (isOld ? [id] : []));
    const end = isEnd ? null : (runs.at(-1)?.id ?? slice.after);
    if (old.length === 0) return end;
    this.#indexHistory(tenant, cutoff);
    const { whole, tooLarge } = this.#measureRuns(tenant, old, limit);
    if (whole.length > 0) this.#removeWholeRuns(tenant, whole);
    if (tooLarge === null) return end;
    if (whole.length > 0) return whole.at(-1)?.id ?? slice.after;
    if (this.#removePartOfRun(tenant, tooLarge)) return tooLarge;
    return runs.findLast(({ id }) => id < tooLarge)?.id ?? slice.after;
  }

  /** Ids are in the order of creation, and no run ends before it was created: behind the first that is too young there is nothing. */
  #readRunsUntil({ tenant, after, before = highestId, limit }: RemovalOf<"runs">, cutoff: Millis) {
    const runs: { readonly id: RunId; readonly isOld: boolean }[] = [];
    const runsMax = Math.ceil(limit / rowsPerRun);
    for (const [id, createdAt, isOld] of this.#repository.connection.iterate(
      runsSql,
      this.#now,
      cutoff,
      tenant,
      after,
      before,
      runsMax,
    )) {
      if (Number(createdAt) > cutoff) return { runs, isEnd: true };
      runs.push({ id: String(id), isOld: isOld === 1 });
    }
    return { runs, isEnd: runs.length < runsMax };
  }

  /** The first of these runs that fit into the limit with all their rows, and the one behind them that does not. */
  #measureRuns(tenant: Tenant, ids: readonly RunId[], limit: number): { whole: RunSize[]; tooLarge: RunId | null } {
    const prefixes = [...collectionsOwnedByRun].map((collection) => docId(tenant, collection, ""));
    const whole: RunSize[] = [];
    let remaining = limit;
    for (const cells of this.#repository.connection.iterate(sizesSql, JSON.stringify(ids), limit + 1, tenant, ...prefixes)) {
      const id = String(cells[0]);
      const [tasks = 0, chunks = 0, documents = 0, logRows = 0] = cells.slice(1).map(Number);
      remaining -= 1 + tasks + chunks + documents + logRows;
      if (remaining < 0) return { whole, tooLarge: id };
      whole.push({ id, chunks, documents });
    }
    return { whole, tooLarge: null };
  }

  /** However many they are, one statement for each table. */
  #removeWholeRuns(tenant: Tenant, runs: readonly RunSize[]): void {
    const { connection } = this.#repository;
    const ids = JSON.stringify(runs.map(({ id }) => id));
    this.#noteRemovedTasks(connection.all(deleteTasksOfRunsSql, ids));
    if (runs.some(({ chunks }) => chunks > 0))
      this.#counts.chunks += Number(connection.prepare(deleteChunksOfRunsSql).run(ids).changes);
    for (const { id, documents } of runs) if (documents > 0) this.#removeDocuments(tenant, id, documents);
    for (const last of removeHistories(connection, tenant, ids)) this.#noteRemovedLogRow(tenant, last);
    const rows = connection.all(deleteRunsSql, ids).map((cells) => decodeRow("run", cells));
    unindexRuns(connection, rows);
    this.#removedRows.push(...rows);
    this.#counts.runs += rows.length;
  }

  /** True where it fitted after all: then its own row is gone too. */
  #removePartOfRun(tenant: Tenant, run: RunId): boolean {
    const { connection } = this.#repository;
    const [from, to] = [`${run}.`, `${run}/`];
    this.#noteRemovedTasks(connection.all(deleteTasksSql, from, to, this.#remaining));
    const chunks = Number(connection.prepare(deleteChunksSql).run(from, to, Math.max(0, this.#remaining)).changes);
    this.#counts.chunks += chunks;
    this.#remaining -= chunks;
    this.#removeDocuments(tenant, run, Math.max(0, this.#remaining));
    for (const { first, last } of findRemovableLogRows(connection, runKey(run), tenant, Math.max(0, this.#remaining)))
      this.#removeLogRow(tenant, runKey(run), first, last);
    if (this.#remaining <= 0) return false;
    // Entries that stay do not count: the rest of the run fits.
    this.#removeWholeRuns(tenant, [{ id: run, chunks: 0, documents: 0 }]);
    return true;
  }

  #removeDocuments(tenant: Tenant, run: RunId, limit: number): void {
    const { connection } = this.#repository;
    for (const collection of collectionsOwnedByRun) {
      const [from, to] = [docId(tenant, collection, `${run}.`), docId(tenant, collection, `${run}/`)];
      for (const doc of readRows(connection, "doc", documentsSql, from, to, limit)) this.#removeRow(doc);
    }
  }

  #noteRemovedTasks(tasks: readonly SqliteCells[]): void {
    for (const [id] of tasks) this.#removedIds.push(["task", String(id)]);
    this.#counts.tasks += tasks.length;
    this.#remaining -= tasks.length;
  }

  /** The history of a run that ended long ago may still be in the newest rows of the log, which are not in the index. */
  #indexHistory(tenant: Tenant, cutoff: Millis): void {
    const { connection } = this.#repository;
    const state = this.#repository.tenant(tenant);
    if (state.unindexedRows === 0 || this.#indexedTenants.has(tenant)) return;
    const oldest = oldestUnindexedAt(connection, tenant, state.indexed);
    if (oldest === null || oldest > cutoff) return;
    indexSubjectHistory(connection, tenant, state.indexed);
    connection.write("UPDATE tenant SET indexed = ? WHERE id = ?", state.position, tenant);
    this.#indexedTenants.add(tenant);
  }

  #removeLogRows(slice: RemovalOf<"log">): string | null {
    const { tenant, after, limit } = slice;
    const { connection } = this.#repository;
    const rows = connection.all(logRowsSql, tenant, Number(after), auditFactMark, limit);
    const cutoff = cutoffOf(this.#now, slice);
    for (const [first, last, at, subject, isAudit, isOfKeptRun] of rows) {
      if (Number(at) > cutoff) return null;
      const row = { at: Number(at), isAudit: isAudit === 1, isOfKeptRun: isOfKeptRun === 1 };
      if (isLogRowOld(row, this.#now, slice)) this.#removeLogRow(tenant, subject as RowKey, Number(first), Number(last));
    }
    return rows.length < limit ? null : String(rows.at(-1)?.[0]);
  }

  #removeLogRow(tenant: Tenant, subject: RowKey, first: Position, last: Position): void {
    removeLogRow(this.#repository.connection, tenant, subject, first);
    this.#noteRemovedLogRow(tenant, last);
  }

  #noteRemovedLogRow(tenant: Tenant, last: Position): void {
    this.#removedPositions.set(tenant, Math.max(this.#removedPositions.get(tenant) ?? 0, last));
    this.#counts.logEntries++;
    this.#remaining--;
  }

  #removeKeys(slice: RemovalOf<"keys" | "workers">): string | null {
    const { tenant, after, limit } = slice;
    const from = after === "" ? `${tenant}/` : after;
    const keys = readRows(this.#repository.connection, "ask", keysSql, from, `${tenant}0`, limit);
    for (const key of keys) {
      if (key.at > cutoffOf(this.#now, slice)) continue;
      this.#removeRow(key);
      this.#counts.keys++;
    }
    return keys.length < limit ? null : (keys.at(-1)?.id ?? null);
  }

  #removeWorkers(slice: RemovalOf<"keys" | "workers">): string | null {
    const { tenant, after, limit } = slice;
    const from = after === "" ? `${tenant}/` : after;
    const cutoff = cutoffOf(this.#now, slice);
    const { connection } = this.#repository;
    const workers = readRows(connection, "worker", workersSql, from, `${tenant}0`, tenant, cutoff, pendingCommandsMark, limit);
    for (const worker of workers) this.#removeRow(worker);
    this.#counts.workers += workers.length;
    return workers.length < limit ? null : (workers.at(-1)?.id ?? null);
  }

  #removeRow(row: Row): void {
    writeRow(this.#repository, row, null);
    this.#removedRows.push(row);
    this.#remaining--;
  }
}
