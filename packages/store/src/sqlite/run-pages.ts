// Pages of runs and their tasks. One snapshot, taken by the reader, covers each.

import { type RunId, type RunRow, runOf, searchWords, type TaskRow, type Tenant } from "@astraflow/engine";
import { idBounds, type PageFor, rowsScannedMax, runFilter, runsScannedMax } from "../paging.ts";
import { runPhases } from "../row-shape.ts";
import { columnsByKind, rowOf } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { hadPart, searchRuns } from "./search.ts";

/** No id is as high as this: ids are made of printable text. */
const aboveAll = "\u{10ffff}";

/** Most runs have succeeded, so those are found by walking; the index of the other phases stays small. */
export function runsSql({ phase, source }: Pick<PageFor<"runs">, "phase" | "source">): string {
  const isByPhase = phase !== undefined && phase !== "succeeded" && !source;
  const ofPhase = isByPhase ? ` AND phase = ${runPhases.indexOf(phase)} AND phase <> 3` : "";
  const ofSource = source ? " AND source = ?4 AND source <> ''" : "";
  return `SELECT ${columnsByKind.run.names} FROM run WHERE tenant = ?1${ofPhase}${ofSource} AND id < ?2 AND id >= ?3 ORDER BY id DESC`;
}

/** `searchedRows`: so many runs are compared with the words of a search before the index of words is asked. */
export function readRuns(
  connection: Connection,
  query: PageFor<"runs">,
  searchedRows: number,
): { items: RunRow[]; next: RunId | null } {
  const isSearch = searchWords(query.search ?? "").length > 0;
  const walked = walkRuns(connection, query, runsScannedMax(query, isSearch ? searchedRows : rowsScannedMax));
  if (!isSearch || walked.next === null || walked.items.length === query.limit) return walked;
  const { items, next } = searchRuns(connection, query, walked.next, query.limit - walked.items.length);
  return { items: [...walked.items, ...items], next };
}

function walkRuns(connection: Connection, query: PageFor<"runs">, scannedMax: number): { items: RunRow[]; next: RunId | null } {
  const fits = runFilter(query, hadPart(connection));
  const { from, below } = idBounds(query);
  const values = [query.tenant, below ?? aboveAll, from ?? "", ...(query.source ? [query.source] : [])];
  const items: RunRow[] = [];
  let scanned = 0;
  let last: RunId | null = null;
  for (const cells of connection.each(runsSql(query), ...values)) {
    if (items.length === query.limit || scanned === scannedMax) return { items, next: last };
    const run = rowOf("run", cells) as RunRow;
    scanned++;
    last = run.id;
    if (fits(run)) items.push(run);
  }
  return { items, next: null };
}

export function ownRun(connection: Connection, tenant: Tenant, id: RunId): RunRow | null {
  const cells = connection.get(`SELECT ${columnsByKind.run.names} FROM run WHERE id = ? AND tenant = ?`, id, tenant);
  return cells === undefined ? null : (rowOf("run", cells) as RunRow);
}

export const tasksSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id < ? ORDER BY id LIMIT ?`;

/** SQLite takes a negative limit for none. */
function tasksOf(connection: Connection, run: RunId, after: string, limit: number): TaskRow[] {
  return connection.all(tasksSql, after, `${run}/`, limit).map((one) => rowOf("task", one) as TaskRow);
}

export function readRun(
  connection: Connection,
  query: PageFor<"run">,
): { run: RunRow; tasks: TaskRow[]; workflow: string } | null {
  const run = ownRun(connection, query.tenant, query.run);
  if (run === null) return null;
  const tasks = tasksOf(connection, run.id, `${run.id}.`, Math.max(-1, query.tasksMax ?? -1));
  const workflow = connection.get("SELECT body FROM workflow WHERE id = ?", run.workflow);
  return { run, tasks, workflow: workflow === undefined ? "" : String(workflow[0]) };
}

export function readTasks(connection: Connection, query: PageFor<"tasks">): { items: TaskRow[]; next: string | null } {
  const run = ownRun(connection, query.tenant, query.run);
  if (run === null) return { items: [], next: null };
  const first = `${run.id}.`;
  const after = query.after === undefined || query.after < first ? first : query.after;
  const found = tasksOf(connection, run.id, after, Math.max(0, query.limit) + 1);
  const items = found.slice(0, query.limit);
  return { items, next: found.length > items.length ? (items.at(-1)?.id ?? null) : null };
}

export function readTask(connection: Connection, query: PageFor<"task">): { run: RunRow | null; task: TaskRow | null } {
  const run = ownRun(connection, query.tenant, runOf(query.task));
  const sql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id = ?`;
  const cells = run === null ? undefined : connection.get(sql, query.task);
  return cells === undefined ? { run: null, task: null } : { run, task: rowOf("task", cells) as TaskRow };
}
