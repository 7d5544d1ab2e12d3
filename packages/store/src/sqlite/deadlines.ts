// Earliest deadline of each table that has any, known without a query as long as that earliest row stands still. Exact or unknown,
// never wrong: when the row at the front changes, the next reader asks the index again.

import type { Millis, Row } from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import type { Kind } from "./columns.ts";
import type { Connection } from "./connection.ts";

const kindsWithDue = ["doc", "key", "run", "task", "worker"] as const;
type DueKind = (typeof kindsWithDue)[number];

export interface DueId {
  readonly kind: DueKind;
  readonly id: string;
  readonly due: Millis;
}

export const passedSql = (kind: DueKind): string =>
  `SELECT due, id FROM ${kind} WHERE due IS NOT NULL AND due <= ? ORDER BY due, id`;
export const nextSql = (kind: DueKind): string =>
  `SELECT due FROM ${kind} WHERE due IS NOT NULL AND due > ? ORDER BY due LIMIT 1`;
export const leastSql = (kind: DueKind): string => `SELECT due FROM ${kind} WHERE due IS NOT NULL ORDER BY due LIMIT 1`;

export class Deadlines {
  readonly #connection: Connection;
  /** null: no row of this kind has a deadline. Absent: ask. */
  readonly #least = new Map<Kind, Millis | null>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Called for every image that has been committed, with the one before it. */
  note(before: Row | null, after: Row | null): void {
    const kind = (after ?? before)?.kind;
    if (kind === undefined) return;
    const least = this.#least.get(kind);
    if (least === undefined) return;
    const was = before !== null && "due" in before ? before.due : null;
    const is = after !== null && "due" in after ? after.due : null;
    if (is !== null && (least === null || is <= least)) this.#least.set(kind, is);
    else if (was !== null && was === least && is !== was) this.#least.delete(kind);
  }

  /** Rows whose time has come, oldest first, ties by key; `fits` leaves out what the turn must not touch. */
  passed(now: Millis, limit: number, fits: (id: DueId) => boolean): DueId[] {
    const found: DueId[] = [];
    for (const kind of limit > 0 ? kindsWithDue : []) {
      const least = this.#leastOf(kind);
      if (least === null || least > now) continue;
      let room = limit;
      for (const cells of this.#connection.each(
        `SELECT due, id FROM ${kind} WHERE due IS NOT NULL AND due <= ? ORDER BY due, id`,
        now,
      )) {
        const one = { kind, due: Number(cells[0]), id: String(cells[1]) };
        if (!fits(one)) continue;
        found.push(one);
        if (--room === 0) break;
      }
    }
    return found.sort(byDue).slice(0, limit);
  }

  /** Earliest deadline that has not passed. */
  next(now: Millis): Millis | null {
    let next: Millis | null = null;
    for (const kind of kindsWithDue) {
      let due = this.#leastOf(kind);
      if (due !== null && due <= now) due = this.#ask(nextSql(kind), now);
      if (due !== null && (next === null || due < next)) next = due;
    }
    return next;
  }

  #leastOf(kind: DueKind): Millis | null {
    let least = this.#least.get(kind);
    if (least === undefined) {
      least = this.#ask(leastSql(kind));
      this.#least.set(kind, least);
    }
    return least;
  }

  #ask(sql: string, ...values: number[]): Millis | null {
    const cells = this.#connection.get(sql, ...values);
    return cells === undefined ? null : Number(cells[0]);
  }
}

function byDue(a: DueId, b: DueId): number {
  return a.due - b.due || (keyOf(a as unknown as Row) < keyOf(b as unknown as Row) ? -1 : 1);
}
