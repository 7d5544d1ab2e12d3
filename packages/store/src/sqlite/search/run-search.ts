// Full-text search of runs. Every commit to the index would be a segment of its own, so new and renamed runs are noted, compared one by
// one, and indexed together once they are many. A run that the index names is compared with its row: its words may be of an older image.

import { type RunId, type RunRow, runSearchTerms, searchWords, type Tenant, type WorkerId } from "@astraflow/engine";
import {
  type CutPage,
  createRunFilter,
  cutPage,
  idOf,
  lowestRunIdAt,
  type PageFor,
  rowsScannedMax,
  runIdBounds,
} from "../../common/page-filters.ts";
import { compareIds } from "../../common/row-order.ts";
import type { SqliteConnection } from "../file/connection.ts";
import { columnsByKind, readRows } from "../rows/columns.ts";

/** How many runs may be outside the index: a search compares at most so many in vain. */
export const unindexedRunsDefault = 512;
const indexBatchRuns = 1_000;

/**
 * A row of the index is numbered by the instant in its run's id, then by a number that only rises: so the index is read newest first,
 * and all runs of an instant are found by the range of their ids. Ids that begin with no instant of this millennium's kind come first.
 */
const indexRowsPerInstant = 2 ** 20;
const instantMax = 2 ** 42;
const firstRowidAtSql = `CAST(? AS INTEGER) * ${indexRowsPerInstant}`;

const columns = columnsByKind.run.names;
const runColumns = columnsByKind.run.columns.map(({ field }) => `run."${field}"`).join(", ");
const insertUnindexedSql = "INSERT INTO run_fresh (id) SELECT value FROM json_each(?) WHERE true ON CONFLICT (id) DO NOTHING";
const unindexedIdsSql = "SELECT id FROM run_fresh ORDER BY id LIMIT ?";
const runsByIdSql = `SELECT ${columns} FROM run WHERE id IN (SELECT value FROM json_each(?))`;
const insertWordsSql = `INSERT INTO run_words (rowid, words) VALUES (${firstRowidAtSql} + CAST(? AS INTEGER), ?)`;
const deleteUnindexedSql = "DELETE FROM run_fresh WHERE id <= ?";
const serialSql = "SELECT value FROM meta WHERE name = 'search'";
const putSerialSql =
  "INSERT INTO meta (name, value) VALUES ('search', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const candidatesSql = `SELECT rowid / ${indexRowsPerInstant} FROM run_words
  WHERE run_words MATCH ? AND rowid >= ${firstRowidAtSql} AND rowid < ${firstRowidAtSql} + ${indexRowsPerInstant} ORDER BY rowid DESC`;
export const runsAtInstantSql = `SELECT ${columns} FROM run WHERE tenant = ? AND id >= ? AND id < ? ORDER BY id DESC`;
const unindexedRunsSql = `SELECT ${runColumns} FROM run_fresh CROSS JOIN run ON run.id = run_fresh.id
  WHERE run_fresh.id < ? AND run.tenant = ?`;

/** Notes runs whose words have changed; runs inside the turn that changes them. */
export function markRunsUnindexed(connection: SqliteConnection, runs: readonly RunId[]): void {
  connection.write(insertUnindexedSql, JSON.stringify(runs));
}

export function countUnindexedRuns(connection: SqliteConnection): number {
  return Number(connection.get("SELECT count(*) FROM run_fresh")?.[0] ?? 0);
}

/** Brings all noted runs into the index; runs inside a transaction. */
export function indexPendingRuns(connection: SqliteConnection): void {
  let serial = Number(connection.get(serialSql)?.[0] ?? 0);
  for (;;) {
    const ids = connection.all(unindexedIdsSql, indexBatchRuns).map((cells) => String(cells[0]));
    const last = ids.at(-1);
    if (last === undefined) break;
    for (const run of readRows(connection, "run", runsByIdSql, JSON.stringify(ids))) {
      serial = (serial + 1) % indexRowsPerInstant;
      connection.write(insertWordsSql, instantOf(run.id), serial, `${tenantWord(run.tenant)} ${runSearchTerms(run)}`);
    }
    connection.write(deleteUnindexedSql, last);
  }
  connection.write(putSerialSql, String(serial));
}

const indexRowsSql = `SELECT rowid / ${indexRowsPerInstant}, rowid % ${indexRowsPerInstant} FROM run_words
  WHERE run_words MATCH ? AND rowid >= ${firstRowidAtSql} AND rowid < ${firstRowidAtSql} + ${indexRowsPerInstant}`;
const deleteWordsSql = `INSERT INTO run_words (run_words, rowid, words) VALUES ('delete', ${firstRowidAtSql} + CAST(? AS INTEGER), ?)`;
const sharedInstantsSql = `SELECT one.value ->> 0 FROM json_each(?) AS one
  WHERE EXISTS (SELECT 1 FROM run WHERE run.id >= one.value ->> 1 AND run.id < one.value ->> 2)`;
/** One question for so many runs: the query of the index nests its words, and its depth is limited. */
const runsPerMatch = 64;

/**
 * Takes runs out of the index whose rows have just gone. The index keeps no texts and wants exactly those that were indexed: of a run that
 * failed after it was indexed there is one row without the words of its error and one with them.
 */
export function unindexRuns(connection: SqliteConnection, runs: readonly RunRow[]): void {
  const alone: RunRow[] = [];
  const shared = findSharedInstants(connection, runs);
  for (const run of runs) {
    const instant = instantOf(run.id);
    if (!shared.has(instant)) alone.push(run);
    else unindexRun(connection, run, findIndexRows(connection, identifyingWords(run), instant));
  }
  for (let at = 0; at < alone.length; at += runsPerMatch) unindexTogether(connection, alone.slice(at, at + runsPerMatch));
}

/** The instants at which there was more than one run, of any tenant: their rows of the index do not say whose they are. */
function findSharedInstants(connection: SqliteConnection, runs: readonly RunRow[]): ReadonlySet<number> {
  const shared = new Set<number>();
  const ranges = new Map<number, readonly [instant: number, from: RunId, below: RunId]>();
  for (const { id } of runs) {
    const instant = instantOf(id);
    const { from, below } = runIdsAtInstant(instant);
    if (ranges.has(instant) || !uuidPattern.test(id)) shared.add(instant);
    ranges.set(instant, [instant, from, below]);
  }
  for (const [instant] of connection.all(sharedInstantsSql, JSON.stringify([...ranges.values()]))) shared.add(Number(instant));
  return shared;
}

/** Runs of different instants are found by one question. */
function unindexTogether(connection: SqliteConnection, runs: readonly RunRow[]): void {
  const instants = runs.map(({ id }) => instantOf(id));
  const match = runs
    .flatMap(identifyingWords)
    .map((word) => `"${word}"`)
    .join(" OR ");
  const found = connection.all(indexRowsSql, match, Math.min(...instants), Math.max(...instants));
  const serials = Map.groupBy(found, ([instant]) => Number(instant));
  for (const run of runs) {
    const rows = serials.get(instantOf(run.id)) ?? [];
    unindexRun(
      connection,
      run,
      rows.map(([, serial]) => Number(serial)),
    );
  }
}

function unindexRun(connection: SqliteConnection, run: RunRow, rows: readonly number[]): void {
  if (rows.length === 0) return;
  const instant = instantOf(run.id);
  const all = runSearchTerms(run);
  const early = run.error === null ? all : runSearchTerms({ ...run, error: null } as RunRow);
  const known = early === all ? null : new Set(early.split(" "));
  const added = known === null ? undefined : all.split(" ").find((word) => !known.has(word));
  const late = added === undefined ? rows : findIndexRows(connection, [...identifyingWords(run), added], instant);
  for (const row of rows)
    connection.write(deleteWordsSql, instant, row, `${tenantWord(run.tenant)} ${late.includes(row) ? all : early}`);
}

/** Rows of an instant that hold all these words, by their numbers within the instant. */
function findIndexRows(connection: SqliteConnection, words: readonly string[], instant: number): number[] {
  const match = words.map((word) => `"${word}"`).join(" ");
  return connection.all(indexRowsSql, match, instant, instant).map(([, serial]) => Number(serial));
}

/**
 * Among the runs of an instant, the random digits at the end of an id name one. The other words of an id, and the tenant's, stand in very many
 * runs, and each would be looked for from the beginning of the index.
 */
function identifyingWords({ id, tenant }: RunRow): readonly string[] {
  const words = searchWords(id);
  return uuidPattern.test(id) ? words.slice(-1) : [tenantWord(tenant), ...words];
}
const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Tasks hold the number of their worker's word. */
const ranOnWorkersSql = `SELECT 1 FROM task WHERE id > ? AND id < ?
  AND worker IN (SELECT no FROM word WHERE text IN (SELECT value FROM json_each(?))) LIMIT 1`;

/** Whether one of a run's tasks is, or was last, one of these workers'. */
export const createWorkerCheck =
  (connection: SqliteConnection) =>
  (run: RunId, workers: readonly WorkerId[]): boolean =>
    connection.get(ranOnWorkersSql, `${run}.`, `${run}/`, JSON.stringify(workers)) !== undefined;

/** Runs below a bound that fit, newest first, found by their words. */
export function searchRuns(connection: SqliteConnection, query: PageFor<"runs">, below: RunId, limit: number): CutPage<RunRow> {
  const matches = createRunFilter(query, createWorkerCheck(connection));
  const found = new Map<RunId, RunRow>();
  for (const run of readRows(connection, "run", unindexedRunsSql, below, query.tenant)) if (matches(run)) found.set(run.id, run);
  let indexed = 0;
  let scanned = 0;
  /** Down to here everything has been looked at. */
  let reached: RunId | null = null;
  const { from } = runIdBounds(query);
  const least = from === null ? 0 : instantOf(from);
  let lastInstant = -1;
  for (const [cell] of connection.iterate(candidatesSql, matchExpression(query), least, instantOf(below))) {
    if (indexed > limit || scanned >= rowsScannedMax) break;
    const instant = Number(cell);
    if (instant === lastInstant) continue;
    lastInstant = instant;
    const range = runIdsAtInstant(instant);
    const end = range.below < below ? range.below : below;
    for (const run of readRows(connection, "run", runsAtInstantSql, query.tenant, range.from, end)) {
      scanned++;
      if (!matches(run)) continue;
      indexed++;
      found.set(run.id, run);
    }
    reached = range.from;
  }
  const isWhole = indexed <= limit && scanned < rowsScannedMax;
  const floor = isWhole ? null : reached;
  const runs = [...found.values()].filter(({ id }) => floor === null || id >= floor).sort((a, b) => compareIds(b, a));
  const { items, next } = cutPage(runs, limit, idOf);
  return { items, next: next ?? floor };
}

/** Every word as a beginning; the tenant's as it stands. Words hold nothing that would end a quote. */
function matchExpression({ tenant, search = "" }: PageFor<"runs">): string {
  return [`"${tenantWord(tenant)}"`, ...searchWords(search).map((word) => `"${word}"*`)].join(" ");
}

/** A word nobody writes, made of letters and digits. */
const tenantWord = (tenant: Tenant): string => `\u{e000}${Buffer.from(tenant).toString("hex")}`;

function instantOf(id: RunId): number {
  const hex = /^([0-9a-f]{8})-([0-9a-f]{4})/.exec(id);
  if (hex !== null) return Math.min(Number.parseInt(`${hex[1]}${hex[2]}`, 16), instantMax);
  return id < lowestRunIdAt(instantMax) ? 0 : instantMax;
}

function runIdsAtInstant(instant: number): { from: RunId; below: RunId } {
  return {
    from: instant === 0 ? "" : lowestRunIdAt(instant),
    below: instant === instantMax ? "\u{10ffff}" : lowestRunIdAt(instant + 1),
  };
}
