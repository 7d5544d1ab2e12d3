// Runs one seed with all checkers, or many, in sequence or on several threads, and sums up: totals, every violation with its seed and smallest
// schedule, seeds whose second run differs, kinds of faults that never occurred. The caller saves and prints.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { CheckerRunner, type CheckResult } from "../checkers/checker-runner.ts";
import { type CheckerName, checkerNamesFor, checkers } from "../checkers/checker-table.ts";
import type { Violation } from "../checking/checker.ts";
import type { ScheduledFault, WorldReport } from "../observation/observation.ts";
import { type FaultKind, type FaultProfile, faultKinds, faultTable, profiles } from "../plan/fault-table.ts";
import { generateWorldPlan } from "../plan/world-plan.ts";
import { type PlaySeedOptions, playSeed } from "../world/simulated-world.ts";
import { TraceFormatter, type TraceLine } from "./trace-formatter.ts";

type CheckSeedOptions = Omit<PlaySeedOptions, "observe">;

interface CheckedSeed extends CheckResult {
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

export interface CampaignOptions extends Pick<CheckSeedOptions, "profile" | "plant" | "isResumeRefused"> {
  readonly from: number;
  /** Included. */
  readonly to: number;
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
export interface SeedOutcome extends Omit<CheckedSeed, "violations"> {
  readonly violations: readonly CampaignViolation[];
  /** Hash of the second playing where it differs from the first. */
  readonly differs: string | null;
}

/** A broken promise, and the way to see it again. */
export interface CampaignViolation extends Violation, Required<Omit<CheckSeedOptions, "schedule">> {
  readonly invariant: string;
  /** The faults that are needed; null where nobody asked to shrink. */
  readonly schedule: readonly ScheduledFault[] | null;
  /** The last lines that bear on it. */
  readonly story: readonly TraceLine[];
}

export interface CampaignReport extends Omit<WorldReport, "seed" | "profile" | "traceHash" | "hasConverged"> {
  readonly seeds: number;
  /** Kinds that the profile can draw and that never struck. */
  readonly neverStruck: readonly string[];
  readonly saw: CheckedSeed["saw"];
  /** Checkers that had nothing to judge. */
  readonly sawNothing: readonly string[];
  readonly violations: readonly CampaignViolation[];
  /** Seeds whose second playing was another. */
  readonly differing: readonly number[];
}

const traceLinesMax = 60;

/** Plays and checks one seed, and finds out about its violations. */
export async function runCampaignSeed(seed: number, options: Omit<CampaignOptions, "onSeed" | "stopping">): Promise<SeedOutcome> {
  const { profile, plant = null, isResumeRefused = false } = options;
  const trial = { seed, profile, plant, isResumeRefused };
  const { report, violations, saw } = await checkSeed(trial);
  const again = options.twice === true ? (await checkSeed(trial)).report.traceHash : report.traceHash;
  const found: CampaignViolation[] = [];
  for (const violation of violations) found.push(await investigateViolation(trial, violation, options.shrink === true));
  return { report, saw, violations: found, differs: again === report.traceHash ? null : again };
}

async function investigateViolation(
  trial: Required<Omit<CheckSeedOptions, "schedule">>,
  violation: Violation,
  isShrunk: boolean,
): Promise<CampaignViolation> {
  const { faults } = generateWorldPlan(trial.seed, trial.profile, trial);
  const fails = async (schedule: readonly ScheduledFault[]): Promise<boolean> =>
    (await checkSeed({ ...trial, schedule })).violations.some(({ checker }) => checker === violation.checker);
  const schedule = isShrunk ? (await shrinkSchedule(faults, fails)).items : null;
  const smallest = schedule === null ? trial : { ...trial, schedule };
  // The smallest schedule may break the promise for another task, which has other ids.
  const shown = (await checkSeed(smallest)).violations.find(({ checker }) => checker === violation.checker) ?? violation;
  const story = (await traceSeed(smallest, shown.about)).filter(({ at }) => at <= shown.at).slice(-traceLinesMax);
  const { invariant } = checkers[violation.checker as CheckerName];
  return { ...shown, ...trial, invariant, schedule, story };
}

export async function runCampaign(options: CampaignOptions): Promise<CampaignReport> {
  const sums = new CampaignTotals(options.profile);
  const { onSeed = () => undefined, stopping, jobs = 1, isFirstEnough = false, ...plain } = options;
  let next = options.from;
  let isOver = false;
  const take = (): number | null => (isOver || stopping?.aborted === true || next > options.to ? null : next++);
  const handleOutcome = (outcome: SeedOutcome): void => {
    sums.add(outcome);
    if (isFirstEnough && outcome.violations.length > 0) isOver = true;
    onSeed(outcome);
  };
  if (jobs === 1)
    for (let seed = take(); seed !== null; seed = take()) {
      handleOutcome(await runCampaignSeed(seed, plain));
      // Seeds never yield to the event loop; without this an abort would not be seen.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  else await Promise.all(Array.from({ length: jobs }, () => feedThread(plain, take, handleOutcome)));
  return sums.report();
}

/** One thread, one seed at a time; it ends when there is none left. */
async function feedThread(
  options: Omit<CampaignOptions, "onSeed" | "stopping">,
  take: () => number | null,
  handleOutcome: (outcome: SeedOutcome) => void,
): Promise<void> {
  const thread = new Worker(new URL("./campaign-thread.ts", import.meta.url), { workerData: options });
  try {
    for (let seed = take(); seed !== null; seed = take()) {
      thread.postMessage(seed);
      const [outcome] = (await once(thread, "message")) as [SeedOutcome];
      handleOutcome(outcome);
    }
  } finally {
    await thread.terminate();
  }
}

class CampaignTotals {
  readonly #profile: FaultProfile;
  readonly #totals = { seeds: 0, simulatedMs: 0, events: 0, observations: 0, runs: 0, tasks: 0, starts: 0 };
  readonly #faults: Record<string, number> = {};
  readonly #eventCounts: Record<string, number> = {};
  readonly #checkedCounts: Record<string, number> = {};
  readonly #violations: CampaignViolation[] = [];
  readonly #differingSeeds: number[] = [];

  constructor(profile: FaultProfile) {
    this.#profile = profile;
  }

  add({ report, saw, violations, differs }: SeedOutcome): void {
    this.#totals.seeds++;
    for (const name of ["simulatedMs", "events", "observations", "runs", "tasks", "starts"] as const)
      this.#totals[name] += report[name];
    addCounts(this.#faults, report.faults);
    addCounts(this.#eventCounts, report.sometimes);
    addCounts(this.#checkedCounts, saw);
    this.#violations.push(...violations);
    if (differs !== null) this.#differingSeeds.push(report.seed);
  }

  report(): CampaignReport {
    const groups: readonly string[] = profiles[this.#profile];
    const possible = faultKinds.filter((kind: FaultKind) => groups.includes(faultTable[kind].group));
    return {
      ...this.#totals,
      faults: this.#faults,
      neverStruck: possible.filter((kind) => (this.#faults[kind] ?? 0) === 0),
      sometimes: this.#eventCounts,
      saw: this.#checkedCounts,
      sawNothing: checkerNamesFor(this.#profile === "workflow").filter((name) => (this.#checkedCounts[name] ?? 0) === 0),
      violations: this.#violations.toSorted((a, b) => a.seed - b.seed),
      differing: this.#differingSeeds.toSorted((a, b) => a - b),
    };
  }
}

function addCounts(sums: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + count;
}

/** Worlds a shrinking may play. Each is quick, and a schedule rarely has more than some dozens of events. */
export const shrinkTriesMax = 400;

/** Delta debugging: leaves out parts, large ones first, while the rest still fails. `fails` must be true of the whole. */
export async function shrinkSchedule<T>(
  whole: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
): Promise<{ readonly items: readonly T[]; readonly tries: number }> {
  let items = whole;
  let tries = 0;
  const stillFails = async (fewer: readonly T[]): Promise<boolean> => tries++ < shrinkTriesMax && (await fails(fewer));
  // Often the faults have nothing to do with it.
  if (items.length > 0 && (await stillFails([]))) return { items: [], tries };
  for (let parts = 2; items.length > 1 && tries < shrinkTriesMax; ) {
    const size = Math.ceil(items.length / parts);
    let fewer: readonly T[] | null = null;
    for (let from = 0; from < items.length && fewer === null; from += size) {
      const rest = [...items.slice(0, from), ...items.slice(from + size)];
      if (rest.length < items.length && (await stillFails(rest))) fewer = rest;
    }
    if (fewer !== null) {
      items = fewer;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(items.length, parts * 2);
  }
  return { items, tries: Math.min(tries, shrinkTriesMax) };
}
