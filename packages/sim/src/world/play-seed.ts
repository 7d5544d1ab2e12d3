// Runs one seed: generates its plan, runs it, returns the report.

import type { ObservationListener, ScheduledFault, WorldReport } from "../observation/observation.ts";
import type { FaultProfile } from "../plan/fault-table.ts";
import { generateWorldPlan } from "../plan/world-plan.ts";
import type { Mutant } from "../scheduler/mutants.ts";
import { SimulatedWorld } from "./simulated-world.ts";

export interface PlaySeedOptions {
  readonly seed: number;
  readonly profile: FaultProfile;
  /** Instead of the faults that the seed drew: the same ones or a part of them. */
  readonly schedule?: readonly ScheduledFault[];
  /** A known bug to switch on; checkers that do not find it are too weak. */
  readonly plant?: Mutant | null;
  /** Answers every resume with a reset. */
  readonly isResumeRefused?: boolean;
  readonly observe: ObservationListener;
}

export async function playSeed({ seed, profile, plant = null, observe, ...options }: PlaySeedOptions): Promise<WorldReport> {
  const plan = generateWorldPlan(seed, profile, options);
  const { schedule = plan.faults } = options;
  return await new SimulatedWorld({ ...plan, faults: schedule }, observe, plant).run();
}
