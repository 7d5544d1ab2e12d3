// Pages of documents, of what tasks printed, and of the lines tasks wait in. One snapshot, taken by the reader, covers each.

import { type ChunkRow, type DocRow, docId, type QueueDepth } from "@astraflow/engine";
import {
  createDocumentFilter,
  type DocumentPosition,
  documentIdRange,
  formatDocumentCursor,
  type PageFor,
  parseDocumentCursor,
  routeOfTaskQueue,
  routeQueuePrefix,
} from "../../common/page-filters.ts";
import { type ChunkField, chunkFields } from "../../common/row-shape.ts";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";
import { columnsByKind, decodeRow } from "../rows/columns.ts";
import { searchDocuments } from "../search/document-search.ts";

const documentsByIdSql = `SELECT ${columnsByKind.doc.names} FROM doc WHERE id IN (SELECT value FROM json_each(?))`;

/** A collection is read in its order. A prefix is read by names and sorted: it is given to find few among many. */
export function walkDocumentsSql(query: Pick<PageFor<"docs">, "prefix" | "order">, isAfter: boolean): string {
  const [sign, way] = query.order === "desc" ? ["<", " DESC"] : [">", ""];
  const theirs = query.prefix ? "+tenant = ? AND +collection = ? AND id >= ? AND id < ?" : "tenant = ? AND collection = ?";
  const after = isAfter ? ` AND (sort, id) ${sign} (?, ?)` : "";
  return `SELECT sort, id, terms FROM doc WHERE ${theirs}${after} ORDER BY sort${way}, id${way}`;
}

/** `searchedRows`: so many documents are compared with the words of a search before the index of words is asked. */
export function readDocuments(
  connection: SqliteConnection,
  query: PageFor<"docs">,
  searchedRows: number,
): { items: DocRow[]; next: string | null } {
  const { ids, last, isCut } = walkDocuments(connection, query, searchedRows);
  let next = isCut && last !== null ? formatDocumentCursor(last) : null;
  const remaining = query.limit - ids.length;
  if (next !== null && remaining > 0) {
    const found = searchDocuments(connection, { ...query, after: next }, remaining + 1);
    const places = found.slice(0, remaining).map(([sort, id]) => ({ sort: String(sort), id: String(id) }));
    const lastFound = places.at(-1);
    ids.push(...places.map(({ id }) => id));
    next = found.length > remaining && lastFound !== undefined ? formatDocumentCursor(lastFound) : null;
  }
  return { items: readDocumentsById(connection, ids).flatMap((doc) => doc ?? []), next };
}

/** In the order of the list, until the page is full or enough was compared. */
function walkDocuments(connection: SqliteConnection, query: PageFor<"docs">, searchedRows: number) {
  const matches = createDocumentFilter(query);
  const after = parseDocumentCursor(query.after);
  const { above, below } = documentIdRange(query);
  const range = query.prefix ? [above, below] : [];
  const values = [query.tenant, query.collection, ...range, ...(after === null ? [] : [after.sort, after.id])];
  const ids: string[] = [];
  let scanned = 0;
  let last: DocumentPosition | null = null;
  for (const [sort, id, terms] of connection.iterate(walkDocumentsSql(query, after !== null), ...values)) {
    if (ids.length === query.limit || (matches !== null && scanned === searchedRows)) return { ids, last, isCut: true };
    scanned++;
    last = { sort: String(sort), id: String(id) };
    if (matches?.({ terms: String(terms) }) ?? true) ids.push(last.id);
  }
  return { ids, last, isCut: false };
}

export function readNamedDocuments(connection: SqliteConnection, query: PageFor<"doc">): (DocRow | null)[] {
  return readDocumentsById(
    connection,
    query.names.map((name) => docId(query.tenant, query.collection, name)),
  );
}

function readDocumentsById(connection: SqliteConnection, ids: readonly string[]): (DocRow | null)[] {
  const found = new Map<string, DocRow>();
  for (const cells of connection.all(documentsByIdSql, JSON.stringify(ids))) {
    const doc = decodeRow("doc", cells);
    found.set(doc.id, doc);
  }
  return ids.map((id) => found.get(id) ?? null);
}

const newestFenceSql = "SELECT max(fence) FROM chunk WHERE task = ?";
export const chunksSql = `SELECT ${chunkFields.map((field) => `"${field}"`).join(", ")} FROM chunk WHERE task = ?1 AND fence = ?2
  AND first >= coalesce((SELECT max(first) FROM chunk WHERE task = ?1 AND fence = ?2 AND first <= ?3), 0)
  AND first + count > ?3 AND line + lines > ?4 ORDER BY first LIMIT ?5`;

/** The caller has seen to it that the task is the tenant's. */
export function readChunks(connection: SqliteConnection, query: PageFor<"chunks">): ChunkRow[] {
  const { task, fromChunk = 0, fromLine = -1 } = query;
  const fence = query.fence ?? connection.get(newestFenceSql, task)?.[0];
  if (fence === null || fence === undefined) return [];
  return connection.all(chunksSql, task, fence, fromChunk, fromLine, Math.max(0, query.limit)).map(decodeChunk);
}

function decodeChunk(cells: SqliteCells): ChunkRow {
  const chunk: Partial<Record<ChunkField, unknown>> = {};
  for (const [at, field] of chunkFields.entries()) chunk[field] = cells[at];
  return chunk as unknown as ChunkRow;
}

export const nextTaskQueueSql = `SELECT min(line) FROM task WHERE line IS NOT NULL AND line > ? AND line < ?`;
export const taskQueueDepthSql = `SELECT count(*), min("readyAt") FROM (
  SELECT "readyAt" FROM task WHERE line = ? ORDER BY band, rank, id LIMIT ?)`;

/** From line to line, however many stand in each: tasks that wait for nobody are in none. */
export function readTaskQueueDepths(connection: SqliteConnection, query: PageFor<"lines">): QueueDepth[] {
  const depths: QueueDepth[] = [];
  const last = `${routeQueuePrefix}\u{10ffff}`;
  for (let line: unknown = routeQueuePrefix; ; ) {
    line = connection.get(nextTaskQueueSql, String(line), last)?.[0];
    if (typeof line !== "string") return depths;
    const cells = connection.get(`SELECT ${columnsByKind.route.names} FROM route WHERE id = ?`, routeOfTaskQueue(line));
    const route = cells === undefined ? null : decodeRow("route", cells);
    if (route?.tenant !== query.tenant) continue;
    const [tasks, oldest] = connection.get(taskQueueDepthSql, line, Math.max(0, query.max)) ?? [];
    depths.push({ line, route, tasks: Number(tasks), oldestReadyAt: oldest === null ? null : Number(oldest) });
  }
}
