// Which rows of the log are about a subject. Indexing turn by turn would dirty a page for every subject: the newest rows are read one by
// one, and indexed together once they are many, so that rows of one subject share a page.

import type { EventQuery, Millis, Position, RowKey, Tenant } from "@astraflow/engine";
import { auditFactMark } from "../../common/removal.ts";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";

/** How many rows of a tenant's log may be outside the index: a history reads at most so many in vain. */
export const unindexedLogRowsDefault = 4_096;

const eventColumns = "first, last, at, subject, facts";
const logSql = `SELECT ${eventColumns} FROM event WHERE tenant = ?1`;
const indexedSql = `SELECT event.first, last, at, event.subject, facts FROM event_of
  CROSS JOIN event ON event.tenant = event_of.tenant AND event.first = event_of.first
  WHERE event_of.subject = ?3 AND event_of.tenant = ?1`;

/** From the row that holds the cursor on: it may have more facts behind it. */
export const forwardsSql = {
  log: `${logSql} AND first >= coalesce((SELECT max(first) FROM event WHERE tenant = ?1 AND first <= ?2), 0) ORDER BY first`,
  indexed: `${indexedSql} AND event_of.first >= coalesce(
    (SELECT max(first) FROM event_of WHERE subject = ?3 AND tenant = ?1 AND first <= ?2), 0) ORDER BY event_of.first`,
  unindexed: `${logSql} AND first > max(?4, coalesce((SELECT max(first) FROM event WHERE tenant = ?1 AND first <= ?2), 0) - 1)
    AND subject = ?3 ORDER BY first`,
};
/** The same, newest first, of rows that begin below a position. */
export const backwardsSql = {
  log: `${logSql} AND first < ?2 ORDER BY first DESC`,
  indexed: `${indexedSql} AND event_of.first < ?2 ORDER BY event_of.first DESC`,
  unindexed: `${logSql} AND first > ?4 AND first < ?2 AND subject = ?3 ORDER BY first DESC`,
};
export const countUnindexedSql = "SELECT count(*) FROM event WHERE tenant = ? AND first > ?";
const indexHistorySql =
  "INSERT INTO event_of (subject, tenant, first) SELECT subject, tenant, first FROM event WHERE tenant = ? AND first > ? ORDER BY subject, first";
const unindexHistorySql = `DELETE FROM event_of WHERE (subject, tenant, first) IN
  (SELECT subject, tenant, first FROM event WHERE tenant = ? AND last <= ? ORDER BY first LIMIT ?)`;
const trimLogSql =
  "DELETE FROM event WHERE tenant = ? AND first IN (SELECT first FROM event WHERE tenant = ? AND last <= ? ORDER BY first LIMIT ?)";

/** Log rows from a cursor on, or below `before`. `indexed`: the position up to which the index is complete. One snapshot must cover both. */
export function* readLogRows(
  connection: SqliteConnection,
  { tenant, after, before, subject }: EventQuery,
  indexed: Position,
): Generator<SqliteCells> {
  const [sql, cursor] = before === undefined ? [forwardsSql, after] : [backwardsSql, before];
  if (subject === undefined) return yield* connection.iterate(sql.log, tenant, cursor);
  if (before !== undefined) yield* connection.iterate(sql.unindexed, tenant, cursor, subject, indexed);
  yield* connection.iterate(sql.indexed, tenant, cursor, subject);
  if (before === undefined) yield* connection.iterate(sql.unindexed, tenant, cursor, subject, indexed);
}

/** Brings everything behind `indexed` into the index. */
export function indexSubjectHistory(connection: SqliteConnection, tenant: Tenant, indexed: Position): void {
  connection.write(indexHistorySql, tenant, indexed);
}

/** Removes the oldest rows up to a position, at most so many, and answers how many went. */
export function trimLog(connection: SqliteConnection, tenant: Tenant, to: Position, rowsMax: number): number {
  connection.db.prepare(unindexHistorySql).run(tenant, to, rowsMax);
  return Number(connection.db.prepare(trimLogSql).run(tenant, tenant, to, rowsMax).changes);
}

const rowsOfSubjectSql = `SELECT event_of.first, event.last FROM event_of
  CROSS JOIN event ON event.tenant = event_of.tenant AND event.first = event_of.first
  WHERE event_of.subject = ? AND event_of.tenant = ? AND instr(event.facts, ?) = 0 LIMIT ?`;
const oldestUnindexedSql = "SELECT at FROM event WHERE tenant = ? AND first > ? ORDER BY first LIMIT 1";
const deleteLogRowSql = "DELETE FROM event WHERE tenant = ? AND first = ?";
const deleteIndexedRowSql = "DELETE FROM event_of WHERE subject = ? AND tenant = ? AND first = ?";

/** Indexed rows about a subject that hold no audit entry. */
export function findRemovableLogRows(connection: SqliteConnection, subject: RowKey, tenant: Tenant, limit: number) {
  const rows = connection.all(rowsOfSubjectSql, subject, tenant, auditFactMark, limit);
  return rows.map(([first, last]) => ({ first: Number(first), last: Number(last) }));
}

/** When the oldest row that is not in the index was written; null where all are. */
export function oldestUnindexedAt(connection: SqliteConnection, tenant: Tenant, indexed: Position): Millis | null {
  const [at] = connection.get(oldestUnindexedSql, tenant, indexed) ?? [];
  return at === undefined ? null : Number(at);
}

export function removeLogRow(connection: SqliteConnection, tenant: Tenant, subject: RowKey, first: Position): void {
  connection.write(deleteIndexedRowSql, subject, tenant, first);
  connection.write(deleteLogRowSql, tenant, first);
}

const deleteHistoriesSql = `DELETE FROM event WHERE tenant = ?1 AND instr(facts, ?3) = 0 AND first IN
  (SELECT event_of.first FROM json_each(?2) AS one CROSS JOIN event_of ON event_of.subject = 'run/' || one.value AND event_of.tenant = ?1)
  RETURNING last`;
const unindexHistoriesSql = `DELETE FROM event_of WHERE tenant = ?1 AND subject IN (SELECT 'run/' || value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM event WHERE event.tenant = ?1 AND event.first = event_of.first)`;

/** Removes the indexed rows about these runs (ids as JSON) that hold no audit entry, and answers their last positions. */
export function removeHistories(connection: SqliteConnection, tenant: Tenant, runs: string): Position[] {
  const rows = connection.all(deleteHistoriesSql, tenant, runs, auditFactMark);
  connection.write(unindexHistoriesSql, tenant, runs);
  return rows.map(([last]) => Number(last));
}
