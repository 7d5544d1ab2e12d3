// Histories: which rows of the log tell of a subject. The index is not kept turn by turn, because each turn tells of many subjects and
// would dirty a page for every one of them. The newest rows are found by reading them; once they are many, all of them enter the index
// together, subject by subject, so that rows of one subject share a page.

import type { Position, RowKey, Tenant } from "@astraflow/engine";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";

/** How many rows of a tenant's log may be outside the index: a history reads at most so many in vain. */
export const unindexedLogRowsDefault = 4_096;

const eventColumns = "first, last, at, subject, facts";
/** From the row that holds the cursor on: it may have more facts behind it. */
export const logRowsSql = `SELECT ${eventColumns} FROM event WHERE tenant = ?1
  AND first >= coalesce((SELECT max(first) FROM event WHERE tenant = ?1 AND first <= ?2), 0) ORDER BY first`;
export const indexedHistorySql = `SELECT event.first, last, at, event.subject, facts FROM event_of
  CROSS JOIN event ON event.tenant = event_of.tenant AND event.first = event_of.first
  WHERE event_of.subject = ?3 AND event_of.tenant = ?1 AND event_of.first >= coalesce(
    (SELECT max(first) FROM event_of WHERE subject = ?3 AND tenant = ?1 AND first <= ?2), 0) ORDER BY event_of.first`;
export const unindexedHistorySql = `SELECT ${eventColumns} FROM event WHERE tenant = ?1
  AND first > max(?4, coalesce((SELECT max(first) FROM event WHERE tenant = ?1 AND first <= ?2), 0) - 1)
  AND subject = ?3 ORDER BY first`;
/** The same, newest first, of rows that begin below a position. */
export const logRowsBackwardsSql = `SELECT ${eventColumns} FROM event WHERE tenant = ?1 AND first < ?2 ORDER BY first DESC`;
export const indexedHistoryBackwardsSql = `SELECT event.first, last, at, event.subject, facts FROM event_of
  CROSS JOIN event ON event.tenant = event_of.tenant AND event.first = event_of.first
  WHERE event_of.subject = ?3 AND event_of.tenant = ?1 AND event_of.first < ?2 ORDER BY event_of.first DESC`;
export const unindexedHistoryBackwardsSql = `SELECT ${eventColumns} FROM event WHERE tenant = ?1 AND first > ?4 AND first < ?2 AND subject = ?3
  ORDER BY first DESC`;
export const countUnindexedSql = "SELECT count(*) FROM event WHERE tenant = ? AND first > ?";
const indexHistorySql =
  "INSERT INTO event_of (subject, tenant, first) SELECT subject, tenant, first FROM event WHERE tenant = ? AND first > ? ORDER BY subject, first";
const unindexHistorySql = `DELETE FROM event_of WHERE (subject, tenant, first) IN
  (SELECT subject, tenant, first FROM event WHERE tenant = ? AND last <= ? ORDER BY first LIMIT ?)`;
const trimLogSql =
  "DELETE FROM event WHERE tenant = ? AND first IN (SELECT first FROM event WHERE tenant = ? AND last <= ? ORDER BY first LIMIT ?)";

/** Rows of a subject from a cursor on. `indexed`: the position up to which the index is complete. One snapshot must cover both. */
export function* readSubjectHistory(
  connection: SqliteConnection,
  query: { tenant: Tenant; after: Position; subject: RowKey },
  indexed: Position,
): Generator<SqliteCells> {
  const { tenant, after, subject } = query;
  yield* connection.iterate(indexedHistorySql, tenant, after, subject);
  yield* connection.iterate(unindexedHistorySql, tenant, after, subject, indexed);
}

/** The same from a position down. */
export function* readSubjectHistoryBackwards(
  connection: SqliteConnection,
  query: { tenant: Tenant; before: Position; subject: RowKey },
  indexed: Position,
): Generator<SqliteCells> {
  const { tenant, before, subject } = query;
  yield* connection.iterate(unindexedHistoryBackwardsSql, tenant, before, subject, indexed);
  yield* connection.iterate(indexedHistoryBackwardsSql, tenant, before, subject);
}

/** Brings everything behind `indexed` into the index. */
export function indexSubjectHistory(connection: SqliteConnection, tenant: Tenant, indexed: Position): void {
  connection.run(connection.prepare(indexHistorySql), [tenant, indexed]);
}

/** Removes the oldest rows up to a position, at most so many, and answers how many went. */
export function trimLog(connection: SqliteConnection, tenant: Tenant, to: Position, rowsMax: number): number {
  connection.db.prepare(unindexHistorySql).run(tenant, to, rowsMax);
  return Number(connection.db.prepare(trimLogSql).run(tenant, tenant, to, rowsMax).changes);
}
