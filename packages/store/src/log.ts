// The log's packing: all facts of one subject in one turn are one row with a range of positions. Pages are cut here, by position.

import type { EventPage, EventQuery, Fact, Key, LogEntry, Millis, Position, Tenant, Unit } from "@astraflow/engine";

/** One row of the log: facts `first` to `last`, both included. */
export interface LogRow {
  readonly tenant: Tenant;
  readonly first: Position;
  readonly last: Position;
  readonly at: Millis;
  readonly subject: Key;
  readonly facts: readonly Fact[];
}

/** Gives every fact of a turn its position, in the order of units. `headOf` is the tenant's highest position so far. */
export function placeFacts(
  units: readonly Unit[],
  at: Millis,
  headOf: (tenant: Tenant) => Position,
): { rows: LogRow[]; first: Map<Tenant, Position>; heads: Map<Tenant, Position> } {
  const rows: LogRow[] = [];
  const first = new Map<Tenant, Position>();
  const heads = new Map<Tenant, Position>();
  for (const unit of units)
    for (const { tenant, subject, facts } of unit.happenings) {
      if (facts.length === 0) continue;
      const head = heads.get(tenant) ?? headOf(tenant);
      if (!first.has(tenant)) first.set(tenant, head + 1);
      rows.push({ tenant, first: head + 1, last: head + facts.length, at, subject, facts });
      heads.set(tenant, head + facts.length);
    }
  return { rows, first, heads };
}

/**
 * Cuts a page out of rows that start at or below the cursor, in order. A cursor below the floor gets nothing: whoever holds it has
 * missed facts, and handing out the rest would hide that.
 */
export function pageOfLog(rows: Iterable<LogRow>, query: EventQuery, head: Position, floor: Position): EventPage {
  const items: LogEntry[] = [];
  if (query.after < floor) return { items, next: query.after, head, floor };
  for (const row of rows) {
    if (items.length >= query.limit) break;
    for (let at = Math.max(row.first, query.after + 1); at <= row.last && items.length < query.limit; at++) {
      const fact = row.facts[at - row.first];
      if (fact === undefined) throw new Error(`log row ${row.tenant}/${row.first} ends before its position ${at}`);
      items.push({ position: at, at: row.at, subject: row.subject, type: fact.type, data: fact.data });
    }
  }
  return { items, next: items.at(-1)?.position ?? query.after, head, floor };
}

/** Compact text of a row's facts: pairs, since the two field names would be most of a small fact. */
export function packFacts(facts: readonly Fact[]): string {
  return JSON.stringify(facts.map((fact) => [fact.type, fact.data]));
}

export function unpackFacts(text: string): Fact[] {
  const pairs = JSON.parse(text) as [string, Record<string, unknown>][];
  return pairs.map(([type, data]) => ({ type, data }));
}
