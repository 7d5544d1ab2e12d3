// Statements of the pages of documents, of what tasks printed, and of the lines tasks wait in. Who asks them is reader.ts's business.

import { docId, runOf, searchWords } from "@astraflow/engine";
import { documentIdRange, type PageFor, parseDocumentCursor, routeQueuePrefix } from "../../common/page-filters.ts";
import { chunkFields } from "../../common/row-shape.ts";
import { rowArraySql } from "../sql/columns.ts";
import { isStorable, nameLiteral as text, textArrayLiteral, integerLiteral as whole } from "../sql/literals.ts";
import { documentSearchVectorSql, schemaName } from "../sql/tables.ts";
import { ownRunSql, searchQuerySql, wordStartPattern } from "./run-queries.ts";

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
  return `SELECT * FROM ${schemaName}.doc WHERE ${theirs}${boundsSql(query)} LIMIT ${whole(limit)}`;
}

/** By their words alone, then the rest. */
export function searchDocumentsSql(query: DocsQuery, limit: number): string {
  const found = `SELECT * FROM ${schemaName}.doc WHERE ${documentSearchVectorSql} @@ ${searchQuerySql(query.search)} AND words <> '' OFFSET 0`;
  const theirs = `tenant = ${text(query.tenant)} AND collection = ${text(query.collection)}`;
  return `SELECT * FROM (${found}) s WHERE ${theirs}${boundsSql(query)} LIMIT ${whole(limit)}`;
}

/** Names, cursor and order of a list. */
function boundsSql(query: DocsQuery): string {
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

export function namedDocumentsSql({ tenant, collection, names }: PageFor<"doc">): string {
  const ids = names.map((name) => docId(tenant, collection, name)).filter(isStorable);
  return `SELECT json_agg(${rowArraySql("doc", "d")}) FROM ${schemaName}.doc d WHERE d.id = ANY (${textArrayLiteral(ids)}::text[])`;
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
