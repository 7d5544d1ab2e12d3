// Statements of the pages of runs and their tasks. Who asks them, and on which connection, is in reader.ts.

import { searchWords } from "@astraflow/engine";
import { type PageFor, rowsScannedMax, runIdBounds, runsScannedMax } from "../../common/page-filters.ts";
import { rowArraySql } from "../sql/columns.ts";
import { nameLiteral as text, integerLiteral as whole } from "../sql/literals.ts";
import { runSearchVectorSql, schemaName } from "../sql/tables.ts";

type RunsQuery = PageFor<"runs">;

export const isSearch = (query: RunsQuery): boolean => searchWords(query.search ?? "").length > 0;

/** Whether every run that the walk passes is one that is meant. */
function isWalkExact({ phase, client, workers, source, since, until, ...query }: RunsQuery): boolean {
  const isPhaseWalked = phase === undefined || (phase !== "succeeded" && !source);
  const isInstantOpen = since === undefined && until === undefined;
  const isPlain = client === undefined && workers === undefined && searchWords(query.search ?? "").length === 0;
  return isPlain && source !== "" && isInstantOpen && isPhaseWalked;
}

/** `searchedRows`: so many runs are compared with the words of a search before the index of words is asked. */
export function runScanMax(query: RunsQuery, searchedRows: number): number {
  if (isWalkExact(query)) return query.limit + 1;
  const most = isSearch(query) ? Math.max(1, searchedRows) : Math.max(rowsScannedMax, query.limit + 1);
  return runsScannedMax(query, most);
}

/** Most runs have succeeded, so those are found by walking; the index of the other phases stays small. */
export function walkRunsSql(query: RunsQuery, limit: number): string {
  const { phase, source } = query;
  const isByPhase = phase !== undefined && phase !== "succeeded" && !source;
  const ofPhase = isByPhase ? ` AND phase = '${phase}' AND phase <> 'succeeded'` : "";
  const ofSource = source ? ` AND source = ${text(source)} AND source <> ''` : "";
  return `SELECT * FROM ${schemaName}.run WHERE tenant = ${text(query.tenant)}${ofPhase}${ofSource}${boundsSql(query)}
    ORDER BY id DESC LIMIT ${whole(limit)}`;
}

function boundsSql(query: RunsQuery): string {
  const { from, below } = runIdBounds(query);
  return `${below === null ? "" : ` AND id < ${text(below)}`}${from === null ? "" : ` AND id >= ${text(from)}`}`;
}

/** Runs from before there were words are found by what is known of them. */
const searchTermsSql = `CASE WHEN terms = '' THEN lower(concat_ws(' ', id, client, error)) ELSE terms END`;

/** Words hold nothing that means something to an expression or a query. */
export function matchesSql(query: RunsQuery): string {
  const { phase, client, workers, source, since, until } = query;
  const tests = [
    ...(phase === undefined ? [] : [`phase = ${text(phase)}`]),
    ...(client === undefined ? [] : [`client = ${text(client)}`]),
    ...(source === undefined ? [] : [`source = ${text(source)}`]),
    ...(since === undefined ? [] : [`"createdAt" >= ${whole(since)}`]),
    ...(until === undefined ? [] : [`"createdAt" < ${whole(until)}`]),
    ...searchWords(query.search ?? "").map((word) => `(${searchTermsSql}) ~ ${text(wordStartPattern(word))}`),
    ...(workers === undefined ? [] : [ranOnWorkersSql(workers)]),
  ];
  return tests.length === 0 ? "true" : tests.join(" AND ");
}

/** Whether one of the tasks of run `s` is, or was last, one of these workers'. */
const ranOnWorkersSql = (workers: readonly string[]): string =>
  `EXISTS (SELECT FROM ${schemaName}.task t WHERE t.id > s.id || '.' AND t.id < s.id || '/' AND t.worker IN (${workers.map(text).join(", ")}))`;

/** Where a word begins: at the start, or behind anything in ASCII that is neither letter nor digit. */
export const wordStartPattern = (word: string): string => `(^|[\\x01-\\x2f\\x3a-\\x60\\x7b-\\x7f])${word}`;

/** Every word of a search as the beginning of one. */
export const searchQuerySql = (search = ""): string => {
  const words = searchWords(search).map((word) => `'${word}':*`);
  return `${text(words.join(" & "))}::tsquery`;
};

/** By their words alone, then the rest: no other index may tempt the planner to walk a whole history. */
export function searchRunsSql(query: RunsQuery, limit: number): string {
  return `SELECT * FROM (SELECT * FROM ${schemaName}.run WHERE ${runSearchVectorSql} @@ ${searchQuerySql(query.search)} OFFSET 0) s
    WHERE tenant = ${text(query.tenant)}${boundsSql(query)} AND ${matchesSql(query)} ORDER BY id DESC LIMIT ${whole(limit)}`;
}

/** The empty text leaves the primary key as the one index that serves. */
export const ownRunSql = (tenant: string, run: string): string => `r.id = ${text(run)} AND r.tenant || '' = ${text(tenant)}`;

export const runRowSql = (tenant: string, run: string): string =>
  `SELECT ${rowArraySql("run", "r")} FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, run)}`;

/** Nothing for a stranger: the run must be the tenant's own. */
export function tasksSql(query: { tenant: string; run: string; after?: string; limit?: number }): string {
  const { tenant, run, limit } = query;
  const first = `${run}.`;
  const after = query.after === undefined || query.after < first ? first : query.after;
  return `SELECT json_agg(${rowArraySql("task", "x")} ORDER BY x.id) FROM (SELECT * FROM ${schemaName}.task t
    WHERE t.id > ${text(after)} AND t.id < ${text(`${run}/`)} AND EXISTS (SELECT FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, run)})
    ORDER BY t.id LIMIT ${limit === undefined ? "ALL" : whole(Math.max(0, limit))}) x`;
}

export const taskRowSql = (tenant: string, run: string, task: string): string =>
  `SELECT ${rowArraySql("task", "t")} FROM ${schemaName}.task t WHERE t.id = ${text(task)}
    AND EXISTS (SELECT FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, run)})`;

export const workflowSql = (tenant: string, run: string): string =>
  `SELECT w.body FROM ${schemaName}.run r JOIN ${schemaName}.workflow w ON w.id = r.workflow WHERE ${ownRunSql(tenant, run)}`;
