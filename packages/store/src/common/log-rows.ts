// The log's packing: all facts of one subject in one turn are one row with a range of positions. Pages are cut here, by position.

import type { ChangeSet, EventPage, EventQuery, Fact, LoggedFact, Millis, Position, RowKey, Tenant } from "@astraflow/engine";

/** One row of the log: facts `first` to `last`, both included. */
export interface LogRow {
  readonly tenant: Tenant;
  readonly first: Position;
  readonly last: Position;
  readonly at: Millis;
  readonly subject: RowKey;
  readonly facts: readonly Fact[];
}

/** Gives every fact of a turn its position, in the order of units. `headOf` is the tenant's highest position so far. */
export function assignPositions(
  units: readonly ChangeSet[],
  at: Millis,
  headOf: (tenant: Tenant) => Position,
): { rows: LogRow[]; first: Map<Tenant, Position>; heads: Map<Tenant, Position> } {
  const rows: LogRow[] = [];
  const first = new Map<Tenant, Position>();
  const heads = new Map<Tenant, Position>();
  for (const unit of units)
    for (const { tenant, subject, facts } of unit.logEntries) {
      if (facts.length === 0) continue;
      const head = heads.get(tenant) ?? headOf(tenant);
      if (!first.has(tenant)) first.set(tenant, head + 1);
      rows.push({ tenant, first: head + 1, last: head + facts.length, at, subject, facts });
      heads.set(tenant, head + facts.length);
    }
  return { rows, first, heads };
}

/** The rows of a log from the cells of `first, last, at, subject, facts`. */
export function* decodeLogRows(tenant: Tenant, rows: Iterable<readonly unknown[]>): Generator<LogRow> {
  for (const [first, last, at, subject, facts] of rows)
    yield {
      tenant,
      first: Number(first),
      last: Number(last),
      at: Number(at),
      subject: String(subject) as RowKey,
      facts: unpackFacts(String(facts)),
    };
}

/** A page that looks for certain types, or backwards, looks at no more facts than this; it may come short, and its cursor goes on from there. */
const factsScannedMax = 5_000;

/** How many rows suffice for a page: each has a fact at least, and the first and the last may be cut. */
export const logRowsMax = (query: EventQuery): number => (query.types === undefined ? query.limit : factsScannedMax) + 1;

/**
 * Cuts a page out of rows: forwards from rows that start at or below the cursor, in order; backwards (`before`) from rows that start
 * below it, newest first.
 */
export function cutLogPage(rows: Iterable<LogRow>, query: EventQuery, head: Position, floor: Position): EventPage {
  const { before } = query;
  if (before !== undefined) return { ...cutBackwards(rows, query, before, Math.max(query.after, floor)), head, floor };
  // Whoever holds a cursor below the floor has missed facts, and handing out the rest would hide that.
  if (query.after < floor) return { items: [], next: query.after, head, floor };
  return { ...cutForwards(rows, query), head, floor };
}

type LogCut = Pick<EventPage, "items" | "next">;

function cutForwards(rows: Iterable<LogRow>, query: EventQuery): LogCut {
  const items: LoggedFact[] = [];
  let next = query.after;
  let remaining = query.types === undefined ? Number.POSITIVE_INFINITY : factsScannedMax;
  for (const row of rows) {
    if (items.length >= query.limit || remaining <= 0) break;
    for (
      let at = Math.max(row.first, query.after + 1);
      at <= row.last && items.length < query.limit && remaining > 0;
      at++, remaining--
    ) {
      const entry = logEntryAt(row, at);
      next = at;
      if (hasWantedType(entry, query.types)) items.push(entry);
    }
  }
  return { items, next };
}

/** `next` is the lowest position looked at: the page before it ends just below. What the floor took is not there any more. */
function cutBackwards(rows: Iterable<LogRow>, query: EventQuery, before: Position, stop: Position): LogCut {
  const items: LoggedFact[] = [];
  let next = before;
  let remaining = query.types === undefined ? Number.POSITIVE_INFINITY : factsScannedMax;
  for (const row of rows) {
    if (items.length >= query.limit || remaining <= 0 || row.last <= stop) break;
    const last = Math.min(row.last, before - 1);
    for (let at = last; at >= row.first && at > stop && items.length < query.limit && remaining > 0; at--, remaining--) {
      const entry = logEntryAt(row, at);
      next = at;
      if (hasWantedType(entry, query.types)) items.push(entry);
    }
  }
  return { items, next };
}

function logEntryAt(row: LogRow, at: Position): LoggedFact {
  const fact = row.facts[at - row.first];
  if (fact === undefined) throw new Error(`log row ${row.tenant}/${row.first} ends before its position ${at}`);
  return { position: at, at: row.at, subject: row.subject, type: fact.type, data: fact.data };
}

function hasWantedType({ type }: LoggedFact, types: readonly string[] | undefined): boolean {
  return types === undefined || types.some((prefix) => type.startsWith(prefix));
}

/** Compact text of a row's facts: pairs, since the two field names would be most of a small fact. */
export function packFacts(facts: readonly Fact[]): string {
  return JSON.stringify(facts.map((fact) => [fact.type, fact.data]));
}

function unpackFacts(text: string): Fact[] {
  const pairs = JSON.parse(text) as [string, Record<string, unknown>][];
  return pairs.map(([type, data]) => ({ type, data }));
}
