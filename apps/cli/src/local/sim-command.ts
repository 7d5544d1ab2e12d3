// `astra sim`: plays seeds of the simulated world and says which promises were broken. The world is loaded when asked for, by name and by the few
// functions below; what it is and how it judges is not known here.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type CliExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";
import {
  type FoundViolation,
  loadSimulator,
  type SimulatedSeed,
  type SimulationReport,
  type SimulatorModule,
} from "./app-loader.ts";
import { type CampaignProgress, createCampaignProgressDisplay } from "./sim-progress.ts";

export interface SimulationFlags {
  readonly seeds: string | undefined;
  readonly seed: number | undefined;
  readonly profile: string;
  readonly plant: string | undefined;
  readonly isStory: boolean;
  readonly isShrunk: boolean;
  readonly isTwice: boolean;
  readonly isResumeRefused: boolean;
  readonly isSaved: boolean;
  readonly jobs: number;
  readonly json: boolean;
}

interface SimulationContext {
  readonly terminal: Terminal;
  readonly stopping: AbortSignal;
}

const seedsDefault = "1..200";
const repositoryRoot = fileURLToPath(new URL("../../../../", import.meta.url));

export async function runSimulation(flags: SimulationFlags, context: SimulationContext): Promise<CliExitCode> {
  const range = parseSeedRange(flags);
  const sim = await loadSimulator();
  requireKnownName("profile", flags.profile, sim.profiles);
  if (flags.plant !== undefined) requireKnownName("plant", flags.plant, sim.mutants);
  if (flags.isSaved && flags.plant !== undefined)
    throw usageFailure("A planted bug is no regression; leave out --save or --plant.");
  return flags.isStory ? await printStory(flags, range, sim, context) : await runCampaign(flags, range, sim, context);
}

interface SeedRange {
  readonly from: number;
  readonly to: number;
}

function parseSeedRange({ seeds, seed, isStory }: SimulationFlags): SeedRange {
  if (seed !== undefined && seeds !== undefined) throw usageFailure("Say either --seed or --seeds.");
  if (isStory && seed === undefined) throw usageFailure("A story is told of one seed.", "astra sim --seed 7 --story");
  if (seed !== undefined) return { from: seed, to: seed };
  const text = seeds ?? seedsDefault;
  const match = /^(\d{1,9})\.\.(\d{1,9})$/.exec(text);
  const [from, to] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || from > to) throw usageFailure(`--seeds "${text}" is no range.`, `astra sim --seeds ${seedsDefault}`);
  return { from, to };
}

function requireKnownName(what: string, name: string, known: Readonly<Record<string, unknown>>): void {
  if (Object.hasOwn(known, name)) return;
  throw usageFailure(`There is no ${what} "${name}"; there are ${Object.keys(known).join(", ")}.`);
}

async function printStory(
  flags: SimulationFlags,
  { from }: SeedRange,
  sim: SimulatorModule,
  { terminal }: SimulationContext,
): Promise<CliExitCode> {
  const { profile, plant, isResumeRefused } = flags;
  const story = await sim.traceSeed({ seed: from, profile, isResumeRefused, ...(plant !== undefined && { plant }) });
  for (const line of story) terminal.print(sim.describeTraceLine(line));
  return exitCodes.ok;
}

async function runCampaign(
  flags: SimulationFlags,
  { from, to }: SeedRange,
  sim: SimulatorModule,
  { terminal, stopping: stopSignal }: SimulationContext,
): Promise<CliExitCode> {
  const { plant, json } = flags;
  const startedAt = performance.now();
  const count: CampaignProgress = { seeds: 0, total: to - from + 1, violations: 0, simulatedMs: 0, events: 0 };
  const progress = createCampaignProgressDisplay(terminal, () => performance.now() - startedAt);
  const onSeed = (outcome: SimulatedSeed): void => {
    const { report, violations, differs } = outcome;
    count.seeds++;
    count.violations += violations.length;
    count.simulatedMs += report.simulatedMs;
    count.events += report.events;
    if (json) terminal.print(JSON.stringify({ seed: report.seed, traceHash: report.traceHash, differs, violations }));
    else progress.show(count);
  };
  const report = await sim.runCampaign({
    from,
    to,
    profile: flags.profile,
    ...(plant !== undefined && { plant }),
    isResumeRefused: flags.isResumeRefused,
    twice: flags.isTwice,
    shrink: flags.isShrunk || flags.isSaved,
    jobs: flags.jobs,
    isFirstEnough: plant !== undefined,
    stopping: stopSignal,
    onSeed,
  });
  progress.end();
  const ms = performance.now() - startedAt;
  if (json) terminal.print(JSON.stringify({ summary: true, ms: Math.round(ms), profile: flags.profile, ...report }));
  else {
    for (const found of report.violations) for (const line of sim.describeViolation(found)) terminal.print(line);
    for (const line of sim.describeCampaign(report, ms)) terminal.print(line);
  }
  if (flags.isSaved) saveRegressions(report.violations, sim, terminal);
  if (plant !== undefined) return checkMutantCaught(plant, report, terminal);
  return report.violations.length + report.differing.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** A planted bug is expected to be found: not finding it is the failure. */
function checkMutantCaught(plant: string, { violations, seeds }: SimulationReport, terminal: Terminal): CliExitCode {
  const [first] = violations;
  if (first === undefined) {
    terminal.info(`${plant} was not caught in ${seeds} seeds`);
    return exitCodes.failed;
  }
  terminal.info(`${plant} was caught by ${first.checker} (${first.invariant}) in seed ${first.seed}, after ${seeds} seeds`);
  return exitCodes.ok;
}

function saveRegressions(found: readonly FoundViolation[], sim: SimulatorModule, terminal: Terminal): void {
  const simulatorFolder = join(repositoryRoot, "packages", "sim");
  if (!existsSync(simulatorFolder))
    throw usageFailure(`There is no place for regressions here (${simulatorFolder}); run this inside the repository.`);
  for (const one of found) {
    const { name, text } = sim.toRegression(one);
    const file = join(simulatorFolder, "regressions", name);
    mkdirSync(join(simulatorFolder, "regressions"), { recursive: true });
    writeFileSync(file, text);
    terminal.info(`saved ${relative(process.cwd(), file)}`);
  }
}
