// `npm run bench -- retention`: a store with very many finished runs is told to keep few. They are removed beside live work: what that costs the work, and
// what becomes of the file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { defaultRetention, defaultRetentionPace, RetentionSweeper, type SweepReport } from "@astraflow/services";
import { EngineLoad } from "../engine/engine-load.ts";
import { formatInteger, median, percentile, readNumberOption, recordFigures } from "../harness/statistics.ts";
import { fillFinishedRuns } from "./finished-runs.ts";

/** While the removal is under way, one round in so many is measured without slices. */
const roundsPerQuietRound = 3;

interface LoadFigures {
  readonly tasksPerSecond: number[];
  /** Times between two batches of effects: what live work waits for. */
  readonly gapsMs: number[];
}

export async function retentionBench(argv: readonly string[]): Promise<void> {
  const runs = readNumberOption(argv, "runs", 1_000_000);
  const keep = readNumberOption(argv, "keep", 10_000);
  const rounds = readNumberOption(argv, "rounds", 8);
  const tasks = readNumberOption(argv, "tasks", 5_000);
  const share = readNumberOption(argv, "share", defaultRetentionPace.busyShare);
  // Live work without a pause leaves as many runs as go, and the file does not shrink.
  const livePauseMs = readNumberOption(argv, "live-pause-ms", 1);
  const dir = mkdtempSync(join(tmpdir(), "astra-bench-"));
  const file = join(dir, "astra.db");
  try {
    console.log(
      `retention bench: ${formatInteger(runs)} finished runs, ${formatInteger(keep)} kept, slices take ${share} of the time, node ${process.version}`,
    );
    const filledAt = performance.now();
    await fillFinishedRuns(file, runs, 1);
    const load = new EngineLoad(file, { length: 10, inFlight: 100 });
    await load.start();
    console.log(`  filled in ${seconds(filledAt)} s`);
    await measureRound(load, tasks, { tasksPerSecond: [], gapsMs: [] });
    const sizeBefore = readSizes(file);
    const before = await measureRounds(load, tasks, rounds);

    const startedAt = performance.now();
    const { during, between, report } = await removeBesideLoad(load, { tasks, keep, share, livePauseMs });
    const removedIn = seconds(startedAt);
    const sizeRemoved = readSizes(file);
    const after = await measureRounds(load, tasks, rounds);
    await load.stop();
    const sizeAfter = readSizes(file);

    printFigures({ before, during, between, after });
    console.log(
      `  removed ${formatInteger(report.removed.runs)} runs, ${formatInteger(report.removed.tasks)} tasks, ${formatInteger(report.removed.logEntries)} log entries in ${removedIn} s (${formatInteger(report.removed.runs / Number(removedIn))} runs/s), ${formatInteger(report.slices)} slices`,
    );
    console.log(
      `  file ${mebibytes(sizeBefore.bytes)} MiB before, ${describeSize(sizeRemoved, sizeBefore)} once they were removed, ${describeSize(sizeAfter, sizeBefore)} at the end`,
    );
    recordFigures("retention", {
      runs,
      keep,
      removed: report.removed,
      seconds: Number(removedIn),
      sizeBefore,
      sizeRemoved,
      sizeAfter,
    });
  } finally {
    rmSync(dir, { recursive: true });
  }
}

async function removeBesideLoad(
  load: EngineLoad,
  { tasks, keep, share, livePauseMs }: Readonly<Record<"tasks" | "keep" | "share" | "livePauseMs", number>>,
) {
  const reports: SweepReport[] = [];
  /** Resolves while slices are allowed. */
  let isOpen = Promise.resolve();
  const sweeper = new RetentionSweeper({
    store: load.store,
    policyOf: () => ({ ...defaultRetention, runsMs: null, runsMax: keep }),
    clock: { monotonic: () => performance.now() },
    timers: {
      after(ms, run) {
        const timer = setTimeout(() => void isOpen.then(run), ms);
        return () => clearTimeout(timer);
      },
    },
    gauge: () => load.gauge(),
    onSwept: (report) => void reports.push(report),
    onProblem: (problem) => {
      throw problem;
    },
    pace: { busyShare: share },
  });
  const during: LoadFigures = { tasksPerSecond: [], gapsMs: [] };
  const between: LoadFigures = { tasksPerSecond: [], gapsMs: [] };
  let isOver = false;
  console.log("  live work before is measured");
  const swept = sweeper.sweep().then(() => {
    isOver = true;
  });
  for (let round = 1; !isOver; round++) {
    if (round % roundsPerQuietRound === 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      isOpen = promise;
      await measureRound(load, tasks, between);
      resolve();
    } else await measureRound(load, tasks, during);
    await new Promise((resolve) => setTimeout(resolve, livePauseMs));
  }
  await swept;
  const [report] = reports;
  if (report === undefined) throw new Error("nothing was removed");
  return { during, between, report };
}

async function measureRounds(load: EngineLoad, tasks: number, rounds: number): Promise<LoadFigures> {
  const figures: LoadFigures = { tasksPerSecond: [], gapsMs: [] };
  for (let round = 0; round < rounds; round++) await measureRound(load, tasks, figures);
  return figures;
}

async function measureRound(load: EngineLoad, tasks: number, figures: LoadFigures): Promise<void> {
  const startedAt = performance.now();
  load.gapsMs = figures.gapsMs;
  const done = await load.run(tasks);
  load.gapsMs = null;
  figures.tasksPerSecond.push((done * 1_000) / (performance.now() - startedAt));
}

function printFigures(figures: Readonly<Record<"before" | "during" | "between" | "after", LoadFigures>>): void {
  // Measured among the others, the quiet rounds see the same machine; before and after it may have been another.
  const { between } = figures;
  const quiet = between.tasksPerSecond.length > 0 ? between : figures.before;
  const base = { rate: median(quiet.tasksPerSecond), pause: quiet.gapsMs.reduce((most, gap) => Math.max(most, gap), 0) };
  for (const [name, { tasksPerSecond, gapsMs }] of Object.entries(figures)) {
    if (tasksPerSecond.length === 0) continue;
    const rate = median(tasksPerSecond);
    const pause = gapsMs.reduce((most, gap) => Math.max(most, gap), 0);
    console.log(
      `  ${name.padEnd(8)} ${formatInteger(rate)} tasks/s (ratio ${(rate / base.rate).toFixed(2)}), longest pause ${pause.toFixed(1)} ms (ratio ${(pause / base.pause).toFixed(2)}), p99 ${percentile(gapsMs, 0.99).toFixed(1)} ms, ${tasksPerSecond.length} rounds`,
    );
    recordFigures(`retention ${name}`, { tasksPerSecond: rate, longestPauseMs: pause, p99PauseMs: percentile(gapsMs, 0.99) });
  }
}

interface FileSize {
  readonly bytes: number;
  readonly freeBytes: number;
}

const describeSize = (size: FileSize, before: FileSize): string =>
  `${mebibytes(size.bytes)} MiB (ratio ${(size.bytes / before.bytes).toFixed(2)}; ${mebibytes(size.freeBytes)} MiB free for new rows)`;

/** As the last transaction left it; the file itself follows with the next checkpoint, and at the end. */
function readSizes(file: string): FileSize {
  const db = new DatabaseSync(file, { readOnly: true });
  const number = (pragma: string) => Number(Object.values(db.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
  const freeBytes = number("freelist_count") * number("page_size");
  const bytes = number("page_count") * number("page_size");
  db.close();
  return { bytes, freeBytes };
}

const seconds = (since: number): string => ((performance.now() - since) / 1_000).toFixed(1);
const mebibytes = (bytes: number): string => formatInteger(bytes / 1024 / 1024);
