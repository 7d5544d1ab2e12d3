// How each page is read. One snapshot, taken by the reader, covers it.

import {
  type ChunkRow,
  type DocRow,
  docId,
  type QueueDepth,
  type RunDetail,
  type RunId,
  type RunRow,
  runOf,
  searchWords,
  type TaskCount,
  type TaskRow,
  type Tenant,
  type WorkerCount,
} from "@astraflow/engine";
import {
  type CutPage,
  createDocumentFilter,
  createRunFilter,
  cutPage,
  type DocumentPosition,
  formatDocumentCursor,
  idOf,
  type PageFor,
  type PageReaders,
  parseDocumentCursor,
  routeOfTaskQueue,
  routeQueuePrefix,
  rowsScannedMax,
  runIdBounds,
  runsScannedMax,
} from "../../common/page-filters.ts";
import { compareCounts } from "../../common/row-order.ts";
import { chunkFields, decodeChunk, runPhases, taskPhases, workerPhases } from "../../common/row-shape.ts";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";
import { columnsByKind, decodeRow, isOpenSql, readRow, readRows } from "../rows/columns.ts";
import { internedNumberSql } from "../rows/interned-texts.ts";
import { withValues } from "../rows/task-values.ts";
import { documentBoundsSql, documentListValues, searchDocuments } from "../search/document-search.ts";
import { createWorkerCheck, searchRuns } from "../search/run-search.ts";

export const pageReaders: PageReaders<[SqliteConnection, searchedRows: number]> = {
  runs: readRuns,
  ended: readEndedRuns,
  run: readRun,
  tasks: readTasks,
  task: readTask,
  docs: readDocuments,
  doc: readNamedDocuments,
  chunks: readChunks,
  lines: readTaskQueueDepths,
  workers: ({ tenant }, connection) => ({
    items: readRows(connection, "worker", workersSql, `${tenant}/`, `${tenant}0`, tenant),
  }),
  routes: (_query, connection) => ({ items: readRows(connection, "route", routesSql) }),
  worker({ tenant, worker: id, limit }, connection) {
    const worker = readRow(connection, "worker", workerSql, id, tenant);
    return { worker, held: worker === null ? [] : readRows(connection, "task", heldTasksSql, id, limit) };
  },
  tenants({ after = "", limit }, connection) {
    const found = connection.all(tenantsSql, after, limit + 1).map(([id]) => String(id));
    return cutPage(found, limit, (name) => name);
  },
  key: ({ tenant, key }, connection) => ({ key: readRow(connection, "key", keySql, `${tenant}/${key}`) }),
  crew: (_query, connection) => ({ items: connection.all(workerCountsSql).map(decodeWorkerCount).sort(compareCounts) }),
  depth: (query, connection) => ({ items: countOpenTasks(query, connection).sort(compareCounts) }),
};

function countOpenTasks({ tenant, max }: PageFor<"depth">, connection: SqliteConnection): TaskCount[] {
  if (tenant === undefined && max === undefined) return connection.all(openTaskCountsSql).map(decodeTaskCount);
  const tenants = tenant === undefined ? connection.all("SELECT id FROM tenant").map(([id]) => String(id)) : [tenant];
  // SQLite takes a negative limit for none.
  return tenants.flatMap((one) => connection.all(boundedTaskCountsSql, one, max ?? -1).map(decodeTaskCount));
}

function decodeTaskCount([tenant, phase, tasks]: SqliteCells): TaskCount {
  return { tenant: String(tenant), phase: phaseAt(taskPhases, phase), tasks: Number(tasks) };
}

function decodeWorkerCount([tenant, phase, draining, workers]: SqliteCells): WorkerCount {
  return { tenant: String(tenant), phase: phaseAt(workerPhases, phase), draining: draining === 1, workers: Number(workers) };
}

function phaseAt<P extends string>(phases: readonly P[], cell: unknown): P {
  const phase = phases[Number(cell)];
  if (phase === undefined) throw new Error(`there is no phase ${String(cell)}`);
  return phase;
}

/** Live runs by tenant and phase, then their tasks by range: what has ended long ago is never touched. */
export const openTaskCountsSql = `SELECT tenant.id, task.phase, count(*) FROM tenant
  CROSS JOIN run INDEXED BY run_phase ON run.tenant = tenant.id AND run.phase IN (0, 1, 2) AND run.phase <> 3
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE ${isOpenSql} GROUP BY tenant.id, task.phase ORDER BY 1, 2`;

/** One tenant's, up to a number of tasks: a million in queue cost no more than that. */
export const boundedTaskCountsSql = `SELECT ?1, phase, count(*) FROM (
  SELECT task.phase AS phase FROM run INDEXED BY run_phase
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE run.tenant = ?1 AND run.phase IN (0, 1, 2) AND run.phase <> 3 AND ${isOpenSql} LIMIT ?2
) GROUP BY phase`;
const workerCountsSql = "SELECT tenant, phase, draining, count(*) FROM worker GROUP BY tenant, phase, draining";
const tenantsSql = "SELECT id FROM tenant WHERE id > ? AND position > 0 ORDER BY id LIMIT ?";
const workersSql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id > ? AND id < ? AND tenant = ? ORDER BY id`;
const workerSql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id = ? AND tenant = ?`;
const routesSql = `SELECT ${columnsByKind.route.names} FROM route ORDER BY id`;
const keySql = `SELECT ${columnsByKind.key.names} FROM key WHERE id = ?`;
export const heldTasksSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE worker = ${internedNumberSql} AND phase = 3 ORDER BY id LIMIT ?`;

/** The walk reads the list of runs by id; whether one has ended is in its row. */
const endedRunsSql = `SELECT id, "endedAt" FROM run INDEXED BY run_of WHERE tenant = ? AND id < ? ORDER BY id DESC LIMIT ?`;

function readEndedRuns({ tenant, before = highestRunId, limit }: PageFor<"ended">, connection: SqliteConnection) {
  const { items, next } = cutPage(connection.all(endedRunsSql, tenant, before, limit + 1), limit, ([id]) => String(id));
  return { runs: items.flatMap(([id, at]) => (at === null ? [] : [{ id: String(id), endedAt: Number(at) }])), next };
}

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
function readRuns(query: PageFor<"runs">, connection: SqliteConnection, searchedRows: number): CutPage<RunRow> {
  const isSearch = searchWords(query.search ?? "").length > 0;
  const walked = walkRuns(connection, query, runsScannedMax(query, isSearch ? searchedRows : rowsScannedMax));
  if (!isSearch || walked.next === null || walked.items.length === query.limit) return walked;
  const { items, next } = searchRuns(connection, query, walked.next, query.limit - walked.items.length);
  return { items: [...walked.items, ...items], next };
}

function walkRuns(connection: SqliteConnection, query: PageFor<"runs">, scannedMax: number): CutPage<RunRow> {
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

const ownRunSql = `SELECT ${columnsByKind.run.names} FROM run WHERE id = ? AND tenant = ?`;
const taskSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id = ?`;
export const tasksSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id < ? ORDER BY id LIMIT ?`;

function findOwnRun(connection: SqliteConnection, tenant: Tenant, id: RunId): RunRow | null {
  return readRow(connection, "run", ownRunSql, id, tenant);
}

function readRun(query: PageFor<"run">, connection: SqliteConnection): { detail: RunDetail | null } {
  const run = findOwnRun(connection, query.tenant, query.run);
  if (run === null) return { detail: null };
  // SQLite takes a negative limit for none.
  const found = connection.all(tasksSql, `${run.id}.`, `${run.id}/`, Math.max(-1, query.tasksMax ?? -1));
  const tasks = found.map((cells) => withValues(connection, decodeRow("task", cells), query.withoutInputs));
  if (query.withoutInputs === true) return { detail: { run, tasks, workflow: "" } };
  const [workflow = ""] = connection.get("SELECT body FROM workflow WHERE id = ?", run.workflow) ?? [];
  return { detail: { run, tasks, workflow: String(workflow) } };
}

function readTasks(query: PageFor<"tasks">, connection: SqliteConnection): CutPage<TaskRow> {
  const run = findOwnRun(connection, query.tenant, query.run);
  if (run === null) return { items: [], next: null };
  const first = `${run.id}.`;
  const after = query.after === undefined || query.after < first ? first : query.after;
  const limit = Math.max(0, query.limit);
  return cutPage(readRows(connection, "task", tasksSql, after, `${run.id}/`, limit + 1), limit, idOf);
}

function readTask({ tenant, task: id, withoutInputs }: PageFor<"task">, connection: SqliteConnection) {
  const run = findOwnRun(connection, tenant, runOf(id));
  const cells = run === null ? undefined : connection.get(taskSql, id);
  if (cells === undefined) return { run: null, task: null };
  return { run, task: withValues(connection, decodeRow("task", cells), withoutInputs) };
}

const documentsByIdSql = `SELECT ${columnsByKind.doc.names} FROM doc WHERE id IN (SELECT value FROM json_each(?))`;

/** A collection is read in its order. A prefix is read by names and sorted: it is given to find few among many. */
export function walkDocumentsSql(query: Pick<PageFor<"docs">, "prefix" | "order">, isAfter: boolean): string {
  const theirs = query.prefix ? "+tenant = ? AND +collection = ?" : "tenant = ? AND collection = ?";
  return `SELECT sort, id, terms FROM doc WHERE ${theirs}${documentBoundsSql(query, isAfter)}`;
}

/** `searchedRows`: so many documents are compared with the words of a search before the index of words is asked. */
function readDocuments(query: PageFor<"docs">, connection: SqliteConnection, searchedRows: number): CutPage<DocRow> {
  const { ids, reached } = walkDocuments(query, connection, searchedRows);
  let next = reached === null ? null : formatDocumentCursor(reached);
  const remaining = query.limit - ids.length;
  if (next !== null && remaining > 0) {
    const found = searchDocuments(connection, { ...query, after: next }, remaining + 1);
    const rest = cutPage(found, remaining, formatDocumentCursor);
    ids.push(...rest.items.map(idOf));
    next = rest.next;
  }
  return { items: readDocumentsById(ids, connection).flatMap((doc) => doc ?? []), next };
}

/** In the order of the list, until the page is full or enough was compared: `reached` is null where the list has ended. */
function walkDocuments(query: PageFor<"docs">, connection: SqliteConnection, searchedRows: number) {
  const matches = createDocumentFilter(query);
  const after = parseDocumentCursor(query.after);
  const ids: string[] = [];
  let scanned = 0;
  let reached: DocumentPosition | null = null;
  for (const cells of connection.iterate(walkDocumentsSql(query, after !== null), ...documentListValues(query, after))) {
    if (ids.length === query.limit || (matches !== null && scanned === searchedRows)) return { ids, reached };
    const [sort, id, terms] = cells.map(String) as [string, string, string];
    scanned++;
    reached = { sort, id };
    if (matches?.({ terms }) ?? true) ids.push(id);
  }
  return { ids, reached: null };
}

function readNamedDocuments({ tenant, collection, names }: PageFor<"doc">, connection: SqliteConnection) {
  const ids = names.map((name) => docId(tenant, collection, name));
  return { items: readDocumentsById(ids, connection) };
}

function readDocumentsById(ids: readonly string[], connection: SqliteConnection): (DocRow | null)[] {
  const found = new Map(readRows(connection, "doc", documentsByIdSql, JSON.stringify(ids)).map((doc) => [doc.id, doc]));
  return ids.map((id) => found.get(id) ?? null);
}

const newestFenceSql = "SELECT max(fence) FROM chunk WHERE task = ?";
export const chunksSql = `SELECT ${chunkFields.map((field) => `"${field}"`).join(", ")} FROM chunk WHERE task = ?1 AND fence = ?2
  AND first >= coalesce((SELECT max(first) FROM chunk WHERE task = ?1 AND fence = ?2 AND first <= ?3), 0)
  AND first + count > ?3 AND line + lines > ?4 ORDER BY first LIMIT ?5`;

/** Nothing for a stranger: the task's run must be the tenant's own. */
function readChunks(query: PageFor<"chunks">, connection: SqliteConnection): { items: ChunkRow[] } {
  const { tenant, task, fromChunk = 0, fromLine = -1 } = query;
  if (findOwnRun(connection, tenant, runOf(task)) === null) return { items: [] };
  const fence = query.fence ?? connection.get(newestFenceSql, task)?.[0];
  if (fence === null || fence === undefined) return { items: [] };
  return { items: connection.all(chunksSql, task, fence, fromChunk, fromLine, Math.max(0, query.limit)).map(decodeChunk) };
}

export const nextTaskQueueSql = `SELECT min(line) FROM task WHERE line IS NOT NULL AND line > ? AND line < ?`;
export const taskQueueDepthSql = `SELECT count(*), min("readyAt") FROM (
  SELECT "readyAt" FROM task WHERE line = ? ORDER BY band, rank, id LIMIT ?)`;

const routeSql = `SELECT ${columnsByKind.route.names} FROM route WHERE id = ?`;

/** From line to line, however many stand in each: tasks that wait for nobody are in none. */
function readTaskQueueDepths(query: PageFor<"lines">, connection: SqliteConnection): { items: QueueDepth[] } {
  const items: QueueDepth[] = [];
  const last = `${routeQueuePrefix}\u{10ffff}`;
  for (let line: unknown = routeQueuePrefix; ; ) {
    line = connection.get(nextTaskQueueSql, String(line), last)?.[0];
    if (typeof line !== "string") return { items };
    const route = readRow(connection, "route", routeSql, routeOfTaskQueue(line));
    if (route?.tenant !== query.tenant) continue;
    const [tasks, oldest] = connection.get(taskQueueDepthSql, line, Math.max(0, query.max)) ?? [];
    items.push({ line, route, tasks: Number(tasks), oldestReadyAt: oldest === null ? null : Number(oldest) });
  }
}
