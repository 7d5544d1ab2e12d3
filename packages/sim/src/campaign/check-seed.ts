// Runs one seed with all checkers, or formats its trace. Many seeds are campaign.ts.

import { CheckerRunner, type CheckResult } from "../checkers/checker-runner.ts";
import type { WorldReport } from "../observation/observation.ts";
import { type PlaySeedOptions, playSeed } from "../world/play-seed.ts";
import { TraceFormatter, type TraceLine } from "./trace-formatter.ts";

export type CheckSeedOptions = Omit<PlaySeedOptions, "observe">;

export interface CheckedSeed extends CheckResult {
  readonly report: WorldReport;
}

export async function checkSeed(options: CheckSeedOptions): Promise<CheckedSeed> {
  const runner = new CheckerRunner();
  const report = await playSeed({ ...options, observe: (observation) => runner.observe(observation) });
  return { report, ...runner.finish() };
}

/** The trace of a seed: all of it, or what bears on these ids. */
export async function traceSeed(options: CheckSeedOptions, about: readonly string[] = []): Promise<readonly TraceLine[]> {
  const formatter = new TraceFormatter();
  await playSeed({ ...options, observe: (observation) => formatter.observe(observation) });
  return formatter.lines(about);
}
