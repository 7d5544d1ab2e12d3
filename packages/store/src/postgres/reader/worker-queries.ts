// Statements of the pages about workers and about what waits: one worker with what it holds, how many workers there are, how many tasks.

import { isOpenSql } from "../sql/begin-function.ts";
import { rowArraySql } from "../sql/columns.ts";
import { integerLiteral, nameLiteral as text } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

export const workersSql = (tenant: string): string =>
  `SELECT json_agg(${rowArraySql("worker", "t")} ORDER BY t.id) FROM ${schemaName}.worker t
   WHERE t.id > ${text(`${tenant}/`)} AND t.id < ${text(`${tenant}0`)} AND t.tenant = ${text(tenant)}`;

/** Those that have a log, by name. */
export const tenantsSql = (after: string, limit: number): string =>
  `SELECT json_agg(n.id ORDER BY n.id) FROM (SELECT t.id FROM ${schemaName}.tenant t
   WHERE t.id > ${text(after)} AND t.position > 0 ORDER BY t.id LIMIT ${integerLiteral(limit)}) n`;

export const keySql = (tenant: string, key: string): string =>
  `SELECT ${rowArraySql("key", "t")} FROM ${schemaName}.key t WHERE t.id = ${text(`${tenant}/${key}`)}`;

export const workerSql = (tenant: string, worker: string): string =>
  `SELECT ${rowArraySql("worker", "t")} FROM ${schemaName}.worker t WHERE t.id = ${text(worker)} AND t.tenant = ${text(tenant)}`;

/** Nothing for a stranger: the worker must be the tenant's own. */
export const heldByOwnWorkerSql = (tenant: string, worker: string, limit: number): string =>
  `SELECT json_agg(${rowArraySql("task", "h")} ORDER BY h.id) FROM (SELECT * FROM ${schemaName}.task t
   WHERE t.worker = ${text(worker)} AND t.phase = 'leased'
   AND EXISTS (SELECT FROM ${schemaName}.worker w WHERE w.id = ${text(worker)} AND w.tenant = ${text(tenant)})
   ORDER BY t.id LIMIT ${integerLiteral(limit)}) h`;

export const workerCountsSql = `SELECT tenant, phase, draining, count(*) AS n FROM ${schemaName}.worker GROUP BY tenant, phase, draining`;

/** Live runs by tenant and phase, then their tasks by range: what has ended long ago is never touched. */
export const openTaskCountsSql = `SELECT r.tenant, t.phase, count(*) AS n FROM ${schemaName}.tenant n
  CROSS JOIN unnest('{queued,running,ending}'::text[]) p(phase)
  JOIN ${schemaName}.run r ON r.tenant = n.id AND r.phase = p.phase AND r.phase <> 'succeeded'
  JOIN ${schemaName}.task t ON t.id > r.id || '.' AND t.id < r.id || '/'
  WHERE ${isOpenSql} GROUP BY r.tenant, t.phase`;

/** The same, each tenant's up to a number of tasks: a million in queue cost no more than that. */
export const boundedTaskCountsSql = (tenant: string | undefined, max: number | undefined): string =>
  `SELECT n.id AS tenant, d.phase, count(*) AS n FROM ${schemaName}.tenant n CROSS JOIN LATERAL (
    SELECT t.phase FROM unnest('{queued,running,ending}'::text[]) WITH ORDINALITY p(phase, at)
    JOIN LATERAL (SELECT r.id FROM ${schemaName}.run r
      WHERE r.tenant = n.id AND r.phase = p.phase AND r.phase <> 'succeeded' LIMIT ${limitOf(max)}) r ON true
    JOIN LATERAL (SELECT t.phase FROM ${schemaName}.task t WHERE t.id > r.id || '.' AND t.id < r.id || '/'
      AND ${isOpenSql} LIMIT ${limitOf(max)}) t ON true
    LIMIT ${limitOf(max)}) d
  ${tenant === undefined ? "" : `WHERE n.id = ${text(tenant)}`} GROUP BY n.id, d.phase`;

const limitOf = (max: number | undefined): string => (max === undefined ? "ALL" : integerLiteral(max));
