// `astra sim`: plays seeds of the simulated world and says which promises were broken. The world is loaded when asked for, by name and by the few
// functions below; what it is and how it judges is not known here.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSim } from "./app-loader.ts";
import { type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { drawSimProgress, type SimCount } from "./sim-command-progress.ts";
import type { Terminal } from "./terminal.ts";

export interface SimWords {
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

/** A broken promise, as far as it is looked at here. */
interface Found {
  readonly seed: number;
  readonly checker: string;
  readonly invariant: string;
  readonly message: string;
}

interface SeedOutcome {
  readonly report: { readonly seed: number; readonly traceHash: string; readonly simulatedMs: number; readonly events: number };
  readonly violations: readonly Found[];
  readonly differs: string | null;
}

interface CampaignReport {
  readonly seeds: number;
  readonly violations: readonly Found[];
  readonly differing: readonly number[];
}

interface SeedWish {
  readonly seed: number;
  readonly profile: string;
  readonly plant?: string;
  readonly isResumeRefused: boolean;
}

/** What the world's room promises the command line. */
export interface SimRoom {
  readonly profiles: Readonly<Record<string, unknown>>;
  readonly mutants: Readonly<Record<string, unknown>>;
  runCampaign(wish: {
    from: number;
    to: number;
    profile: string;
    plant?: string;
    isResumeRefused: boolean;
    twice: boolean;
    shrink: boolean;
    jobs: number;
    isFirstEnough: boolean;
    stopping: AbortSignal;
    onSeed: (seed: SeedOutcome) => void;
  }): Promise<CampaignReport>;
  traceSeed(wish: SeedWish): Promise<readonly { readonly at: number; readonly text: string }[]>;
  describeTraceLine(line: { readonly at: number; readonly text: string }): string;
  describeCampaign(report: CampaignReport, ms: number): string[];
  describeViolation(found: Found): string[];
  toRegression(found: Found): { readonly name: string; readonly text: string };
}

interface Place {
  readonly terminal: Terminal;
  readonly stopping: AbortSignal;
}

const seedsDefault = "1..200";
const root = fileURLToPath(new URL("../../../", import.meta.url));

export async function runSim(words: SimWords, place: Place): Promise<ExitCode> {
  const range = readSeeds(words);
  const sim = await loadSim();
  refuseUnknown("profile", words.profile, sim.profiles);
  if (words.plant !== undefined) refuseUnknown("plant", words.plant, sim.mutants);
  if (words.isSaved && words.plant !== undefined)
    throw usageFailure("A planted bug is no regression; leave out --save or --plant.");
  return words.isStory ? await tellStory(words, range, sim, place) : await runCampaign(words, range, sim, place);
}

interface Range {
  readonly from: number;
  readonly to: number;
}

function readSeeds({ seeds, seed, isStory }: SimWords): Range {
  if (seed !== undefined && seeds !== undefined) throw usageFailure("Say either --seed or --seeds.");
  if (isStory && seed === undefined) throw usageFailure("A story is told of one seed.", "astra sim --seed 7 --story");
  if (seed !== undefined) return { from: seed, to: seed };
  const text = seeds ?? seedsDefault;
  const cut = /^(\d{1,9})\.\.(\d{1,9})$/.exec(text);
  const [from, to] = [Number(cut?.[1]), Number(cut?.[2])];
  if (cut === null || from > to) throw usageFailure(`--seeds "${text}" is no range.`, `astra sim --seeds ${seedsDefault}`);
  return { from, to };
}

function refuseUnknown(what: string, word: string, known: Readonly<Record<string, unknown>>): void {
  if (Object.hasOwn(known, word)) return;
  throw usageFailure(`There is no ${what} "${word}"; there are ${Object.keys(known).join(", ")}.`);
}

async function tellStory(words: SimWords, { from }: Range, sim: SimRoom, { terminal }: Place): Promise<ExitCode> {
  const { profile, plant, isResumeRefused } = words;
  const story = await sim.traceSeed({ seed: from, profile, isResumeRefused, ...(plant !== undefined && { plant }) });
  for (const line of story) terminal.print(sim.describeTraceLine(line));
  return exitCodes.ok;
}

async function runCampaign(words: SimWords, { from, to }: Range, sim: SimRoom, { terminal, stopping }: Place): Promise<ExitCode> {
  const { plant, json } = words;
  const began = performance.now();
  const count: SimCount = { seeds: 0, of: to - from + 1, violations: 0, simulatedMs: 0, events: 0 };
  const progress = drawSimProgress(terminal, () => performance.now() - began);
  const onSeed = (outcome: SeedOutcome): void => {
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
    profile: words.profile,
    ...(plant !== undefined && { plant }),
    isResumeRefused: words.isResumeRefused,
    twice: words.isTwice,
    shrink: words.isShrunk || words.isSaved,
    jobs: words.jobs,
    isFirstEnough: plant !== undefined,
    stopping,
    onSeed,
  });
  progress.end();
  const ms = performance.now() - began;
  if (json) terminal.print(JSON.stringify({ summary: true, ms: Math.round(ms), profile: words.profile, ...report }));
  else {
    for (const found of report.violations) for (const line of sim.describeViolation(found)) terminal.print(line);
    for (const line of sim.describeCampaign(report, ms)) terminal.print(line);
  }
  if (words.isSaved) saveAll(report.violations, sim, terminal);
  if (plant !== undefined) return judgePlant(plant, report, terminal);
  return report.violations.length + report.differing.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** A planted bug is expected to be found: not finding it is the failure. */
function judgePlant(plant: string, { violations, seeds }: CampaignReport, terminal: Terminal): ExitCode {
  const [first] = violations;
  if (first === undefined) {
    terminal.say(`${plant} was not caught in ${seeds} seeds`);
    return exitCodes.failed;
  }
  terminal.say(`${plant} was caught by ${first.checker} (${first.invariant}) in seed ${first.seed}, after ${seeds} seeds`);
  return exitCodes.ok;
}

function saveAll(found: readonly Found[], sim: SimRoom, terminal: Terminal): void {
  const room = join(root, "packages", "sim");
  if (!existsSync(room)) throw usageFailure(`There is no place for regressions here (${room}); run this inside the repository.`);
  for (const one of found) {
    const { name, text } = sim.toRegression(one);
    const file = join(room, "regressions", name);
    mkdirSync(join(room, "regressions"), { recursive: true });
    writeFileSync(file, text);
    terminal.say(`saved ${relative(process.cwd(), file)}`);
  }
}
