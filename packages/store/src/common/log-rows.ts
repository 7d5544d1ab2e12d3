// The log's packing: all facts of one subject in one turn are one row with a range of positions. Pages are cut here, by position.

import type { ChangeSet, EventPage, EventQuery, Fact, LoggedFact, Millis, Position, RowKey, Tenant } from "@astraflow/engine";

type LogEntry = ChangeSet["logEntries"][number];

/** One row of the log: facts `first` to `last`, both included. */
export interface LogRow extends LogEntry {
  readonly first: Position;
  readonly last: Position;
  readonly at: Millis;
}

/** The log rows of a turn; the first and the last position that it wrote of each tenant. */
export interface PositionedFacts {
  readonly rows: LogRow[];
  readonly first: Map<Tenant, Position>;
  readonly heads: Map<Tenant, Position>;
}

/** Gives every fact of a turn its position, in the order of units. `headOf` is the tenant's highest position so far. */
export function assignPositions(units: readonly ChangeSet[], at: Millis, headOf: (tenant: Tenant) => Position): PositionedFacts {
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

/** Where a tenant's log ends, up to where all of it was removed, and the highest position that was removed with a run or by age. */
export interface LogBounds {
  readonly head: Position;
  readonly floor: Position;
  readonly removed: Position;
}

/**
 * Cuts a page out of rows: forwards from rows that start at or below the cursor, in order; backwards (`before`) from rows that start
 * below it, newest first. `next` is the last position looked at.
 */
export function cutLogPage(rows: Iterable<LogRow>, query: EventQuery, { head, removed, ...bounds }: LogBounds): EventPage {
  const { after, before, limit, subject, types } = query;
  // What was removed with its run leaves no gap in the history of any other subject.
  const floor = before === undefined && subject === undefined ? Math.max(bounds.floor, removed) : bounds.floor;
  // Whoever holds a cursor below the floor has missed facts, and handing out the rest would hide that.
  if (before === undefined && after < floor) return { items: [], next: after, head, floor };
  const stop = Math.max(after, floor);
  const items: LoggedFact[] = [];
  let next = before ?? after;
  let remaining = types === undefined ? Number.POSITIVE_INFINITY : factsScannedMax;
  for (const row of rows) {
    if (items.length >= limit || remaining <= 0 || (before !== undefined && row.last <= stop)) break;
    const lowest = Math.max(row.first, stop + 1);
    const highest = before === undefined ? row.last : Math.min(row.last, before - 1);
    for (let passed = 0; passed <= highest - lowest && items.length < limit && remaining > 0; passed++, remaining--) {
      next = before === undefined ? lowest + passed : highest - passed;
      const entry = logEntryAt(row, next);
      if (hasWantedType(entry, types)) items.push(entry);
    }
  }
  return { items, next, head, floor };
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
