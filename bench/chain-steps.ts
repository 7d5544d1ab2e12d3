// Light steps one after the other on one worker: a whole run through a scheduler of its own process, beside as many bare round trips of
// the same session between a worker and a door without engine and store. In turn, on an idle installation, one run at a time.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BareAnswer, BareAsk, BareWord } from "./chain-bare.ts";
import { median, noteFigures, percentile, percentiles, progress, range, readOption } from "./figures.ts";
import { Bed } from "./slice-bed.ts";
import { chainRequest } from "./slice-client.ts";
import { endProgram, hearReady, hearWord, loadAverage, type Program, startProgram, startWorker } from "./slice-processes.ts";

const bareFile = fileURLToPath(new URL("./chain-bare.ts", import.meta.url));
const warmRuns = 5;

export async function stepsBench(argv: readonly string[]): Promise<void> {
  const steps = readOption(argv, "steps", 40);
  const rounds = readOption(argv, "step-rounds", 50);
  const dir = mkdtempSync(join(tmpdir(), "astra-chain-"));
  const bed = new Bed(join(dir, "chain"));
  const bare = startProgram("bare door", [bareFile], process.env, []);
  const programs: Program[] = [bare];
  try {
    const { ws } = await hearWord<Extract<BareWord, { ws: string }>>(bare, 10_000);
    const joined = hearWord<BareWord>(bare, 30_000);
    const worker = startWorker({ dir: join(dir, "bare-worker"), url: ws, maxParallel: 1, nodeWords: [] });
    programs.push(worker);
    await Promise.all([joined, hearReady(worker)]);
    await bed.open({ threads: 1, maxParallel: 1, isPlain: false, profile: null }, []);
    await interleave(bed, bare, steps, warmRuns);
    const { runs, stored, trips } = await interleave(bed, bare, steps, rounds);
    show(steps, runs, stored, trips);
  } finally {
    await bed.close();
    for (const program of programs.reverse()) await endProgram(program);
    rmSync(dir, { recursive: true, force: true });
  }
}

interface Seen {
  /** From the submit until its end was seen, and from its creation to its end by the store's clock. */
  readonly runs: number[];
  readonly stored: number[];
  readonly trips: number[];
}

async function interleave(bed: Bed, bare: Program, steps: number, rounds: number): Promise<Seen> {
  const body = chainRequest(steps);
  const seen: Seen = { runs: [], stored: [], trips: [] };
  for (let round = 0; round < rounds; round++) {
    const answer = hearWord<BareAnswer>(bare, 60_000);
    bare.process.send({ steps } satisfies BareAsk);
    seen.trips.push((await answer).ms);
    const one = await bed.parts.submitter.runQuietly(body);
    seen.runs.push(one.ms);
    seen.stored.push(one.storeMs);
    progress("steps", round + 1, rounds);
  }
  return seen;
}

function show(steps: number, runs: readonly number[], stored: readonly number[], trips: readonly number[]): void {
  const say = (values: readonly number[]) =>
    `${(median(values) / 1_000).toFixed(3)} s (p99 ${(percentile(values, 0.99) / 1_000).toFixed(3)}), ${(median(values) / steps).toFixed(2)} ms a step`;
  const ratios = runs.map((ms, at) => ms / (trips[at] ?? Number.NaN));
  noteFigures("steps", {
    steps,
    rounds: runs.length,
    runMs: percentiles(runs),
    runMsByStore: percentiles(stored),
    bareMs: percentiles(trips),
    runToBare: range(ratios),
  });
  console.log(
    `${steps} light steps on one worker, one run at a time, ${runs.length} interleaved rounds, medians (load ${loadAverage()}):`,
  );
  console.log(`  a run, submit to end seen         ${say(runs)}`);
  console.log(`  a run, by the store's clock       ${say(stored)}`);
  console.log(`  ${steps} bare session round trips     ${say(trips)}`);
  console.log(
    `  ratio run/bare ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}..${Math.max(...ratios).toFixed(2)})`,
  );
}
