// Statements of the pages and of the log. Who asks them, and on which connection, is in reader.ts.

import { type EventQuery, runOf, searchWords } from "@astraflow/engine";
import { logRowsMax } from "../../common/log-rows.ts";
import {
  documentIdRange,
  type PageFor,
  parseDocumentCursor,
  routeQueuePrefix,
  rowsScannedMax,
  runIdBounds,
  runsScannedMax,
} from "../../common/page-filters.ts";
import { chunkFields } from "../../common/row-shape.ts";
import { isOpenSql } from "../sql/begin-function.ts";
import { rowArraySql } from "../sql/columns.ts";
import { nameLiteral as text, integerLiteral as whole } from "../sql/literals.ts";
import { documentSearchVectorSql, runSearchVectorSql, schemaName } from "../sql/tables.ts";

/**
 * From the row that holds the cursor on: it may have more facts behind it. Backwards: rows that begin below. Beside a subject, the empty
 * text keeps the planner from walking the tenant's whole log: a subject's rows are few.
 */
export function logRowsSql(query: EventQuery): string {
  const { tenant, after, before, subject } = query;
  const log = subject === undefined ? `tenant = ${text(tenant)}` : `subject = ${text(subject)}`;
  const theirs = subject === undefined ? log : `${log} AND tenant || '' = ${text(tenant)}`;
  const [start, way] =
    before === undefined
      ? [`first >= coalesce((SELECT max(first) FROM ${schemaName}.event WHERE ${log} AND first <= ${whole(after)}), 0)`, "ASC"]
      : [`first < ${whole(Math.min(before, Number.MAX_SAFE_INTEGER))}`, "DESC"];
  return `SELECT first, last, at, subject, facts FROM ${schemaName}.event WHERE ${theirs} AND ${start}
    ORDER BY first ${way} LIMIT ${whole(logRowsMax(query))}`;
}

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
  return `SELECT * FROM ${schemaName}.run WHERE tenant = ${text(query.tenant)}${ofPhase}${ofSource}${runBoundsSql(query)}
    ORDER BY id DESC LIMIT ${whole(limit)}`;
}

function runBoundsSql(query: RunsQuery): string {
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
const wordStartPattern = (word: string): string => `(^|[\\x01-\\x2f\\x3a-\\x60\\x7b-\\x7f])${word}`;

/** Every word of a search as the beginning of one. */
function searchQuerySql(search = ""): string {
  const words = searchWords(search).map((word) => `'${word}':*`);
  return `${text(words.join(" & "))}::tsquery`;
}

/** By their words alone, then the rest: no other index may tempt the planner to walk a whole history. */
export function searchRunsSql(query: RunsQuery, limit: number): string {
  return `SELECT * FROM (SELECT * FROM ${schemaName}.run WHERE ${runSearchVectorSql} @@ ${searchQuerySql(query.search)} OFFSET 0) s
    WHERE tenant = ${text(query.tenant)}${runBoundsSql(query)} AND ${matchesSql(query)} ORDER BY id DESC LIMIT ${whole(limit)}`;
}

/** The empty text leaves the primary key as the one index that serves. */
export const ownRunSql = (tenant: string, run: string): string => `r.id = ${text(run)} AND r.tenant || '' = ${text(tenant)}`;

/** Nothing for a stranger: the run must be the tenant's own. */
export function tasksSql(query: {
  readonly tenant: string;
  readonly run: string;
  readonly after?: string;
  readonly limit?: number | undefined;
  readonly withoutInputs?: boolean | undefined;
}): string {
  const { tenant, run, limit } = query;
  const first = `${run}.`;
  const after = query.after === undefined || query.after < first ? first : query.after;
  return `SELECT json_agg(${rowArraySql("task", "x", query.withoutInputs === true ? "params" : undefined)} ORDER BY x.id) FROM (SELECT * FROM ${schemaName}.task t
    WHERE t.id > ${text(after)} AND t.id < ${text(`${run}/`)} AND EXISTS (SELECT FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, run)})
    ORDER BY t.id LIMIT ${limit === undefined ? "ALL" : whole(Math.max(0, limit))}) x`;
}

/** Nothing for a stranger: the worker must be the tenant's own. */
export const heldByOwnWorkerSql = (tenant: string, worker: string, limit: number): string =>
  `SELECT json_agg(${rowArraySql("task", "h")} ORDER BY h.id) FROM (SELECT * FROM ${schemaName}.task t
   WHERE t.worker = ${text(worker)} AND t.phase = 'leased'
   AND EXISTS (SELECT FROM ${schemaName}.worker w WHERE w.id = ${text(worker)} AND w.tenant = ${text(tenant)})
   ORDER BY t.id LIMIT ${whole(limit)}) h`;

/** Asked once a second by every scheduler. The empty text lets the primary key serve it, in its order. */
export const routesSql = `SELECT json_agg(${rowArraySql("route", "t")}) FROM (SELECT * FROM ${schemaName}.route WHERE id >= '' ORDER BY id) t`;

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

const limitOf = (max: number | undefined): string => (max === undefined ? "ALL" : whole(max));

type DocsQuery = PageFor<"docs">;

/** `searchedRows`: so many documents are compared with the words of a search before the index of words is asked. */
export function documentScanMax(query: DocsQuery, searchedRows: number): number {
  return searchWords(query.search ?? "").length === 0 ? query.limit + 1 : Math.max(1, searchedRows);
}

/** A collection is read in its order. A prefix is read by names and sorted: it is given to find few among many. */
export function walkDocumentsSql(query: DocsQuery, limit: number): string {
  const [tenant, collection] = [text(query.tenant), text(query.collection)];
  const theirs = query.prefix
    ? `tenant || '' = ${tenant} AND collection || '' = ${collection}`
    : `tenant = ${tenant} AND collection = ${collection}`;
  return `SELECT * FROM ${schemaName}.doc WHERE ${theirs}${documentBoundsSql(query)} LIMIT ${whole(limit)}`;
}

/** By their words alone, then the rest. */
export function searchDocumentsSql(query: DocsQuery, limit: number): string {
  const found = `SELECT * FROM ${schemaName}.doc WHERE ${documentSearchVectorSql} @@ ${searchQuerySql(query.search)} AND words <> '' OFFSET 0`;
  const theirs = `tenant = ${text(query.tenant)} AND collection = ${text(query.collection)}`;
  return `SELECT * FROM (${found}) s WHERE ${theirs}${documentBoundsSql(query)} LIMIT ${whole(limit)}`;
}

/** Names, cursor and order of a list. */
function documentBoundsSql(query: DocsQuery): string {
  const [sign, way] = query.order === "desc" ? ["<", "DESC"] : [">", "ASC"];
  const { above, below } = documentIdRange(query);
  const named = query.prefix ? ` AND id >= ${text(above)} AND id < ${text(below)}` : "";
  const after = parseDocumentCursor(query.after);
  const from = after === null ? "" : ` AND (sort, id) ${sign} (${text(after.sort)}, ${text(after.id)})`;
  return `${named}${from} ORDER BY sort ${way}, id ${way}`;
}

export const documentsInOrderSql = ({ order }: DocsQuery, alias: string): string => {
  const way = order === "desc" ? "DESC" : "ASC";
  return `json_agg(${rowArraySql("doc", alias)} ORDER BY ${alias}.sort ${way}, ${alias}.id ${way})`;
};

/** Found documents, then how many were looked at, and the last of those. */
export function foundDocumentsSql(query: DocsQuery): string {
  const [way, back] = query.order === "desc" ? ["DESC", "ASC"] : ["ASC", "DESC"];
  const tests = searchWords(query.search ?? "").map((word) => `terms ~ ${text(wordStartPattern(word))}`);
  return `(SELECT ${documentsInOrderSql(query, "f")} FROM (
      SELECT * FROM s ${tests.length === 0 ? "" : `WHERE ${tests.join(" AND ")}`} ORDER BY sort ${way}, id ${way} LIMIT ${whole(query.limit + 1)}) f),
    (SELECT count(*) FROM s), (SELECT json_build_array(sort, id) FROM s ORDER BY sort ${back}, id ${back} LIMIT 1)`;
}

/** Nothing for a stranger: the task's run must be the tenant's own. */
export function chunksSql(query: PageFor<"chunks">): string {
  const { tenant, fromChunk = 0, fromLine = -1 } = query;
  const task = text(query.task);
  const fence =
    query.fence === undefined
      ? `(SELECT max(fence) FROM ${schemaName}.chunk WHERE task = ${task})`
      : `${whole(query.fence)}::bigint`;
  const cells = chunkFields.map((field) => `c."${field}"`).join(", ");
  return `SELECT json_agg(json_build_array(${cells}) ORDER BY c.first) FROM (
    SELECT * FROM ${schemaName}.chunk WHERE task = ${task} AND fence = ${fence}
      AND first >= coalesce((SELECT max(first) FROM ${schemaName}.chunk WHERE task = ${task} AND fence = ${fence} AND first <= ${whole(fromChunk)}), 0)
      AND first + count > ${whole(fromChunk)} AND line + lines > ${whole(fromLine)}
      AND EXISTS (SELECT FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, runOf(query.task))})
    ORDER BY first LIMIT ${whole(Math.max(0, query.limit))}) c`;
}

/** From line to line, however many stand in each: tasks that wait for nobody are in none. */
export function taskQueueDepthsSql(query: PageFor<"lines">): string {
  const next = (after: string) =>
    `SELECT t.line FROM ${schemaName}.task t WHERE t.line > ${after} AND t.line < ${text(`${routeQueuePrefix}\u{10ffff}`)} ORDER BY t.line LIMIT 1`;
  return `WITH RECURSIVE l(line) AS ((${next(text(routeQueuePrefix))})
      UNION ALL SELECT (${next("l.line")}) FROM l WHERE l.line IS NOT NULL)
    SELECT json_agg(json_build_array(l.line, ${rowArraySql("route", "r")}, d.n, d.oldest) ORDER BY l.line) FROM l
    CROSS JOIN LATERAL (SELECT * FROM ${schemaName}.route WHERE id = split_part(l.line, '|', 2) AND tenant = ${text(query.tenant)} OFFSET 0) r
    CROSS JOIN LATERAL (SELECT count(*) AS n, min(x."readyAt") AS oldest FROM (SELECT t."readyAt" FROM ${schemaName}.task t
      WHERE t.line = l.line ORDER BY t.band, t.rank, t.id LIMIT ${whole(Math.max(0, query.max))}) x) d`;
}
