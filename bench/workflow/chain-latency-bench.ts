// Short steps one after the other on one worker: a whole run through a scheduler process, beside as many round trips of the same session between a worker
// and a session server without engine and store. Measured alternately, one run at a time.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Installation } from "../end-to-end/installation.ts";
import { chainRequest } from "../end-to-end/run-submitter.ts";
import {
  type ChildProgram,
  loadAverage,
  startProgram,
  startWorker,
  stopProgram,
  waitForMessage,
  waitUntilReady,
} from "../harness/child-programs.ts";
import {
  median,
  percentile,
  percentiles,
  readNumberOption,
  recordFigures,
  roundStatistics,
  showProgress,
} from "../harness/statistics.ts";
import type { BareSessionEvent, BareSessionRequest, BareSessionResult } from "./session-without-engine.ts";

const bareFile = fileURLToPath(new URL("./session-without-engine.ts", import.meta.url));
const warmUpRuns = 5;

export async function chainLatencyBench(argv: readonly string[]): Promise<void> {
  const steps = readNumberOption(argv, "steps", 40);
  const rounds = readNumberOption(argv, "step-rounds", 50);
  const dir = mkdtempSync(join(tmpdir(), "astra-chain-"));
  const installation = new Installation(join(dir, "chain"));
  const bare = startProgram("bare door", [bareFile], process.env, []);
  const programs: ChildProgram[] = [bare];
  try {
    const { ws } = await waitForMessage<Extract<BareSessionEvent, { ws: string }>>(bare, 10_000);
    const joined = waitForMessage<BareSessionEvent>(bare, 30_000);
    const worker = startWorker({ dir: join(dir, "bare-worker"), url: ws, maxParallel: 1, nodeFlags: [] });
    programs.push(worker);
    await Promise.all([joined, waitUntilReady(worker)]);
    await installation.open({ threads: 1, maxParallel: 1, isPlain: false, profile: null }, []);
    await interleave(installation, bare, steps, warmUpRuns);
    const { runs, stored, trips } = await interleave(installation, bare, steps, rounds);
    show(steps, runs, stored, trips);
  } finally {
    await installation.close();
    for (const program of programs.reverse()) await stopProgram(program);
    rmSync(dir, { recursive: true, force: true });
  }
}

interface Seen {
  /** From the submit until its end was seen, and from its creation to its end by the store's clock. */
  readonly runs: number[];
  readonly stored: number[];
  readonly trips: number[];
}

async function interleave(installation: Installation, bare: ChildProgram, steps: number, rounds: number): Promise<Seen> {
  const body = chainRequest(steps);
  const measured: Seen = { runs: [], stored: [], trips: [] };
  for (let round = 0; round < rounds; round++) {
    const answer = waitForMessage<BareSessionResult>(bare, 60_000);
    bare.process.send({ steps } satisfies BareSessionRequest);
    measured.trips.push((await answer).ms);
    const one = await installation.opened.submitter.runPollingList(body);
    measured.runs.push(one.ms);
    measured.stored.push(one.storeMs);
    showProgress("steps", round + 1, rounds);
  }
  return measured;
}

function show(steps: number, runs: readonly number[], stored: readonly number[], trips: readonly number[]): void {
  const say = (values: readonly number[]) =>
    `${(median(values) / 1_000).toFixed(3)} s (p99 ${(percentile(values, 0.99) / 1_000).toFixed(3)}), ${(median(values) / steps).toFixed(2)} ms a step`;
  const ratios = runs.map((ms, at) => ms / (trips[at] ?? Number.NaN));
  recordFigures("steps", {
    steps,
    rounds: runs.length,
    runMs: percentiles(runs),
    runMsByStore: percentiles(stored),
    bareMs: percentiles(trips),
    runToBare: roundStatistics(ratios),
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
