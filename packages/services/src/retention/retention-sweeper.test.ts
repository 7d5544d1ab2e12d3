import type { PageQuery, RemovalOutcome, RemovalSlice } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { defaultRetention, type RetentionPolicy } from "./retention-policy.ts";
import { defaultRetentionPace, type RetentionPace, RetentionSweeper, type SweepReport } from "./retention-sweeper.ts";

const none = { runs: 0, tasks: 0, chunks: 0, logEntries: 0, keys: 0, workers: 0 };
const end: RemovalOutcome = { removed: none, next: null };

interface SweepFixture {
  readonly tenants?: Readonly<Record<string, Partial<RetentionPolicy>>>;
  readonly remove?: (slice: RemovalSlice, call: number) => RemovalOutcome;
  /** What each slice takes, by its number. */
  readonly sliceMs?: (slice: RemovalSlice, call: number) => number;
  readonly gauge?: (call: number) => { waiting: number; commands: number };
  readonly endedRuns?: readonly string[];
  readonly pace?: Partial<RetentionPace>;
  readonly releaseSpace?: (pages: number) => number;
}

/** A sweeper whose store, clock and timers are made of plain numbers; timers ring as soon as they are set. */
function openSweeper({ tenants = { acme: {} }, endedRuns = [], ...given }: SweepFixture) {
  const slices: RemovalSlice[] = [];
  const pauses: number[] = [];
  const reports: SweepReport[] = [];
  const problems: unknown[] = [];
  let now = 0;
  let onPause = (_pauses: number): void => undefined;
  const page = async (query: PageQuery) => {
    if (query.page === "tenants") return { items: Object.keys(tenants), next: null };
    if (query.page !== "ended") throw new Error(`the page ${query.page} is not expected`);
    const { before = "~", limit } = query;
    const older = endedRuns.filter((id) => id < before).slice(0, limit);
    const last = older.at(-1);
    const hasMore = last !== undefined && endedRuns.some((id) => id < last);
    return { runs: older.map((id) => ({ id, endedAt: 0 })), head: 0, next: hasMore ? last : null };
  };
  const sweeper = new RetentionSweeper({
    store: {
      page: page as never,
      remove: async (slice) => {
        slices.push(slice);
        now += given.sliceMs?.(slice, slices.length) ?? 0;
        return given.remove?.(slice, slices.length) ?? end;
      },
      ...(given.releaseSpace !== undefined && { releaseSpace: async (pages: number) => given.releaseSpace?.(pages) ?? 0 }),
    },
    policyOf: (tenant) => ({ ...defaultRetention, ...tenants[tenant] }),
    clock: { monotonic: () => now },
    timers: {
      after(ms, run) {
        pauses.push(ms);
        now += ms;
        queueMicrotask(run);
        onPause(pauses.length);
        return () => undefined;
      },
    },
    gauge: () => given.gauge?.(slices.length) ?? { waiting: 0, commands: 0 },
    onSwept: (report) => void reports.push(report),
    onProblem: (problem) => void problems.push(problem),
    ...(given.pace !== undefined && { pace: given.pace }),
  });
  const stopAtPause = (count: number) => {
    const stopped = Promise.withResolvers<void>();
    onPause = (pausesSoFar) => {
      if (pausesSoFar === count) stopped.resolve(sweeper.stop());
    };
    return stopped.promise;
  };
  return { sweeper, slices, pauses, reports, problems, stopAtPause, advance: (ms: number) => void (now += ms) };
}

const day = 86_400_000;
const what = (slices: readonly RemovalSlice[]) => slices.map(({ tenant, of, olderThanMs }) => [tenant, of, olderThanMs / day]);

describe("what a sweep removes", () => {
  it("[O630] a sweep removes runs, log entries, keys and workers of every tenant by the tenant's own policy, and nothing that is kept for ever", async () => {
    const off = { runsMs: null, keysMs: null, workersMs: null };
    const { sweeper, slices, reports } = openSweeper({
      tenants: { acme: {}, beta: { runsMs: 2 * day, auditMs: 9 * day, keysMs: null }, gamma: off },
      remove: ({ of, tenant }) =>
        of === "runs" && tenant === "beta" ? { removed: { ...none, runs: 3, tasks: 4 }, next: null } : end,
    });

    await sweeper.sweep();

    expect(what(slices)).toEqual([
      ["acme", "runs", 30],
      ["acme", "log", 30],
      ["acme", "keys", 1],
      ["acme", "workers", 7],
      ["beta", "runs", 2],
      ["beta", "log", 2],
      ["beta", "workers", 7],
    ]);
    expect(slices.flatMap((slice) => (slice.of === "log" ? [slice.auditOlderThanMs] : []))).toEqual([null, 9 * day]);
    expect(reports).toMatchObject([{ tenant: "beta", removed: { runs: 3, tasks: 4, keys: 0 }, slices: 3 }]);
  });

  it("[O630] runs are looked for in every sweep, everything else once an hour", async () => {
    const { sweeper, slices, advance } = openSweeper({});

    await sweeper.sweep();
    advance(60_000);
    await sweeper.sweep();
    advance(3_600_000);
    await sweeper.sweep();

    expect(slices.map(({ of }) => of)).toEqual(["runs", "log", "keys", "workers", "runs", "runs", "log", "keys", "workers"]);
  });

  it("[O631] of more finished runs than a tenant keeps those are removed that are older than the oldest kept one, unless they ended within a minute", async () => {
    const endedRuns = Array.from({ length: 1_200 }, (_, at) => `r${String(9_999 - at)}`);
    const counts = [3, 1_100, 1_200, 1_201];
    const befores: unknown[] = [];

    for (const runsMax of counts) {
      const { sweeper, slices } = openSweeper({
        endedRuns,
        tenants: { acme: { runsMs: null, keysMs: null, workersMs: null, runsMax } },
      });
      await sweeper.sweep();
      befores.push(slices.map((slice) => (slice.of === "runs" ? [slice.before, slice.olderThanMs] : slice.of)));
    }

    expect(befores).toEqual([[["r9997", 60_000]], [["r8900", 60_000]], [["r8800", 60_000]], []]);
  });

  it("[O631] space is given back after a sweep, slice by slice, until the store has none", async () => {
    const asked: number[] = [];
    const { sweeper } = openSweeper({ releaseSpace: (pages) => (asked.push(pages) < 4 ? pages : 0) });

    await sweeper.sweep();

    expect(asked.length).toBe(4);
  });
});

const manySlices = (slices: number) => (slice: RemovalSlice, call: number) =>
  slice.of === "runs" && call < slices ? { removed: { ...none, runs: 1 }, next: `r${call}` } : end;

describe("the pace of a sweep", () => {
  it.each([
    ["has commands", (call: number) => ({ waiting: 0, commands: call }), defaultRetentionPace.busyShare],
    ["has a queue of commands", () => ({ waiting: 5, commands: 0 }), defaultRetentionPace.busyShare],
    ["is idle", () => ({ waiting: 0, commands: 0 }), defaultRetentionPace.idleShare],
  ])("[O632] while the engine %s, slices take no more than their share of the time", async (_state, gauge, share) => {
    const sliceMs = 10;
    const { sweeper, pauses } = openSweeper({ remove: manySlices(20), sliceMs: () => sliceMs, gauge });

    await sweeper.sweep();

    expect(pauses.length).toBeGreaterThan(15);
    for (const pause of pauses) expect(sliceMs / (sliceMs + pause)).toBeCloseTo(share, 5);
  });

  it("[O632] a slice has fewer rows where they take long and more where they do not, within bounds", async () => {
    const rowsWhere = async (msOfRow: number) => {
      const { sweeper, slices } = openSweeper({ remove: manySlices(60), sliceMs: ({ limit }) => limit * msOfRow });
      await sweeper.sweep();
      return slices.filter(({ of }) => of === "runs").map(({ limit }) => limit);
    };

    const [slow, usual, quick] = [await rowsWhere(5), await rowsWhere(0.05), await rowsWhere(0)];

    const { sliceMs, sliceRowsMin, sliceRowsMax } = defaultRetentionPace;
    expect([slow?.at(-1), quick?.at(-1)]).toEqual([sliceRowsMin, sliceRowsMax]);
    expect(usual?.at(-1)).toBeGreaterThan((sliceMs / 0.05) * 0.4);
    expect(usual?.at(-1)).toBeLessThan((sliceMs / 0.05) * 1.6);
  });

  it("[O633] a slice that a turn or another scheduler is in the way of is tried again after a pause, and left for the next sweep if that goes on", async () => {
    const isInTheWay = (times: number) => (slice: RemovalSlice, call: number) =>
      slice.of === "runs" && call <= times ? { removed: none, next: slice.after } : end;
    const short = openSweeper({ remove: isInTheWay(3) });
    const long = openSweeper({ remove: isInTheWay(1_000) });

    await short.sweeper.sweep();
    await long.sweeper.sweep();

    const { blockedPauseMs, blockedTriesMax } = defaultRetentionPace;
    expect(short.pauses.slice(0, 3)).toEqual([blockedPauseMs, blockedPauseMs, blockedPauseMs]);
    expect(short.slices.map(({ of }) => of)).toEqual(["runs", "runs", "runs", "runs", "log", "keys", "workers"]);
    expect(long.slices.filter(({ of }) => of === "runs").length).toBe(blockedTriesMax);
  });

  it("[O633] a run that goes in several slices, each with the same cursor, is not taken for one that is blocked", async () => {
    const { sweeper, slices } = openSweeper({
      remove: ({ of, after }, call) => (of === "runs" && call < 90 ? { removed: { ...none, tasks: 5 }, next: after } : end),
    });

    await sweeper.sweep();

    expect(slices.filter(({ of }) => of === "runs").length).toBe(90);
  });

  it("[O634] a sweep that the store refuses is reported, with what it had removed, and made again after the usual pause", async () => {
    const { sweeper, pauses, problems, reports, stopAtPause } = openSweeper({
      remove: (slice, call) => {
        if (call === 2) throw new Error("the disk is full");
        return slice.of === "runs" && call === 1 ? { removed: { ...none, runs: 2 }, next: "r2" } : end;
      },
    });
    const stopped = stopAtPause(3);

    sweeper.start();
    await stopped;

    expect(problems).toEqual([new Error("the disk is full")]);
    expect(reports).toMatchObject([{ removed: { runs: 2 } }]);
    const { sweepEveryMs } = defaultRetentionPace;
    expect([pauses[0], pauses[2]]).toEqual([sweepEveryMs, sweepEveryMs]);
  });

  it("[O634] a sweeper that is stopped in the middle of a sweep removes nothing after the present slice", async () => {
    const { sweeper, slices, stopAtPause } = openSweeper({ remove: manySlices(100) });
    const stopped = stopAtPause(5);

    sweeper.start();
    await stopped;

    // The first pause is the one before the sweep.
    expect(slices.length).toBe(4);
  });
});
