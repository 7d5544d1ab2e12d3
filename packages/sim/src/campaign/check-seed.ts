// Runs one seed with all checkers, or formats its trace. Many seeds are campaign.ts.

import { CheckerRunner } from "../checkers/checker-runner.ts";
import type { Violation } from "../checking/checker.ts";
import type { ScheduledFault, WorldReport } from "../observation/observation.ts";
import type { FaultProfile } from "../plan/fault-table.ts";
import type { Mutant } from "../scheduler/mutants.ts";
import { playSeed } from "../world/play-seed.ts";
import { TraceFormatter, type TraceLine } from "./trace-formatter.ts";

export interface CheckSeedOptions {
  readonly seed: number;
  readonly profile: FaultProfile;
  readonly plant?: Mutant;
  /** Instead of the faults that the seed drew. */
  readonly schedule?: readonly ScheduledFault[];
  /** Answers every resume with a reset. */
  readonly isResumeRefused?: boolean;
}

export interface CheckedSeed {
  readonly report: WorldReport;
  readonly violations: readonly Violation[];
  /** How many things each checker could judge. */
  readonly saw: Readonly<Record<string, number>>;
}

export async function checkSeed(options: CheckSeedOptions): Promise<CheckedSeed> {
  const runner = new CheckerRunner();
  const report = await playSeed({ ...options, observe: (observation) => runner.observe(observation) });
  return { report, ...runner.finish() };
}

/** The seed's story: all of it, or what bears on these ids. */
export async function traceSeed(options: CheckSeedOptions, about: readonly string[] = []): Promise<readonly TraceLine[]> {
  const formatter = new TraceFormatter();
  await playSeed({ ...options, observe: (observation) => formatter.observe(observation) });
  return formatter.lines(about);
}
