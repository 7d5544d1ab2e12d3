// One seed before the judges: played, judged, told. What many seeds add up to is campaign.ts.

import type { Violation } from "./check/checker.ts";
import { Judge } from "./check/judge.ts";
import { type StoryLine, Storyteller } from "./check/story.ts";
import type { Profile } from "./fault-table.ts";
import type { FaultEvent, WorldReport } from "./observation.ts";
import { playSeed } from "./play.ts";
import type { Plant } from "./world.ts";

export interface TrialWish {
  readonly seed: number;
  readonly profile: Profile;
  readonly plant?: Plant;
  /** Instead of the faults that the seed drew. */
  readonly schedule?: readonly FaultEvent[];
  /** Answers every resume with a reset. */
  readonly isResumeRefused?: boolean;
}

export interface Trial {
  readonly report: WorldReport;
  readonly violations: readonly Violation[];
  /** How many things each checker could judge. */
  readonly saw: Readonly<Record<string, number>>;
}

export async function trySeed(wish: TrialWish): Promise<Trial> {
  const judge = new Judge();
  const report = await playSeed({ ...wish, observe: (seen) => judge.hear(seen) });
  return { report, ...judge.end() };
}

/** The seed's story: all of it, or what bears on these ids. */
export async function tellSeed(wish: TrialWish, about: readonly string[] = []): Promise<readonly StoryLine[]> {
  const teller = new Storyteller();
  await playSeed({ ...wish, observe: (seen) => teller.hear(seen) });
  return teller.lines(about);
}
