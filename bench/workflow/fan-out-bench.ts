// Very many tasks of one run: a fan-out of nodes with a join, and a map over as many items, through a scheduler process and a worker process. Prints
// seconds, tasks per second, turns and rows written; rows are counted in rounds that are not timed.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WriteCounts } from "../end-to-end/count-sqlite-writes.ts";
import { Installation, type InstallationOptions, profileFlags } from "../end-to-end/installation.ts";
import { readLastTurn, readStoredCounts } from "../end-to-end/run-submitter.ts";
import { loadAverage, readUsage } from "../harness/child-programs.ts";
import {
  formatInteger,
  formatRange,
  median,
  readNumberOption,
  recordFigures,
  roundStatistics,
  showProgress,
} from "../harness/statistics.ts";
import { fanOutRequest, loopRequest } from "./fan-out-workflows.ts";

interface FanOutShape {
  readonly name: string;
  readonly body: string;
  /** Tasks that the worker runs. */
  readonly tasks: number;
}

interface FanOutRound {
  readonly ms: number;
  readonly storeMs: number;
  readonly turns: number;
  readonly taskRows: number;
  readonly eventRows: number;
  readonly diskBytes: number;
  readonly schedulerMs: number;
  readonly workerMs: number;
}

const writesFile = fileURLToPath(new URL("../end-to-end/count-sqlite-writes.ts", import.meta.url));

export async function fanOutBench(argv: readonly string[]): Promise<void> {
  const tasks = readNumberOption(argv, "fan", 10_000);
  const rounds = readNumberOption(argv, "fan-rounds", 3);
  const maxParallel = readNumberOption(argv, "max-parallel", 128);
  const at = argv.indexOf("--profile");
  const options: InstallationOptions = {
    threads: 1,
    maxParallel,
    isPlain: false,
    profile: at < 0 ? null : (argv[at + 1] ?? null),
  };
  const workloads = selectShapes(argv, tasks, maxParallel);
  const dir = mkdtempSync(join(tmpdir(), "astra-fan-"));
  console.log(
    `fan-out of ${formatInteger(tasks)}, one worker with ${maxParallel} slots, ${rounds} interleaved rounds, medians (load ${loadAverage()}):`,
  );
  try {
    const measured = await measure(new Installation(join(dir, "timed")), options, workloads, rounds);
    for (const shape of workloads) {
      showRound(shape, measured.get(shape.name) ?? []);
      showWrites(shape, await countWrites(shape, { ...options, profile: null }, join(dir, shape.name)));
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function selectShapes(argv: readonly string[], tasks: number, maxParallel: number): FanOutShape[] {
  const at = argv.indexOf("--shape");
  const each = Math.max(1, Math.round(tasks / 10));
  const all: FanOutShape[] = [
    { name: "nodes", body: fanOutRequest(tasks), tasks },
    { name: "map", body: loopRequest("map", tasks, maxParallel), tasks },
    // One after the other takes a round trip each: a tenth is enough to see what it costs.
    { name: "for-each", body: loopRequest("forEach", each, 1), tasks: each },
  ];
  return at < 0 ? all : all.filter(({ name }) => name === argv[at + 1]);
}

async function measure(
  installation: Installation,
  options: InstallationOptions,
  workloads: readonly FanOutShape[],
  rounds: number,
): Promise<Map<string, FanOutRound[]>> {
  const measured = new Map<string, FanOutRound[]>(workloads.map(({ name }) => [name, []]));
  try {
    await installation.open(options, profileFlags(options));
    for (let round = -1; round < rounds; round++)
      for (const [at, { name, body }] of workloads.entries()) {
        const one = await runOnce(installation, body);
        // The first only warms up.
        if (round >= 0) measured.get(name)?.push(one);
        showProgress("fan-out", (round + 1) * workloads.length + at + 1, (rounds + 1) * workloads.length);
      }
  } finally {
    await installation.close();
  }
  return measured;
}

async function runOnce(installation: Installation, body: string): Promise<FanOutRound> {
  const { scheduler, worker, submitter } = installation.opened;
  const last = readStoredCounts(installation.file, { lastRun: "", position: 0 });
  const turns = readLastTurn(installation.file);
  const before = [readUsage(scheduler.pid), readUsage(worker.pid)] as const;
  const { ms, storeMs } = await submitter.runPollingList(body, true);
  const after = [readUsage(scheduler.pid), readUsage(worker.pid)] as const;
  const stored = readStoredCounts(installation.file, last);
  return {
    ms,
    storeMs,
    turns: readLastTurn(installation.file) - turns,
    taskRows: stored.tasks,
    eventRows: stored.events,
    diskBytes: after[0].diskBytes - before[0].diskBytes,
    schedulerMs: after[0].cpuMs - before[0].cpuMs,
    workerMs: after[1].cpuMs - before[1].cpuMs,
  };
}

function showRound({ name, tasks }: FanOutShape, rounds: readonly FanOutRound[]): void {
  const of = (field: keyof FanOutRound) => rounds.map((one) => one[field]);
  const perTask = (field: keyof FanOutRound) => median(of(field)) / tasks;
  const rates = rounds.map(({ ms }) => (tasks / ms) * 1_000);
  recordFigures("fans", {
    shape: name,
    tasks,
    ms: roundStatistics(of("ms")),
    msByStore: roundStatistics(of("storeMs")),
    tasksPerSecond: roundStatistics(rates),
    turns: roundStatistics(of("turns")),
    taskRowsPerTask: perTask("taskRows"),
    eventRowsPerTask: perTask("eventRows"),
    diskBytesPerTask: perTask("diskBytes"),
    schedulerUsPerTask: perTask("schedulerMs") * 1_000,
    workerUsPerTask: perTask("workerMs") * 1_000,
  });
  console.log(
    `  ${name.padEnd(9)} ${formatInteger(tasks)} tasks in ${(median(of("ms")) / 1_000).toFixed(2)} s (${(Math.min(...of("ms")) / 1_000).toFixed(2)}..${(Math.max(...of("ms")) / 1_000).toFixed(2)}; ${(median(of("storeMs")) / 1_000).toFixed(2)} by the store's clock): ${formatInteger(median(rates))} tasks/s (${formatRange(rates)}), ${formatInteger(median(of("turns")))} turns`,
  );
  console.log(
    `            a task: ${perTask("taskRows").toFixed(3)} task rows, ${perTask("eventRows").toFixed(3)} event rows, ${formatInteger(perTask("diskBytes"))} bytes to disk; processor time ${formatInteger(perTask("schedulerMs") * 1_000)} us scheduler, ${formatInteger(perTask("workerMs") * 1_000)} us worker`,
  );
}

async function countWrites(
  { body }: FanOutShape,
  options: InstallationOptions,
  dir: string,
): Promise<[string, WriteCounts[string]][]> {
  const file = `${dir}.jsonl`;
  process.env["BENCH_WRITES_FILE"] = file;
  const installation = new Installation(dir);
  try {
    await installation.open(options, ["--import", writesFile]);
    await installation.opened.submitter.runPollingList(body, true);
  } finally {
    await installation.close();
    delete process.env["BENCH_WRITES_FILE"];
  }
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.flatMap((line) => Object.entries(JSON.parse(line) as WriteCounts));
}

function showWrites({ name, tasks }: FanOutShape, counts: [string, WriteCounts[string]][]): void {
  const sum = counts.reduce((all, [, count]) => all + (count?.rows ?? 0), 0);
  const most = counts
    .filter(([, count]) => (count?.rows ?? 0) / tasks >= 0.001)
    .sort((a, b) => (b[1]?.rows ?? 0) - (a[1]?.rows ?? 0));
  const said = most.map(([label, count]) => `${((count?.rows ?? 0) / tasks).toFixed(3)} ${label}`);
  recordFigures("fansWritten", { shape: name, tasks, rowsPerTask: sum / tasks });
  console.log(`            written a task: ${(sum / tasks).toFixed(3)} rows (${said.join(", ")})`);
}
