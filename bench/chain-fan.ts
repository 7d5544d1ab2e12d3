// Very many tasks of one run: a fan-out drawn as nodes with a join behind it, and a map over as many items, through a scheduler and a
// worker as processes of their own. Seconds, tasks a second, turns, and what is written; rows are counted in rounds that are not timed.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fanRequest, loopRequest } from "./chain-graphs.ts";
import { median, noteFigures, progress, range, readOption, spread, whole } from "./figures.ts";
import { Bed, type BedOptions, profileWords } from "./slice-bed.ts";
import { lastTurn, readKept } from "./slice-client.ts";
import { loadAverage, usageOf } from "./slice-processes.ts";
import type { WriteCounts } from "./slice-writes.ts";

interface Shape {
  readonly name: string;
  readonly body: string;
  /** Tasks that the worker runs. */
  readonly tasks: number;
}

interface FanRound {
  readonly ms: number;
  readonly storeMs: number;
  readonly turns: number;
  readonly taskRows: number;
  readonly eventRows: number;
  readonly diskBytes: number;
  readonly schedulerMs: number;
  readonly workerMs: number;
}

const writesFile = fileURLToPath(new URL("./slice-writes.ts", import.meta.url));

export async function fanBench(argv: readonly string[]): Promise<void> {
  const tasks = readOption(argv, "fan", 10_000);
  const rounds = readOption(argv, "fan-rounds", 3);
  const maxParallel = readOption(argv, "max-parallel", 128);
  const at = argv.indexOf("--profile");
  const options: BedOptions = { threads: 1, maxParallel, isPlain: false, profile: at < 0 ? null : (argv[at + 1] ?? null) };
  const shapes = shapesOf(argv, tasks, maxParallel);
  const dir = mkdtempSync(join(tmpdir(), "astra-fan-"));
  console.log(
    `fan-out of ${whole(tasks)}, one worker with ${maxParallel} slots, ${rounds} interleaved rounds, medians (load ${loadAverage()}):`,
  );
  try {
    const seen = await measure(new Bed(join(dir, "timed")), options, shapes, rounds);
    for (const shape of shapes) {
      show(shape, seen.get(shape.name) ?? []);
      showWrites(shape, await countWrites(shape, { ...options, profile: null }, join(dir, shape.name)));
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function shapesOf(argv: readonly string[], tasks: number, maxParallel: number): Shape[] {
  const at = argv.indexOf("--shape");
  const each = Math.max(1, Math.round(tasks / 10));
  const all: Shape[] = [
    { name: "nodes", body: fanRequest(tasks), tasks },
    { name: "map", body: loopRequest("map", tasks, maxParallel), tasks },
    // One after the other takes a round trip each: a tenth is enough to see what it costs.
    { name: "for-each", body: loopRequest("forEach", each, 1), tasks: each },
  ];
  return at < 0 ? all : all.filter(({ name }) => name === argv[at + 1]);
}

async function measure(
  bed: Bed,
  options: BedOptions,
  shapes: readonly Shape[],
  rounds: number,
): Promise<Map<string, FanRound[]>> {
  const seen = new Map<string, FanRound[]>(shapes.map(({ name }) => [name, []]));
  try {
    await bed.open(options, profileWords(options));
    for (let round = -1; round < rounds; round++)
      for (const [at, { name, body }] of shapes.entries()) {
        const one = await runOnce(bed, body);
        // The first only warms up.
        if (round >= 0) seen.get(name)?.push(one);
        progress("fan-out", (round + 1) * shapes.length + at + 1, (rounds + 1) * shapes.length);
      }
  } finally {
    await bed.close();
  }
  return seen;
}

async function runOnce(bed: Bed, body: string): Promise<FanRound> {
  const { scheduler, worker, submitter } = bed.parts;
  const last = readKept(bed.file, { lastRun: "", position: 0 });
  const turns = lastTurn(bed.file);
  const before = [usageOf(scheduler.pid), usageOf(worker.pid)] as const;
  const { ms, storeMs } = await submitter.runQuietly(body, true);
  const after = [usageOf(scheduler.pid), usageOf(worker.pid)] as const;
  const kept = readKept(bed.file, last);
  return {
    ms,
    storeMs,
    turns: lastTurn(bed.file) - turns,
    taskRows: kept.tasks,
    eventRows: kept.events,
    diskBytes: after[0].diskBytes - before[0].diskBytes,
    schedulerMs: after[0].cpuMs - before[0].cpuMs,
    workerMs: after[1].cpuMs - before[1].cpuMs,
  };
}

function show({ name, tasks }: Shape, rounds: readonly FanRound[]): void {
  const of = (field: keyof FanRound) => rounds.map((one) => one[field]);
  const perTask = (field: keyof FanRound) => median(of(field)) / tasks;
  const rates = rounds.map(({ ms }) => (tasks / ms) * 1_000);
  noteFigures("fans", {
    shape: name,
    tasks,
    ms: range(of("ms")),
    msByStore: range(of("storeMs")),
    tasksPerSecond: range(rates),
    turns: range(of("turns")),
    taskRowsPerTask: perTask("taskRows"),
    eventRowsPerTask: perTask("eventRows"),
    diskBytesPerTask: perTask("diskBytes"),
    schedulerUsPerTask: perTask("schedulerMs") * 1_000,
    workerUsPerTask: perTask("workerMs") * 1_000,
  });
  console.log(
    `  ${name.padEnd(9)} ${whole(tasks)} tasks in ${(median(of("ms")) / 1_000).toFixed(2)} s (${(Math.min(...of("ms")) / 1_000).toFixed(2)}..${(Math.max(...of("ms")) / 1_000).toFixed(2)}; ${(median(of("storeMs")) / 1_000).toFixed(2)} by the store's clock): ${whole(median(rates))} tasks/s (${spread(rates)}), ${whole(median(of("turns")))} turns`,
  );
  console.log(
    `            a task: ${perTask("taskRows").toFixed(3)} task rows, ${perTask("eventRows").toFixed(3)} event rows, ${whole(perTask("diskBytes"))} bytes to disk; processor time ${whole(perTask("schedulerMs") * 1_000)} us scheduler, ${whole(perTask("workerMs") * 1_000)} us worker`,
  );
}

async function countWrites({ body }: Shape, options: BedOptions, dir: string): Promise<[string, WriteCounts[string]][]> {
  const file = `${dir}.jsonl`;
  process.env["BENCH_WRITES_FILE"] = file;
  const bed = new Bed(dir);
  try {
    await bed.open(options, ["--import", writesFile]);
    await bed.parts.submitter.runQuietly(body, true);
  } finally {
    await bed.close();
    delete process.env["BENCH_WRITES_FILE"];
  }
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.flatMap((line) => Object.entries(JSON.parse(line) as WriteCounts));
}

function showWrites({ name, tasks }: Shape, counts: [string, WriteCounts[string]][]): void {
  const sum = counts.reduce((all, [, count]) => all + (count?.rows ?? 0), 0);
  const most = counts
    .filter(([, count]) => (count?.rows ?? 0) / tasks >= 0.001)
    .sort((a, b) => (b[1]?.rows ?? 0) - (a[1]?.rows ?? 0));
  const said = most.map(([label, count]) => `${((count?.rows ?? 0) / tasks).toFixed(3)} ${label}`);
  noteFigures("fansWritten", { shape: name, tasks, rowsPerTask: sum / tasks });
  console.log(`            written a task: ${(sum / tasks).toFixed(3)} rows (${said.join(", ")})`);
}
