// The earliest deadline of each table, exact or unknown: when the row that has it changes, the next read asks the table again.

import type { Millis, Row } from "@astraflow/engine";
import { compareDeadlines, type Deadline } from "../../common/row-order.ts";
import { dueKinds, type RowKind } from "../../common/row-shape.ts";
import type { SqliteConnection } from "../file/connection.ts";

type DueKind = (typeof dueKinds)[number];

interface DueRow extends Deadline {
  readonly kind: DueKind;
  readonly id: string;
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

  /** Rows whose time has come, oldest first; `matches` leaves out what the turn must not touch. */
  findPassed(now: Millis, limit: number, matches: (row: Deadline) => boolean): DueRow[] {
    const found: DueRow[] = [];
    for (const kind of limit > 0 ? dueKinds : []) {
      const least = this.#earliestOf(kind);
      if (least === null || least > now) continue;
      let remaining = limit;
      for (const [due, id] of this.#connection.iterate(passedDueSql(kind), now)) {
        const row: DueRow = { kind, id: String(id), due: Number(due), key: `${kind}/${String(id)}` };
        if (!matches(row)) continue;
        found.push(row);
        if (--remaining === 0) break;
      }
    }
    return found.sort(compareDeadlines).slice(0, limit);
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
