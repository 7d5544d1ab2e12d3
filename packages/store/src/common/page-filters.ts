// What the pages of all stores have in common: which runs and documents match a query, ranges of ids, cursors.

import {
  type DocRow,
  docId,
  type Millis,
  matchesAllWords,
  type PageOf,
  type PageQuery,
  type RunId,
  type RunRow,
  runSearchTerms,
  searchWords,
  type WorkerId,
} from "@astraflow/engine";
import { fault } from "@astraflow/protocol";

export type PageName = PageQuery["page"];
export type PageFor<P extends PageName> = Extract<PageQuery, { page: P }>;
/** A page without the position it is true at. */
export type HeadlessPage<P extends PageName> = Omit<PageOf<PageFor<P>>, "head">;

/** How a store reads each page from its tables or its connection. */
export type PageReaders<Source extends unknown[]> = {
  readonly [P in PageName]: (query: PageFor<P>, ...source: Source) => HeadlessPage<P>;
};

export function readHeadlessPage<S extends unknown[]>(readers: PageReaders<S>, query: PageQuery, ...source: S): object {
  const read = readers[query.page] as (query: PageQuery, ...source: S) => object;
  return read(query, ...source);
}

/** Pages about all tenants have no position that they are true at. */
export const hasHead = (query: PageQuery): query is Extract<PageQuery, { tenant: string }> =>
  query.page !== "routes" && query.page !== "tenants" && query.page !== "crew" && query.page !== "depth";

/** A filter that no index serves reads at most this many rows a page; the page may be short, and its cursor continues from there. */
export const rowsScannedMax = 5_000;
/** The same for a search: common words are found among the newest rows, rare ones by the index of words. */
export const searchScannedRowsMax = 2_000;

/** The same where the tasks of each run are read, of which there may be very many. */
const runsScannedByWorkerMax = 200;

/** How many runs a page reads where no index serves its filter. */
export const runsScannedMax = ({ workers }: PageFor<"runs">, most: number): number =>
  workers === undefined ? most : Math.min(most, runsScannedByWorkerMax);

/** Whether a run of the tenant matches a query. `ranOnWorkers` says whether one of its tasks is, or was last, with one of these workers; it is asked last. */
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

export interface CutPage<T> {
  readonly items: T[];
  readonly next: string | null;
}

/** The first items of a page; `found` has one more than the limit where another page follows. */
export function cutPage<T>(found: readonly T[], limit: number, cursorOf: (last: T) => string): CutPage<T> {
  const items = found.slice(0, limit);
  const last = items.at(-1);
  return { items, next: found.length > items.length && last !== undefined ? cursorOf(last) : null };
}

export const idOf = ({ id }: { readonly id: string }): string => id;

/** All ids of documents of a collection whose names begin so: above the first, below the second. */
export function documentIdRange({ tenant, collection, prefix = "" }: PageFor<"docs">): { above: string; below: string } {
  const above = docId(tenant, collection, prefix);
  // No name holds a character as high as this.
  return { above, below: `${above}\u{10ffff}` };
}

export type DocumentPosition = Pick<DocRow, "sort" | "id">;

export const formatDocumentCursor = ({ sort, id }: DocumentPosition): string => JSON.stringify([sort, id]);

export function parseDocumentCursor(cursor: string | undefined): DocumentPosition | null {
  if (cursor === undefined) return null;
  const [sort, id] = parseCursorParts(cursor);
  if (typeof sort !== "string" || typeof id !== "string") throw fault("E.REQUEST.INVALID", foreignCursorMessage, { cursor });
  return { sort, id };
}

const foreignCursorMessage = "the cursor does not belong to this list; use the one from the previous page, or leave it out";

function parseCursorParts(cursor: string): unknown[] {
  try {
    const place: unknown = JSON.parse(cursor);
    return Array.isArray(place) ? place : [];
  } catch {
    // The caller refuses an empty cursor.
    return [];
  }
}

/** Whether a document's words hold all that is looked for. */
export function createDocumentFilter(query: PageFor<"docs">): ((doc: Pick<DocRow, "terms">) => boolean) | null {
  const words = searchWords(query.search ?? "");
  return words.length === 0 ? null : (doc) => matchesAllWords(searchWords(doc.terms), words);
}

/** How many words of a document are indexed. */
const indexedWordsMax = 1_000;

/** The words of a document as an index takes them. */
export function indexedWordsOf(terms: string): string {
  return [...new Set(searchWords(terms))].slice(0, indexedWordsMax).join(" ");
}

/** Prefix of the task queues of a route; the route's id follows the bar. */
export const routeQueuePrefix = "r|";
export const routeOfTaskQueue = (line: string): string => line.split("|", 2)[1] ?? "";
