// Many seeds, one after the other or on several threads: sums of what happened, every violation with its seed and smallest schedule, seeds whose
// second playing differs, kinds of faults that never struck. Saving and printing are for whoever asked.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Violation } from "./check/checker.ts";
import type { StoryLine } from "./check/story.ts";
import { type CheckerName, checkers, checkersFor } from "./check/table.ts";
import { type FaultKind, faultKinds, faultTable, type Profile, profiles } from "./fault-table.ts";
import type { FaultEvent, WorldReport } from "./observation.ts";
import { drawWorld } from "./plan.ts";
import { shrink } from "./shrink.ts";
import { type TrialWish, tellSeed, trySeed } from "./trial.ts";
import type { Plant } from "./world.ts";

export interface CampaignWish {
  readonly from: number;
  /** Included. */
  readonly to: number;
  readonly profile: Profile;
  readonly plant?: Plant;
  /** Every resume is answered with a reset: all promises must hold without. */
  readonly isResumeRefused?: boolean;
  /** Plays every seed twice and compares the traces. */
  readonly twice?: boolean;
  /** Finds the smallest schedule of every seed that fails. */
  readonly shrink?: boolean;
  /** Threads; 1 plays here. */
  readonly jobs?: number;
  /** Ends with the first seed that fails: enough to know that a planted bug is caught. */
  readonly isFirstEnough?: boolean;
  readonly stopping?: AbortSignal;
  readonly onSeed?: (seed: SeedOutcome) => void;
}

/** What became of one seed. Plain data: it crosses threads. */
export interface SeedOutcome {
  readonly report: WorldReport;
  readonly saw: Readonly<Record<string, number>>;
  readonly violations: readonly Found[];
  /** Hash of the second playing where it differs from the first. */
  readonly differs: string | null;
}

/** A broken promise, and the way to see it again. */
export interface Found extends Violation {
  readonly seed: number;
  readonly profile: Profile;
  readonly plant: Plant | null;
  readonly isResumeRefused: boolean;
  readonly invariant: string;
  /** The faults that are needed; null where nobody asked to shrink. */
  readonly schedule: readonly FaultEvent[] | null;
  /** The last lines that bear on it. */
  readonly story: readonly StoryLine[];
}

export interface CampaignReport {
  readonly seeds: number;
  readonly simulatedMs: number;
  readonly events: number;
  readonly observations: number;
  readonly runs: number;
  readonly tasks: number;
  readonly starts: number;
  readonly faults: Readonly<Record<string, number>>;
  /** Kinds that the profile can draw and that never struck. */
  readonly neverStruck: readonly string[];
  readonly sometimes: Readonly<Record<string, number>>;
  readonly saw: Readonly<Record<string, number>>;
  /** Checkers that had nothing to judge. */
  readonly sawNothing: readonly string[];
  readonly violations: readonly Found[];
  /** Seeds whose second playing was another. */
  readonly differing: readonly number[];
}

const storyLinesMax = 60;

/** Plays and judges one seed, and finds out about its violations. */
export async function campaignSeed(seed: number, wish: Omit<CampaignWish, "onSeed" | "stopping">): Promise<SeedOutcome> {
  const { profile, plant, isResumeRefused = false } = wish;
  const trial: TrialWish = { seed, profile, isResumeRefused, ...(plant !== undefined && { plant }) };
  const { report, violations, saw } = await trySeed(trial);
  const again = wish.twice === true ? (await trySeed(trial)).report.traceHash : report.traceHash;
  const found: Found[] = [];
  for (const violation of violations) found.push(await investigate(trial, violation, wish.shrink === true));
  return { report, saw, violations: found, differs: again === report.traceHash ? null : again };
}

async function investigate(trial: TrialWish, violation: Violation, isShrunk: boolean): Promise<Found> {
  const { seed, profile, plant = null, isResumeRefused = false } = trial;
  const { faults } = drawWorld(seed, profile, { isResumeRefused });
  const fails = async (schedule: readonly FaultEvent[]): Promise<boolean> =>
    (await trySeed({ ...trial, schedule })).violations.some(({ checker }) => checker === violation.checker);
  const schedule = isShrunk ? (await shrink(faults, fails)).items : null;
  const smallest = schedule === null ? trial : { ...trial, schedule };
  // The smallest schedule may break the promise for another task: its story is told by its own ids.
  const shown = (await trySeed(smallest)).violations.find(({ checker }) => checker === violation.checker) ?? violation;
  const story = (await tellSeed(smallest, shown.about)).filter(({ at }) => at <= shown.at).slice(-storyLinesMax);
  const { invariant } = checkers[violation.checker as CheckerName];
  return { ...shown, seed, profile, plant, isResumeRefused, invariant, schedule, story };
}

export async function runCampaign(wish: CampaignWish): Promise<CampaignReport> {
  const sums = new Sums(wish.profile);
  const { onSeed = () => undefined, stopping, jobs = 1, isFirstEnough = false, ...plain } = wish;
  let next = wish.from;
  let isOver = false;
  const take = (): number | null => (isOver || stopping?.aborted === true || next > wish.to ? null : next++);
  const hear = (outcome: SeedOutcome): void => {
    sums.add(outcome);
    if (isFirstEnough && outcome.violations.length > 0) isOver = true;
    onSeed(outcome);
  };
  if (jobs === 1)
    for (let seed = take(); seed !== null; seed = take()) {
      hear(await campaignSeed(seed, plain));
      // A seed waits for nothing real, so without this nobody would hear that the caller wants to stop.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  else await Promise.all(Array.from({ length: jobs }, () => serveThread(plain, take, hear)));
  return sums.report();
}

/** One thread, one seed at a time; it ends when there is none left. */
async function serveThread(
  wish: Omit<CampaignWish, "onSeed" | "stopping">,
  take: () => number | null,
  hear: (outcome: SeedOutcome) => void,
): Promise<void> {
  const thread = new Worker(new URL("./campaign-thread.ts", import.meta.url), { workerData: wish });
  try {
    for (let seed = take(); seed !== null; seed = take()) {
      thread.postMessage(seed);
      const [outcome] = (await once(thread, "message")) as [SeedOutcome];
      hear(outcome);
    }
  } finally {
    await thread.terminate();
  }
}

class Sums {
  readonly #profile: Profile;
  readonly #totals = { seeds: 0, simulatedMs: 0, events: 0, observations: 0, runs: 0, tasks: 0, starts: 0 };
  readonly #faults: Record<string, number> = {};
  readonly #sometimes: Record<string, number> = {};
  readonly #saw: Record<string, number> = {};
  readonly #violations: Found[] = [];
  readonly #differing: number[] = [];

  constructor(profile: Profile) {
    this.#profile = profile;
  }

  add({ report, saw, violations, differs }: SeedOutcome): void {
    this.#totals.seeds++;
    for (const name of ["simulatedMs", "events", "observations", "runs", "tasks", "starts"] as const)
      this.#totals[name] += report[name];
    addTo(this.#faults, report.faults);
    addTo(this.#sometimes, report.sometimes);
    addTo(this.#saw, saw);
    this.#violations.push(...violations);
    if (differs !== null) this.#differing.push(report.seed);
  }

  report(): CampaignReport {
    const groups: readonly string[] = profiles[this.#profile];
    const possible = faultKinds.filter((kind: FaultKind) => groups.includes(faultTable[kind].group));
    return {
      ...this.#totals,
      faults: this.#faults,
      neverStruck: possible.filter((kind) => (this.#faults[kind] ?? 0) === 0),
      sometimes: this.#sometimes,
      saw: this.#saw,
      sawNothing: checkersFor(this.#profile === "workflow").filter((name) => (this.#saw[name] ?? 0) === 0),
      violations: this.#violations.toSorted((a, b) => a.seed - b.seed),
      differing: this.#differing.toSorted((a, b) => a - b),
    };
  }
}

function addTo(sums: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + count;
}
