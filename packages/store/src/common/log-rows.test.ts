import type { ChangeSet, EventQuery } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { assignPositions, cutLogPage, type LogRow } from "./log-rows.ts";

const fact = (type: string) => ({ type, data: {} });
/** Ten facts in rows of one, three, two and four. */
const rows: LogRow[] = [
  [1, 1],
  [2, 4],
  [5, 6],
  [7, 10],
].map(([first = 0, last = 0]) => ({
  tenant: "t1",
  first,
  last,
  at: first,
  subject: "run/r1",
  facts: Array.from({ length: last - first + 1 }, (_, at) => fact((first + at) % 2 === 0 ? "run.even" : "task.odd")),
}));
const bounds = { head: 10, floor: 0, removed: 0 };
const read = (query: Partial<EventQuery>, more: Partial<typeof bounds> = {}) => {
  const all = query.before === undefined ? rows : rows.toReversed();
  const { items, next, floor } = cutLogPage(all, { tenant: "t1", after: 0, limit: 100, ...query }, { ...bounds, ...more });
  return { positions: items.map(({ position }) => position), next, floor };
};

describe("the log", () => {
  it("[S6] facts get positions without gaps, in the order of units, each tenant's by itself", () => {
    const unit = (tenant: string, count: number) =>
      ({
        logEntries: [{ tenant, subject: "run/r", facts: Array.from({ length: count }, () => fact("x")) }],
      }) as unknown as ChangeSet;

    const {
      rows: written,
      heads,
      first,
    } = assignPositions([unit("a", 2), unit("b", 1), unit("a", 0), unit("a", 3)], 5, (tenant) => (tenant === "a" ? 10 : 0));

    expect(written.map((row) => [row.tenant, row.first, row.last])).toEqual([
      ["a", 11, 12],
      ["b", 1, 1],
      ["a", 13, 15],
    ]);
    expect([Object.fromEntries(first), Object.fromEntries(heads)]).toEqual([
      { a: 11, b: 1 },
      { a: 15, b: 1 },
    ]);
  });

  it("[S7] a page may end at any position, also inside a row, and the next one continues behind it", () => {
    for (let limit = 1; limit <= 10; limit++) {
      const seen: number[] = [];
      for (let after = 0; seen.length < 10; ) {
        const { positions, next } = read({ after, limit });
        seen.push(...positions);
        after = next;
      }
      expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
  });

  it("[S8] a cursor below the first stored position is answered with that position and nothing else; one at it continues", () => {
    expect(read({ after: 3 }, { floor: 4 })).toEqual({ positions: [], next: 3, floor: 4 });
    expect(read({ after: 4 }, { floor: 4 }).positions).toEqual([5, 6, 7, 8, 9, 10]);
  });

  it("[S582] a cursor of the whole log below a removed entry is refused, and the history of one subject is not", () => {
    expect(read({ after: 5 }, { removed: 6 })).toEqual({ positions: [], next: 5, floor: 6 });
    expect(read({ after: 6 }, { removed: 6 }).positions).toEqual([7, 8, 9, 10]);
    expect(read({ after: 5, subject: "run/r1" }, { removed: 6 }).positions).toEqual([6, 7, 8, 9, 10]);
    expect(read({ after: 0, before: 4 }, { removed: 6 }).positions).toEqual([3, 2, 1]);
  });

  it("[S81] the log is read backwards from below its cursor down to above the lower one", () => {
    expect(read({ before: 9, after: 2 })).toMatchObject({ positions: [8, 7, 6, 5, 4, 3], next: 3 });
    expect(read({ before: 9, after: 5 }).positions).toEqual([8, 7, 6]);
    expect(read({ before: 4, after: 0, limit: 2 })).toMatchObject({ positions: [3, 2], next: 2 });
  });

  it("[S81] a page of certain types looks at five thousand entries, and its cursor goes on from there", () => {
    const many: LogRow = {
      tenant: "t1",
      first: 1,
      last: 12_000,
      at: 1,
      subject: "run/r1",
      facts: Array(12_000).fill(fact("task.x")),
    };
    const query = { tenant: "t1", after: 0, limit: 10, types: ["run."] };

    expect(cutLogPage([many], query, { ...bounds, head: 12_000 })).toMatchObject({ items: [], next: 5_000 });
    expect(read({ types: ["run."], limit: 3 })).toMatchObject({ positions: [2, 4, 6], next: 6 });
  });
});
