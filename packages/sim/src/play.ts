// The entrance for whoever wants a seed lived through: draws its plan, plays it, reports.

import type { Profile } from "./fault-table.ts";
import type { FaultEvent, Observe, WorldReport } from "./observation.ts";
import { drawWorld } from "./plan.ts";
import { type Plant, SimulatedWorld } from "./world.ts";

export interface PlaySeed {
  readonly seed: number;
  readonly profile: Profile;
  /** Instead of the faults that the seed drew: the same ones or a part of them. */
  readonly schedule?: readonly FaultEvent[];
  /** A known bug to switch on; judges that do not find it are too weak. */
  readonly plant?: Plant;
  readonly observe: Observe;
  readonly isResumeRefused?: boolean;
}

export async function playSeed({ seed, profile, schedule, plant, observe, ...wish }: PlaySeed): Promise<WorldReport> {
  const plan = drawWorld(seed, profile, wish);
  const world = new SimulatedWorld(schedule === undefined ? plan : { ...plan, faults: schedule }, observe, plant ?? null);
  return await world.live();
}
