// The earliest deadline of each table, known without a query as long as the row that has it does not change. It is exact or unknown, never
// wrong: when that row changes, the next read asks the index of the table again.

import type { Millis, Row } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import { dueKinds, type RowKind } from "../../common/row-shape.ts";
import type { SqliteConnection } from "../file/connection.ts";

type DueKind = (typeof dueKinds)[number];

export interface DueRow {
  readonly kind: DueKind;
  readonly id: string;
  readonly due: Millis;
}

export const passedDueSql = (kind: DueKind): string =>
  `SELECT due, id FROM ${kind} WHERE due IS NOT NULL AND due <= ? ORDER BY due, id`;
export const nextDueSql = (kind: DueKind): string =>
  `SELECT due FROM ${kind} WHERE due IS NOT NULL AND due > ? ORDER BY due LIMIT 1`;
export const earliestDueSql = (kind: DueKind): string => `SELECT due FROM ${kind} WHERE due IS NOT NULL ORDER BY due LIMIT 1`;

export class DeadlineIndex {
  readonly #connection: SqliteConnection;
  /** null: no row of this kind has a deadline. Absent: ask. */
  readonly #earliest = new Map<RowKind, Millis | null>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  /** Called for every image that has been committed, with the one before it. */
  noteWritten(before: Row | null, after: Row | null): void {
    const kind = (after ?? before)?.kind;
    if (kind === undefined) return;
    const least = this.#earliest.get(kind);
    if (least === undefined) return;
    const was = before !== null && "due" in before ? before.due : null;
    const is = after !== null && "due" in after ? after.due : null;
    if (is !== null && (least === null || is <= least)) this.#earliest.set(kind, is);
    else if (was !== null && was === least && is !== was) this.#earliest.delete(kind);
  }

  /** Rows whose time has come, oldest first, ties by key; `fits` leaves out what the turn must not touch. */
  findPassed(now: Millis, limit: number, matches: (id: DueRow) => boolean): DueRow[] {
    const found: DueRow[] = [];
    for (const kind of limit > 0 ? dueKinds : []) {
      const least = this.#earliestOf(kind);
      if (least === null || least > now) continue;
      let remaining = limit;
      for (const cells of this.#connection.iterate(passedDueSql(kind), now)) {
        const one = { kind, due: Number(cells[0]), id: String(cells[1]) };
        if (!matches(one)) continue;
        found.push(one);
        if (--remaining === 0) break;
      }
    }
    return found.sort(compareDueRows).slice(0, limit);
  }

  /** Earliest deadline that has not passed. */
  next(now: Millis): Millis | null {
    let next: Millis | null = null;
    for (const kind of dueKinds) {
      let due = this.#earliestOf(kind);
      if (due !== null && due <= now) due = this.#queryDue(nextDueSql(kind), now);
      if (due !== null && (next === null || due < next)) next = due;
    }
    return next;
  }

  #earliestOf(kind: DueKind): Millis | null {
    let least = this.#earliest.get(kind);
    if (least === undefined) {
      least = this.#queryDue(earliestDueSql(kind));
      this.#earliest.set(kind, least);
    }
    return least;
  }

  #queryDue(sql: string, ...values: number[]): Millis | null {
    const cells = this.#connection.get(sql, ...values);
    return cells === undefined ? null : Number(cells[0]);
  }
}

function compareDueRows(a: DueRow, b: DueRow): number {
  return a.due - b.due || (keyOf(a as unknown as Row) < keyOf(b as unknown as Row) ? -1 : 1);
}
