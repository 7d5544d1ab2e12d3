// Pages of runs and their tasks. One snapshot, taken by the reader, covers each.

import { type RunId, type RunRow, runOf, searchWords, type TaskRow, type Tenant } from "@astraflow/engine";
import {
  createRunFilter,
  cutPage,
  idOf,
  type PageFor,
  rowsScannedMax,
  runIdBounds,
  runsScannedMax,
} from "../../common/page-filters.ts";
import { runPhases } from "../../common/row-shape.ts";
import type { SqliteConnection } from "../file/connection.ts";
import { columnsByKind, decodeRow } from "../rows/columns.ts";
import { createWorkerCheck, searchRuns } from "../search/run-search.ts";

/** No id is as high as this: ids are made of printable text. */
const highestRunId = "\u{10ffff}";

/** Most runs have succeeded, so those are found by walking; the index of the other phases stays small. */
export function runsSql({ phase, source }: Pick<PageFor<"runs">, "phase" | "source">): string {
  const isByPhase = phase !== undefined && phase !== "succeeded" && !source;
  const ofPhase = isByPhase ? ` AND phase = ${runPhases.indexOf(phase)} AND phase <> 3` : "";
  const ofSource = source ? " AND source = ?4 AND source <> ''" : "";
  return `SELECT ${columnsByKind.run.names} FROM run WHERE tenant = ?1${ofPhase}${ofSource} AND id < ?2 AND id >= ?3 ORDER BY id DESC`;
}

/** `searchedRows`: so many runs are compared with the words of a search before the index of words is asked. */
export function readRuns(
  connection: SqliteConnection,
  query: PageFor<"runs">,
  searchedRows: number,
): { items: RunRow[]; next: RunId | null } {
  const isSearch = searchWords(query.search ?? "").length > 0;
  const walked = walkRuns(connection, query, runsScannedMax(query, isSearch ? searchedRows : rowsScannedMax));
  if (!isSearch || walked.next === null || walked.items.length === query.limit) return walked;
  const { items, next } = searchRuns(connection, query, walked.next, query.limit - walked.items.length);
  return { items: [...walked.items, ...items], next };
}

function walkRuns(
  connection: SqliteConnection,
  query: PageFor<"runs">,
  scannedMax: number,
): { items: RunRow[]; next: RunId | null } {
  const matches = createRunFilter(query, createWorkerCheck(connection));
  const { from, below } = runIdBounds(query);
  const values = [query.tenant, below ?? highestRunId, from ?? "", ...(query.source ? [query.source] : [])];
  const items: RunRow[] = [];
  let scanned = 0;
  let last: RunId | null = null;
  for (const cells of connection.iterate(runsSql(query), ...values)) {
    if (items.length === query.limit || scanned === scannedMax) return { items, next: last };
    const run = decodeRow("run", cells);
    scanned++;
    last = run.id;
    if (matches(run)) items.push(run);
  }
  return { items, next: null };
}

export function findOwnRun(connection: SqliteConnection, tenant: Tenant, id: RunId): RunRow | null {
  const cells = connection.get(`SELECT ${columnsByKind.run.names} FROM run WHERE id = ? AND tenant = ?`, id, tenant);
  return cells === undefined ? null : decodeRow("run", cells);
}

export const tasksSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id < ? ORDER BY id LIMIT ?`;

/** SQLite takes a negative limit for none. */
function readTaskRange(connection: SqliteConnection, run: RunId, after: string, limit: number): TaskRow[] {
  return connection.all(tasksSql, after, `${run}/`, limit).map((one) => decodeRow("task", one));
}

export function readRun(
  connection: SqliteConnection,
  query: PageFor<"run">,
): { run: RunRow; tasks: TaskRow[]; workflow: string } | null {
  const run = findOwnRun(connection, query.tenant, query.run);
  if (run === null) return null;
  const tasks = readTaskRange(connection, run.id, `${run.id}.`, Math.max(-1, query.tasksMax ?? -1));
  const workflow = connection.get("SELECT body FROM workflow WHERE id = ?", run.workflow);
  return { run, tasks, workflow: workflow === undefined ? "" : String(workflow[0]) };
}

export function readTasks(connection: SqliteConnection, query: PageFor<"tasks">): { items: TaskRow[]; next: string | null } {
  const run = findOwnRun(connection, query.tenant, query.run);
  if (run === null) return { items: [], next: null };
  const first = `${run.id}.`;
  const after = query.after === undefined || query.after < first ? first : query.after;
  const found = readTaskRange(connection, run.id, after, Math.max(0, query.limit) + 1);
  return cutPage(found, Math.max(0, query.limit), idOf);
}

export function readTask(connection: SqliteConnection, query: PageFor<"task">): { run: RunRow | null; task: TaskRow | null } {
  const run = findOwnRun(connection, query.tenant, runOf(query.task));
  const sql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id = ?`;
  const cells = run === null ? undefined : connection.get(sql, query.task);
  return cells === undefined ? { run: null, task: null } : { run, task: decodeRow("task", cells) };
}
