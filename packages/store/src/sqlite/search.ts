// Runs by the words people know them by. The index is not kept turn by turn, because every commit to it is a segment of its own: runs
// that are new, or are found by other words since, are noted, and once they are many they enter the index together. Until then they
// are looked at one by one. The index only proposes: each run it names is compared with its row, so words of an earlier image that
// are still in it mislead nobody.

import { type RunId, type RunRow, runSearchTerms, searchWords, type Tenant, type WorkerId } from "@astraflow/engine";
import { idAt, idBounds, type PageFor, rowsScannedMax, runFilter } from "../paging.ts";
import { columnsByKind, rowOf } from "./columns.ts";
import type { Connection } from "./connection.ts";

/** How many runs may be outside the index: a search compares at most so many in vain. */
export const freshRunsDefault = 512;
const batchRuns = 1_000;

/**
 * A row of the index is numbered by the instant in its run's id, then by a number that only rises: so the index is read newest first,
 * and all runs of an instant are found by the range of their ids. Ids that begin with no instant of this millennium's kind come first.
 */
const rowsAnInstant = 2 ** 20;
const instantTop = 2 ** 42;
const placeSql = `CAST(? AS INTEGER) * ${rowsAnInstant}`;

const columns = columnsByKind.run.names;
const runColumns = columnsByKind.run.columns.map(({ field }) => `run."${field}"`).join(", ");
const noteSql = "INSERT INTO run_fresh (id) SELECT value FROM json_each(?) WHERE true ON CONFLICT (id) DO NOTHING";
const freshSql = "SELECT id FROM run_fresh ORDER BY id LIMIT ?";
const rowsSql = `SELECT ${columns} FROM run WHERE id IN (SELECT value FROM json_each(?))`;
const enterSql = `INSERT INTO run_words (rowid, words) VALUES (${placeSql} + CAST(? AS INTEGER), ?)`;
const forgetSql = "DELETE FROM run_fresh WHERE id <= ?";
const serialSql = "SELECT value FROM meta WHERE name = 'search'";
const putSerialSql =
  "INSERT INTO meta (name, value) VALUES ('search', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const candidatesSql = `SELECT rowid / ${rowsAnInstant} FROM run_words
  WHERE run_words MATCH ? AND rowid >= ${placeSql} AND rowid < ${placeSql} + ${rowsAnInstant} ORDER BY rowid DESC`;
export const instantSql = `SELECT ${columns} FROM run WHERE tenant = ? AND id >= ? AND id < ? ORDER BY id DESC`;
const freshRunsSql = `SELECT ${runColumns} FROM run_fresh CROSS JOIN run ON run.id = run_fresh.id
  WHERE run_fresh.id < ? AND run.tenant = ?`;

/** Notes runs whose words have changed; runs inside the turn that changes them. */
export function noteFresh(connection: Connection, runs: readonly RunId[]): void {
  connection.run(connection.prepare(noteSql), [JSON.stringify(runs)]);
}

export function countFresh(connection: Connection): number {
  return Number(connection.get("SELECT count(*) FROM run_fresh")?.[0] ?? 0);
}

/** Brings all noted runs into the index; runs inside a transaction. */
export function indexFresh(connection: Connection): void {
  let serial = Number(connection.get(serialSql)?.[0] ?? 0);
  const enter = connection.prepare(enterSql);
  for (;;) {
    const ids = connection.all(freshSql, batchRuns).map((cells) => String(cells[0]));
    const last = ids.at(-1);
    if (last === undefined) break;
    for (const cells of connection.all(rowsSql, JSON.stringify(ids))) {
      const run = rowOf("run", cells) as RunRow;
      serial = (serial + 1) % rowsAnInstant;
      connection.run(enter, [instantOf(run.id), serial, `${tenantWord(run.tenant)} ${runSearchTerms(run)}`]);
    }
    connection.run(connection.prepare(forgetSql), [last]);
  }
  connection.run(connection.prepare(putSerialSql), [String(serial)]);
}

/** Tasks hold the number of their worker's word. */
const hadPartSql = `SELECT 1 FROM task WHERE id > ? AND id < ?
  AND worker IN (SELECT no FROM word WHERE text IN (SELECT value FROM json_each(?))) LIMIT 1`;

/** Whether one of a run's tasks is, or was last, one of these workers'. */
export const hadPart =
  (connection: Connection) =>
  (run: RunId, workers: readonly WorkerId[]): boolean =>
    connection.get(hadPartSql, `${run}.`, `${run}/`, JSON.stringify(workers)) !== undefined;

/** Runs below a bound that fit, newest first, found by their words. */
export function searchRuns(
  connection: Connection,
  query: PageFor<"runs">,
  below: RunId,
  limit: number,
): { items: RunRow[]; next: RunId | null } {
  const fits = runFilter(query, hadPart(connection));
  const found = new Map<RunId, RunRow>();
  for (const cells of connection.all(freshRunsSql, below, query.tenant)) {
    const run = rowOf("run", cells) as RunRow;
    if (fits(run)) found.set(run.id, run);
  }
  let indexed = 0;
  let looked = 0;
  /** Down to here everything has been looked at. */
  let reached: RunId | null = null;
  const { from } = idBounds(query);
  const least = from === null ? 0 : instantOf(from);
  let lastInstant = -1;
  for (const [cell] of connection.each(candidatesSql, matchOf(query), least, instantOf(below))) {
    if (indexed > limit || looked >= rowsScannedMax) break;
    const instant = Number(cell);
    if (instant === lastInstant) continue;
    lastInstant = instant;
    const range = idsOf(instant);
    for (const cells of connection.all(instantSql, query.tenant, range.from, range.below < below ? range.below : below)) {
      const run = rowOf("run", cells) as RunRow;
      looked++;
      if (!fits(run)) continue;
      indexed++;
      found.set(run.id, run);
    }
    reached = range.from;
  }
  const isWhole = indexed <= limit && looked < rowsScannedMax;
  const floor = isWhole ? null : reached;
  const items = [...found.values()].filter(({ id }) => floor === null || id >= floor).sort((a, b) => (a.id < b.id ? 1 : -1));
  if (items.length > limit) return { items: items.slice(0, limit), next: items[limit - 1]?.id ?? null };
  return { items, next: floor };
}

/** Every word as a beginning; the tenant's as it stands. Words hold nothing that would end a quote. */
function matchOf({ tenant, search = "" }: PageFor<"runs">): string {
  return [`"${tenantWord(tenant)}"`, ...searchWords(search).map((word) => `"${word}"*`)].join(" ");
}

/** A word nobody writes, made of letters and digits. */
const tenantWord = (tenant: Tenant): string => `\u{e000}${Buffer.from(tenant).toString("hex")}`;

function instantOf(id: RunId): number {
  const hex = /^([0-9a-f]{8})-([0-9a-f]{4})/.exec(id);
  if (hex !== null) return Math.min(Number.parseInt(`${hex[1]}${hex[2]}`, 16), instantTop);
  return id < idAt(instantTop) ? 0 : instantTop;
}

function idsOf(instant: number): { from: RunId; below: RunId } {
  return {
    from: instant === 0 ? "" : idAt(instant),
    below: instant === instantTop ? "\u{10ffff}" : idAt(instant + 1),
  };
}
