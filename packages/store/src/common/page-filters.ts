// What pages of all stores have in common: which runs and documents a query means, bounds of ids in time, cursors of documents.
// Statements are the stores' own.

import {
  type DocRow,
  docId,
  type Millis,
  matchesAllWords,
  type PageQuery,
  type RunId,
  type RunRow,
  runSearchTerms,
  searchWords,
  type WorkerId,
} from "@astraflow/engine";
import { fault } from "@astraflow/protocol";

export type PageFor<P extends PageQuery["page"]> = Extract<PageQuery, { page: P }>;

/** A filter that no index serves looks at so many rows a page; the page may come short, and its cursor goes on from there. */
export const rowsScannedMax = 5_000;
/** The same where people search: what is common is found among the newest, what is rare by its words. */
export const searchScannedRowsMax = 2_000;

/** The same where each run's tasks are looked at, of which there may be very many. */
const runsScannedByWorkerMax = 200;

/** So many runs a page looks at, where no index serves its filter. */
export const runsScannedMax = ({ workers }: PageFor<"runs">, most: number): number =>
  workers === undefined ? most : Math.min(most, runsScannedByWorkerMax);

/**
 * Whether a run of the tenant is one that a query means, whatever index it was found by. `createWorkerCheck`: whether one of its tasks is, or was last,
 * one of these workers'; asked last.
 */
export function createRunFilter(
  query: PageFor<"runs">,
  ranOnWorkers: (run: RunId, workers: readonly WorkerId[]) => boolean,
): (run: RunRow) => boolean {
  const words = searchWords(query.search ?? "");
  return (run) =>
    (query.phase === undefined || run.phase === query.phase) &&
    (query.client === undefined || run.client === query.client) &&
    (query.source === undefined || run.source === query.source) &&
    (query.since === undefined || run.createdAt >= query.since) &&
    (query.until === undefined || run.createdAt < query.until) &&
    (words.length === 0 || matchesAllWords(runSearchTerms(run).split(" "), words)) &&
    (query.workers === undefined || ranOnWorkers(run.id, query.workers));
}

/**
 * An id is made at the last instant the scheduler knew, a run at that of its turn: ids are a little early, and later only where many
 * shared an instant. What lies between is compared by the run's own instant.
 */
const idEarlyMsMax = 60_000;
const idLateMsMax = 1_000;
const instantMax = 2 ** 48 - 1;

/** Below every id of a run made at this instant or later, above every earlier one: ids begin with their instant. */
export function lowestRunIdAt(at: Millis): string {
  const hex = Math.min(Math.max(0, Math.floor(at)), instantMax)
    .toString(16)
    .padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

/** Ids the runs of a query lie between: from, and below. Null: no bound. */
export function runIdBounds(query: PageFor<"runs">): { from: string | null; below: string | null } {
  const until = query.until === undefined ? null : lowestRunIdAt(query.until + idLateMsMax);
  const below = until === null || (query.before !== undefined && query.before < until) ? (query.before ?? null) : until;
  return { from: query.since === undefined ? null : lowestRunIdAt(query.since - idEarlyMsMax), below };
}

/** All ids of documents of a collection whose names begin so: above the first, below the second. */
export function documentIdRange({ tenant, collection, prefix = "" }: PageFor<"docs">): { above: string; below: string } {
  const above = docId(tenant, collection, prefix);
  // No name holds a character as high as this.
  return { above, below: `${above}\u{10ffff}` };
}

export interface DocumentPosition {
  readonly sort: string;
  readonly id: string;
}

export const formatDocumentCursor = ({ sort, id }: DocumentPosition): string => JSON.stringify([sort, id]);

export function parseDocumentCursor(cursor: string | undefined): DocumentPosition | null {
  if (cursor === undefined) return null;
  const [sort, id] = parseCursorParts(cursor);
  if (typeof sort !== "string" || typeof id !== "string")
    throw fault("E.REQUEST.INVALID", "the cursor is none of this list; take it from the page before, or leave it out", {
      cursor,
    });
  return { sort, id };
}

function parseCursorParts(cursor: string): unknown[] {
  try {
    const place: unknown = JSON.parse(cursor);
    return Array.isArray(place) ? place : [];
  } catch {
    // Told to the caller by whoever finds nothing in it.
    return [];
  }
}

/** Whether a document's words hold all that is looked for. */
export function createDocumentFilter(query: PageFor<"docs">): ((doc: Pick<DocRow, "terms">) => boolean) | null {
  const words = searchWords(query.search ?? "");
  return words.length === 0 ? null : (doc) => matchesAllWords(searchWords(doc.terms), words);
}

/** So many words of a document are in an index. */
const indexedWordsMax = 1_000;

/** The words of a document as an index takes them. */
export function indexedWordsOf(terms: string): string {
  return [...new Set(searchWords(terms))].slice(0, indexedWordsMax).join(" ");
}

/** Lines of tasks that any worker, or one, may fetch; the route is named behind the bar. */
export const routeQueuePrefix = "r|";
export const routeOfTaskQueue = (line: string): string => line.split("|", 2)[1] ?? "";
