// Statements that read the log.

import type { EventQuery, RowKey } from "@astraflow/engine";
import { logRowsMax } from "../../common/log-rows.ts";
import { nameLiteral as text, integerLiteral as whole } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

const logColumns = "first, last, at, subject, facts";

/** From the row that holds the cursor on: it may have more facts behind it. Backwards: rows that begin below. */
export function logRowsSql(query: EventQuery): string {
  const { tenant, after, before } = query;
  const rows = `SELECT ${logColumns} FROM ${schemaName}.event WHERE tenant = ${text(tenant)}`;
  if (before !== undefined) return `${rows} AND ${startsBelowSql(before)} ORDER BY first DESC LIMIT ${whole(logRowsMax(query))}`;
  return `${rows} AND first >= coalesce((SELECT max(first) FROM ${schemaName}.event WHERE tenant = ${text(tenant)} AND first <= ${whole(after)}), 0)
    ORDER BY first LIMIT ${whole(logRowsMax(query))}`;
}

/** The empty text keeps the planner from walking the tenant's whole log: a subject's rows are few. */
export function subjectLogRowsSql(query: EventQuery, subject: RowKey): string {
  const { tenant, after, before } = query;
  const rows = `SELECT ${logColumns} FROM ${schemaName}.event WHERE subject = ${text(subject)} AND tenant || '' = ${text(tenant)}`;
  if (before !== undefined) return `${rows} AND ${startsBelowSql(before)} ORDER BY first DESC LIMIT ${whole(logRowsMax(query))}`;
  return `${rows}
    AND first >= coalesce((SELECT max(first) FROM ${schemaName}.event WHERE subject = ${text(subject)} AND first <= ${whole(after)}), 0)
    ORDER BY first LIMIT ${whole(logRowsMax(query))}`;
}

const startsBelowSql = (before: number): string => `first < ${whole(Math.min(before, Number.MAX_SAFE_INTEGER))}`;
