// `npm run bench -- feedback`: how long the result of a short task takes while another task of the same package process writes 1,000
// chunks of text a second, beside the same without that task. For an adapter in Node and one in Python, in turns.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RunSubmitter } from "../end-to-end/run-submitter.ts";
import {
  type ChildProgram,
  loadAverage,
  type SchedulerReady,
  startScheduler,
  startWorker,
  stopProgram,
  waitUntilReady,
} from "../harness/child-programs.ts";
import { median, percentile, percentiles, readNumberOption, recordFigures, showProgress } from "../harness/statistics.ts";
import { type FeedbackRuntime, feedbackRuntimes, oneNodeRequest, writeFloodingPackages } from "./flooding-packages.ts";

interface FeedbackOptions {
  readonly rounds: number;
  /** Short tasks of a round, one after the other. */
  readonly singles: number;
  readonly perSecond: number;
}

/** Of one short task, in milliseconds. */
interface ShortTask {
  /** From the submit until the submitter has read the result. */
  readonly seenMs: number;
  /** From the return of the adapter until the scheduler has stored its result, by the clock of this machine. */
  readonly storedMs: number;
}

interface FeedbackRound {
  readonly quiet: readonly ShortTask[];
  readonly flooded: readonly ShortTask[];
  /** Chunks a second that the other task really wrote. */
  readonly rate: number;
}

type Percentiles = ReturnType<typeof percentiles>;

const warmUps = 20;

export async function feedbackBench(argv: readonly string[]): Promise<void> {
  const options = {
    rounds: readNumberOption(argv, "rounds", 10),
    singles: readNumberOption(argv, "singles", 100),
    perSecond: readNumberOption(argv, "per-second", 1_000),
  };
  const { rounds, singles, perSecond } = options;
  const dir = mkdtempSync(join(tmpdir(), "astra-feedback-"));
  const programs: ChildProgram[] = [];
  console.log(
    `feedback bench: ${rounds} rounds of ${singles} short tasks, alone and beside ${perSecond} chunks/s of the same process, sqlite, node ${process.version}, load ${loadAverage()}`,
  );
  try {
    const packagesDir = join(dir, "packages");
    writeFloodingPackages(packagesDir);
    const scheduler = startScheduler({ dir: join(dir, "scheduler"), threads: 1, nodeFlags: [] });
    programs.push(scheduler);
    const { http, ws } = await waitUntilReady<SchedulerReady>(scheduler);
    const worker = startWorker({ dir: join(dir, "worker"), url: ws, maxParallel: 8, nodeFlags: [], packagesDir });
    programs.push(worker);
    await waitUntilReady(worker);
    const submitter = new RunSubmitter(http);
    const measured: Record<FeedbackRuntime, FeedbackRound[]> = { node: [], python: [] };
    for (const runtime of feedbackRuntimes) await measureShortTasks(submitter, runtime, warmUps);
    for (let round = 0; round < rounds; round++) {
      for (const runtime of feedbackRuntimes)
        measured[runtime].push(await measureRound(submitter, runtime, options, join(dir, `stop-${runtime}-${round}`)));
      showProgress("rounds", round + 1, rounds);
    }
    submitter.close();
    for (const runtime of feedbackRuntimes) showRuntime(runtime, measured[runtime]);
    console.log(`load average at the end ${loadAverage()}`);
  } finally {
    // The worker first: it would report the loss of its scheduler.
    for (const program of programs.reverse()) await stopProgram(program);
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureRound(
  submitter: RunSubmitter,
  runtime: FeedbackRuntime,
  { singles, perSecond }: FeedbackOptions,
  stop: string,
): Promise<FeedbackRound> {
  const quiet = await measureShortTasks(submitter, runtime, singles);
  const flood = await submitter.start(oneNodeRequest(runtime, "flood", { stop, perSecond }));
  await submitter.waitForOutput(flood);
  const flooded = await measureShortTasks(submitter, runtime, singles);
  writeFileSync(stop, "");
  const { sent, seconds } = await submitter.waitForResult<{ sent: number; seconds: number }>(flood);
  return { quiet, flooded, rate: sent / seconds };
}

async function measureShortTasks(submitter: RunSubmitter, runtime: FeedbackRuntime, times: number): Promise<ShortTask[]> {
  const body = oneNodeRequest(runtime, "quick");
  const tasks: ShortTask[] = [];
  for (let at = 0; at < times; at++) {
    const { ms, run } = await submitter.runPollingAtOnce(body);
    const { result, finishedAt = "" } = run.nodes?.[0] ?? {};
    const { returnedAt } = result as { returnedAt: number };
    tasks.push({ seenMs: ms, storedMs: Math.max(0, Date.parse(finishedAt) - returnedAt) });
  }
  return tasks;
}

function showRuntime(runtime: FeedbackRuntime, rounds: readonly FeedbackRound[]): void {
  const rate = median(rounds.map((one) => one.rate));
  console.log(`${runtime}, beside ${rate.toFixed(0)} chunks/s:`);
  const measures = [
    ["storedMs", "adapter returns -> result stored"],
    ["seenMs", "submit -> result seen"],
  ] as const;
  for (const [measure, title] of measures) {
    const [quiet, flooded] = (["quiet", "flooded"] as const).map((which) =>
      percentiles(rounds.flatMap((one) => one[which].map((task) => task[measure]))),
    ) as [Percentiles, Percentiles];
    const p99Of = (tasks: readonly ShortTask[]) =>
      percentile(
        tasks.map((task) => task[measure]),
        0.99,
      );
    const ratios = rounds.map((one) => p99Of(one.flooded) / p99Of(one.quiet));
    const p99Ratio = flooded.p99 / quiet.p99;
    recordFigures(runtime, { measure, chunksPerSecond: rate, quiet, flooded, p99Ratio, p99RatioByRound: ratios });
    const describe = ({ p50, p99 }: Percentiles) => `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`;
    console.log(
      `  ${title}: alone ${describe(quiet)}; flooded ${describe(flooded)}; ratio of p99 ${p99Ratio.toFixed(2)} (median of rounds ${median(ratios).toFixed(2)}), of p50 ${(flooded.p50 / quiet.p50).toFixed(2)}`,
    );
  }
}
