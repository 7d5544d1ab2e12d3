// Removes old rows, a few at a time, in a transaction beside the turns: what one of them holds is passed over. A lock for each tenant keeps
// two schedulers from doing the same work twice.

import {
  collectionsOwnedByRun,
  docId,
  type Millis,
  type RemovalOutcome,
  type RemovalSlice,
  type RemovedCounts,
  type RunId,
  type Tenant,
} from "@astraflow/engine";
import { auditFactMark, cutoffOf, isLogRowOld, noneRemoved, pendingCommandsMark, type RemovalOf } from "../../common/removal.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { integerLiteral, numberArrayLiteral, textArrayLiteral, textLiteral } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";

/** The rows of a tenant are read by index whatever the planner knows of them; nobody waits long for a removal. */
const beginSql = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
  SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('lock_timeout', '2000', true), set_config('statement_timeout', '10000', true)`;
const rowsPerRun = 4;
const hasEndedSql = "phase IN ('succeeded', 'failed', 'cancelled')";

export async function removeOldRows(
  connection: PostgresConnection,
  nowSql: string,
  slice: RemovalSlice,
): Promise<RemovalOutcome> {
  const lock = `pg_try_advisory_xact_lock(hashtextextended('astraflow.removal/' || ${textLiteral(slice.tenant)}, 0))`;
  const [, , result] = await connection.query(`${beginSql}; SELECT ${lock}, ${nowSql}`, 3);
  const [isMine, now] = result?.rows[0] ?? [];
  const outcome =
    isMine === true ? await removeSlice(connection, Number(now), slice) : { removed: noneRemoved, next: slice.after };
  await connection.query("COMMIT", 1);
  return outcome;
}

function removeSlice(connection: PostgresConnection, now: Millis, slice: RemovalSlice): Promise<RemovalOutcome> {
  if (slice.of === "runs") return removeRuns(connection, now, slice);
  if (slice.of === "log") return removeLogRows(connection, now, slice);
  return slice.of === "keys" ? removeKeys(connection, now, slice) : removeWorkers(connection, now, slice);
}

async function removeRuns(connection: PostgresConnection, now: Millis, slice: RemovalOf<"runs">): Promise<RemovalOutcome> {
  const { tenant, after, before, limit } = slice;
  const cutoff = cutoffOf(now, slice);
  const runsMax = Math.ceil(limit / rowsPerRun);
  const below = before === undefined ? "" : `AND id < ${textLiteral(before)}`;
  const found = await connection.queryRows(
    `SELECT id, ${hasEndedSql} AND "endedAt" <= ${integerLiteral(cutoff)}, "createdAt" FROM ${schemaName}.run
     WHERE tenant = ${textLiteral(tenant)} AND id > ${textLiteral(after)} ${below} ORDER BY id LIMIT ${runsMax}`,
  );
  // Ids are in the order of creation, and no run ends before it was created: behind the first that is too young there is nothing.
  const young = found.findIndex(([, , createdAt]) => Number(createdAt) > cutoff);
  const runs = young < 0 ? found : found.slice(0, young);
  const old = runs.flatMap(([id, isOld]) => (isOld === true ? [String(id)] : []));
  const sizes = old.length === 0 ? new Map<RunId, number>() : await lockRuns(connection, tenant, old, limit);
  let remaining = limit;
  const whole: RunId[] = [];
  for (const [id, size] of sizes) {
    if (size > remaining) break;
    whole.push(id);
    remaining -= size;
  }
  const [tooLarge] = [...sizes.keys()].slice(whole.length);
  const end = young >= 0 || found.length < runsMax ? null : String(runs.at(-1)?.[0]);
  if (whole.length > 0 || tooLarge === undefined) {
    const removed = whole.length === 0 ? noneRemoved : await removeWholeRuns(connection, tenant, whole);
    return { removed, next: tooLarge === undefined ? end : (whole.at(-1) ?? after) };
  }
  const ahead = runs.findLast(([id]) => String(id) < tooLarge);
  return {
    removed: await removePartOfRun(connection, tenant, tooLarge, limit),
    next: ahead === undefined ? after : String(ahead[0]),
  };
}

/** How many rows each has, counted up to the limit, by id; those that a turn holds are left out. */
async function lockRuns(
  connection: PostgresConnection,
  tenant: Tenant,
  ids: readonly RunId[],
  limit: number,
): Promise<Map<RunId, number>> {
  const most = limit + 1;
  const count = (of: string) => `(SELECT count(*) FROM (SELECT FROM ${schemaName}.${of} LIMIT ${most}) x)`;
  const rows = await connection.queryRows(
    `SELECT r.id, 1 + ${count("task t WHERE t.id > r.id || '.' AND t.id < r.id || '/'")}
       + ${count("chunk c WHERE c.task > r.id || '.' AND c.task < r.id || '/'")}
       + ${count(`event e WHERE e.subject = 'run/' || r.id AND e.tenant = ${textLiteral(tenant)}`)}
     FROM ${schemaName}.run r WHERE r.id = ANY (${textArrayLiteral(ids)}::text[]) AND ${hasEndedSql}
     ORDER BY r.id FOR UPDATE OF r SKIP LOCKED`,
  );
  return new Map(rows.map(([id, size]) => [String(id), Number(size)]));
}

async function removeWholeRuns(connection: PostgresConnection, tenant: Tenant, ids: readonly RunId[]): Promise<RemovedCounts> {
  const runs = `unnest(${textArrayLiteral(ids)}::text[]) r(id)`;
  const documents = [...collectionsOwnedByRun].map((collection) => {
    const prefix = textLiteral(docId(tenant, collection, ""));
    return `DELETE FROM ${schemaName}.doc d USING ${runs} WHERE d.id > ${prefix} || r.id || '.' AND d.id < ${prefix} || r.id || '/'`;
  });
  const results = await connection.query(
    [
      `DELETE FROM ${schemaName}.task t USING ${runs} WHERE t.id > r.id || '.' AND t.id < r.id || '/'`,
      `DELETE FROM ${schemaName}.chunk c USING ${runs} WHERE c.task > r.id || '.' AND c.task < r.id || '/'`,
      `DELETE FROM ${schemaName}.run WHERE id = ANY (${textArrayLiteral(ids)}::text[])`,
      ...documents,
      removeLogSql(
        tenant,
        `USING ${runs} WHERE e.tenant = ${textLiteral(tenant)} AND e.subject = 'run/' || r.id AND ${isNoAuditSql}`,
      ),
    ].join("; "),
    4 + documents.length,
  );
  const [tasks = 0, chunks = 0, removed = 0] = results.map(({ rowCount }) => rowCount ?? 0);
  return { ...noneRemoved, tasks, chunks, runs: removed, logEntries: Number(results.at(-1)?.rows[0]?.[0] ?? 0) };
}

const isNoAuditSql = `position(${textLiteral(auditFactMark)} IN e.facts) = 0`;

/** A run with very many rows loses some of them at a time, and its own at last. */
async function removePartOfRun(
  connection: PostgresConnection,
  tenant: Tenant,
  run: RunId,
  limit: number,
): Promise<RemovedCounts> {
  const [from, to] = [textLiteral(`${run}.`), textLiteral(`${run}/`)];
  const someOf = (table: string, column: string) =>
    `ctid = ANY (ARRAY(SELECT ctid FROM ${schemaName}.${table} WHERE ${column} > ${from} AND ${column} < ${to} LIMIT ${limit}))`;
  const firsts = `SELECT e.first FROM ${schemaName}.event e
    WHERE e.subject = ${textLiteral(`run/${run}`)} AND e.tenant = ${textLiteral(tenant)} AND ${isNoAuditSql} LIMIT ${limit}`;
  const results = await connection.query(
    [
      `DELETE FROM ${schemaName}.task WHERE ${someOf("task", "id")}`,
      `DELETE FROM ${schemaName}.chunk WHERE ${someOf("chunk", "task")}`,
      removeLogSql(tenant, `WHERE e.tenant = ${textLiteral(tenant)} AND e.first = ANY (ARRAY(${firsts}))`),
    ].join("; "),
    3,
  );
  const [tasks = 0, chunks = 0] = results.map(({ rowCount }) => rowCount ?? 0);
  return { ...noneRemoved, tasks, chunks, logEntries: Number(results.at(-1)?.rows[0]?.[0] ?? 0) };
}

/** The tenant's row, which every turn of the tenant needs, is written last. */
const removeLogSql = (tenant: Tenant, which: string): string =>
  `WITH gone AS (DELETE FROM ${schemaName}.event e ${which} RETURNING e.last)
   UPDATE ${schemaName}.tenant SET removed = greatest(removed, (SELECT max(last) FROM gone))
   WHERE id = ${textLiteral(tenant)} AND EXISTS (SELECT FROM gone) RETURNING (SELECT count(*) FROM gone)`;

async function removeLogRows(connection: PostgresConnection, now: Millis, slice: RemovalOf<"log">): Promise<RemovalOutcome> {
  const { tenant, after, limit } = slice;
  const rows = await connection.queryRows(
    `SELECT e.first, e.at, NOT (${isNoAuditSql}),
       e.subject LIKE 'run/%' AND EXISTS (SELECT FROM ${schemaName}.run r WHERE r.id = substr(e.subject, 5))
     FROM ${schemaName}.event e WHERE e.tenant = ${textLiteral(tenant)} AND e.first > ${integerLiteral(Number(after))}
     ORDER BY e.first LIMIT ${limit}`,
  );
  const young = rows.findIndex(([, at]) => Number(at) > cutoffOf(now, slice));
  const old = (young < 0 ? rows : rows.slice(0, young)).flatMap(([first, at, isAudit, isOfKeptRun]) => {
    const row = { at: Number(at), isAudit: isAudit === true, isOfKeptRun: isOfKeptRun === true };
    return isLogRowOld(row, now, slice) ? [Number(first)] : [];
  });
  const next = young >= 0 || rows.length < limit ? null : String(rows.at(-1)?.[0]);
  if (old.length === 0) return { removed: noneRemoved, next };
  const which = `WHERE e.tenant = ${textLiteral(tenant)} AND e.first = ANY (${numberArrayLiteral(old)}::bigint[])`;
  await connection.query(removeLogSql(tenant, which), 1);
  return { removed: { ...noneRemoved, logEntries: old.length }, next };
}

async function removeKeys(
  connection: PostgresConnection,
  now: Millis,
  slice: RemovalOf<"keys" | "workers">,
): Promise<RemovalOutcome> {
  const isOld = `at <= ${integerLiteral(cutoffOf(now, slice))}`;
  const { removed, next } = await removeNamed(connection, slice, "ask", isOld);
  return { removed: { ...noneRemoved, keys: removed }, next };
}

async function removeWorkers(
  connection: PostgresConnection,
  now: Millis,
  slice: RemovalOf<"keys" | "workers">,
): Promise<RemovalOutcome> {
  const isIdle = `phase IN ('lost', 'left') AND due IS NULL AND position(${textLiteral(pendingCommandsMark)} IN condition) = 0`;
  const isOld = `tenant = ${textLiteral(slice.tenant)} AND "seenAt" <= ${integerLiteral(cutoffOf(now, slice))} AND ${isIdle}`;
  const { removed, next } = await removeNamed(connection, slice, "worker", isOld);
  return { removed: { ...noneRemoved, workers: removed }, next };
}

/** Rows whose ids begin with the tenant. They are judged again once they are locked: a turn may have written them meanwhile. */
async function removeNamed(
  connection: PostgresConnection,
  { tenant, after, limit }: RemovalOf<"keys" | "workers">,
  table: string,
  isOld: string,
): Promise<{ removed: number; next: string | null }> {
  const from = textLiteral(after === "" ? `${tenant}/` : after);
  const rows = await connection.queryRows(
    `SELECT id, ${isOld} FROM ${schemaName}.${table} WHERE id > ${from} AND id < ${textLiteral(`${tenant}0`)} ORDER BY id LIMIT ${limit}`,
  );
  const old = rows.flatMap(([id, isMeant]) => (isMeant === true ? [String(id)] : []));
  const next = rows.length < limit ? null : String(rows.at(-1)?.[0]);
  if (old.length === 0) return { removed: 0, next };
  const locked = `SELECT id FROM ${schemaName}.${table} WHERE id = ANY (${textArrayLiteral(old)}::text[]) ORDER BY id FOR UPDATE SKIP LOCKED`;
  const held = (await connection.queryRows(locked)).map(([id]) => String(id));
  const [result] = await connection.query(
    `DELETE FROM ${schemaName}.${table} WHERE id = ANY (${textArrayLiteral(held)}::text[]) AND ${isOld}`,
    1,
  );
  return { removed: result?.rowCount ?? 0, next };
}
