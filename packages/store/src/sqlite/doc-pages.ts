// Pages of documents, of what tasks printed, and of the lines tasks wait in. One snapshot, taken by the reader, covers each.

import { type ChunkRow, type DocRow, docId, type QueueDepth, type RouteRow } from "@astraflow/engine";
import {
  type DocPlace,
  docCursor,
  docFilter,
  docRange,
  linePrefix,
  type PageFor,
  readDocCursor,
  routeOfLine,
} from "../paging.ts";
import { type ChunkField, chunkFields } from "../row-shape.ts";
import { columnsByKind, rowOf } from "./columns.ts";
import type { Cells, Connection } from "./connection.ts";
import { findDocs } from "./doc-search.ts";

const docsByIdSql = `SELECT ${columnsByKind.doc.names} FROM doc WHERE id IN (SELECT value FROM json_each(?))`;

/** A collection is read in its order. A prefix is read by names and sorted: it is given to find few among many. */
export function docsSql(query: Pick<PageFor<"docs">, "prefix" | "order">, isAfter: boolean): string {
  const [sign, way] = query.order === "desc" ? ["<", " DESC"] : [">", ""];
  const theirs = query.prefix ? "+tenant = ? AND +collection = ? AND id >= ? AND id < ?" : "tenant = ? AND collection = ?";
  const after = isAfter ? ` AND (sort, id) ${sign} (?, ?)` : "";
  return `SELECT sort, id, terms FROM doc WHERE ${theirs}${after} ORDER BY sort${way}, id${way}`;
}

/** `searchedRows`: so many documents are compared with the words of a search before the index of words is asked. */
export function readDocs(
  connection: Connection,
  query: PageFor<"docs">,
  searchedRows: number,
): { items: DocRow[]; next: string | null } {
  const { ids, last, isCut } = walkDocs(connection, query, searchedRows);
  let next = isCut && last !== null ? docCursor(last) : null;
  const room = query.limit - ids.length;
  if (next !== null && room > 0) {
    const found = findDocs(connection, { ...query, after: next }, room + 1);
    const places = found.slice(0, room).map(([sort, id]) => ({ sort: String(sort), id: String(id) }));
    const lastFound = places.at(-1);
    ids.push(...places.map(({ id }) => id));
    next = found.length > room && lastFound !== undefined ? docCursor(lastFound) : null;
  }
  return { items: docsBy(connection, ids).flatMap((doc) => doc ?? []), next };
}

/** In the order of the list, until the page is full or enough was compared. */
function walkDocs(connection: Connection, query: PageFor<"docs">, searchedRows: number) {
  const fits = docFilter(query);
  const after = readDocCursor(query.after);
  const { above, below } = docRange(query);
  const range = query.prefix ? [above, below] : [];
  const values = [query.tenant, query.collection, ...range, ...(after === null ? [] : [after.sort, after.id])];
  const ids: string[] = [];
  let scanned = 0;
  let last: DocPlace | null = null;
  for (const [sort, id, terms] of connection.each(docsSql(query, after !== null), ...values)) {
    if (ids.length === query.limit || (fits !== null && scanned === searchedRows)) return { ids, last, isCut: true };
    scanned++;
    last = { sort: String(sort), id: String(id) };
    if (fits?.({ terms: String(terms) }) ?? true) ids.push(last.id);
  }
  return { ids, last, isCut: false };
}

export function readNamedDocs(connection: Connection, query: PageFor<"doc">): (DocRow | null)[] {
  return docsBy(
    connection,
    query.names.map((name) => docId(query.tenant, query.collection, name)),
  );
}

function docsBy(connection: Connection, ids: readonly string[]): (DocRow | null)[] {
  const found = new Map<string, DocRow>();
  for (const cells of connection.all(docsByIdSql, JSON.stringify(ids))) {
    const doc = rowOf("doc", cells) as DocRow;
    found.set(doc.id, doc);
  }
  return ids.map((id) => found.get(id) ?? null);
}

const newestFenceSql = "SELECT max(fence) FROM chunk WHERE task = ?";
export const chunksSql = `SELECT ${chunkFields.map((field) => `"${field}"`).join(", ")} FROM chunk WHERE task = ?1 AND fence = ?2
  AND first >= coalesce((SELECT max(first) FROM chunk WHERE task = ?1 AND fence = ?2 AND first <= ?3), 0)
  AND first + count > ?3 AND line + lines > ?4 ORDER BY first LIMIT ?5`;

/** The caller has seen to it that the task is the tenant's. */
export function readChunks(connection: Connection, query: PageFor<"chunks">): ChunkRow[] {
  const { task, fromChunk = 0, fromLine = -1 } = query;
  const fence = query.fence ?? connection.get(newestFenceSql, task)?.[0];
  if (fence === null || fence === undefined) return [];
  return connection.all(chunksSql, task, fence, fromChunk, fromLine, Math.max(0, query.limit)).map(chunkOf);
}

function chunkOf(cells: Cells): ChunkRow {
  const chunk: Partial<Record<ChunkField, unknown>> = {};
  for (const [at, field] of chunkFields.entries()) chunk[field] = cells[at];
  return chunk as unknown as ChunkRow;
}

export const nextLineSql = `SELECT min(line) FROM task WHERE line IS NOT NULL AND line > ? AND line < ?`;
export const lineDepthSql = `SELECT count(*), min("readyAt") FROM (
  SELECT "readyAt" FROM task WHERE line = ? ORDER BY band, rank, id LIMIT ?)`;

/** From line to line, however many stand in each: tasks that wait for nobody are in none. */
export function readLines(connection: Connection, query: PageFor<"lines">): QueueDepth[] {
  const depths: QueueDepth[] = [];
  const last = `${linePrefix}\u{10ffff}`;
  for (let line: unknown = linePrefix; ; ) {
    line = connection.get(nextLineSql, String(line), last)?.[0];
    if (typeof line !== "string") return depths;
    const cells = connection.get(`SELECT ${columnsByKind.route.names} FROM route WHERE id = ?`, routeOfLine(line));
    const route = cells === undefined ? null : (rowOf("route", cells) as RouteRow);
    if (route?.tenant !== query.tenant) continue;
    const [tasks, oldest] = connection.get(lineDepthSql, line, Math.max(0, query.max)) ?? [];
    depths.push({ line, route, tasks: Number(tasks), oldestReadyAt: oldest === null ? null : Number(oldest) });
  }
}
