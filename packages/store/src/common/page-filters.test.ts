import type { RunRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createRunFilter, cutPage, documentIdRange, lowestRunIdAt, runIdBounds } from "./page-filters.ts";
import { isLogRowOld } from "./removal.ts";
import { compareQueuedTasks } from "./row-order.ts";

const runs = { page: "runs", tenant: "t1", limit: 10 } as const;

describe("pages", () => {
  it("[S78] a page has a cursor exactly where another one follows", () => {
    expect(cutPage(["a", "b", "c"], 2, (id) => id)).toEqual({ items: ["a", "b"], next: "b" });
    expect(cutPage(["a", "b"], 2, (id) => id)).toEqual({ items: ["a", "b"], next: null });
    expect(cutPage([], 2, String)).toEqual({ items: [], next: null });
  });

  it("[S78] a time includes its beginning and not its end", () => {
    const matches = createRunFilter({ ...runs, since: 100, until: 200 }, () => true);
    const runAt = (createdAt: number) => ({ createdAt }) as RunRow;

    expect([99, 100, 199, 200].filter((at) => matches(runAt(at)))).toEqual([100, 199]);
  });

  it("[S78] ids may be a minute earlier than their run, and a second later: runs of the time are looked for so far", () => {
    const since = 1_800_000_000_000;
    const { from, below } = runIdBounds({ ...runs, since, until: since + 60_000 });

    expect(from).toBe(lowestRunIdAt(since - 60_000));
    expect(below).toBe(lowestRunIdAt(since + 61_000));
  });

  it("[S78] of a time and a cursor the lower one ends the page", () => {
    const until = 1_800_000_000_000;
    const end = lowestRunIdAt(until + 1_000);

    expect(runIdBounds({ ...runs, until, before: lowestRunIdAt(until - 5_000) }).below).toBe(lowestRunIdAt(until - 5_000));
    expect(runIdBounds({ ...runs, until, before: lowestRunIdAt(until + 90_000) }).below).toBe(end);
    expect(runIdBounds({ ...runs, before: "x" }).below).toBe("x");
  });

  it("[S70] a prefix of names holds every name that begins with it, whatever characters follow", () => {
    const { above, below } = documentIdRange({ page: "docs", tenant: "t1", collection: "c", prefix: "a", limit: 9 });

    for (const rest of ["", "a", "~~", "\u00fc", "\u65e5", "\u{1f30a}"]) {
      expect(`${above}${rest}` >= above).toBe(true);
      expect(`${above}${rest}` < below).toBe(true);
    }
  });

  it("[S13] a queue goes by band, then by rank, then by id", () => {
    const tasks = [
      { id: "d", band: 5, rank: 1 },
      { id: "c", band: 5, rank: 1 },
      { id: "b", band: 5, rank: 0 },
      { id: "a", band: 1, rank: 9 },
    ];

    expect(tasks.toSorted(compareQueuedTasks).map(({ id }) => id)).toEqual(["a", "b", "c", "d"]);
  });

  it("[S583] a log row is old enough by its age unless it is about a kept run; an audit entry by a time of its own, or never", () => {
    const slice = { of: "log", tenant: "t1", after: "0", olderThanMs: 100, auditOlderThanMs: 500, limit: 9 } as const;
    const isOld = (row: object, changes: object = {}) =>
      isLogRowOld({ at: 900, isOfKeptRun: false, isAudit: false, ...row }, 1_000, { ...slice, ...changes });

    expect([isOld({}), isOld({ at: 901 }), isOld({ isOfKeptRun: true })]).toEqual([true, false, false]);
    expect([isOld({ isAudit: true }), isOld({ isAudit: true, at: 500 })]).toEqual([false, true]);
    expect(isOld({ isAudit: true, at: 0 }, { auditOlderThanMs: null })).toBe(false);
  });
});
