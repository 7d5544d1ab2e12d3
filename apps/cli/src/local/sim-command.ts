// `astra sim`: runs seeds in the simulator and reports violated guarantees. The simulator is loaded by name; see app-loader.ts.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Switches, TextInput } from "../api/command-context.ts";
import { type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import type { Terminal } from "../output/terminal.ts";
import {
  type FoundViolation,
  loadSimulator,
  type SimulatedSeed,
  type SimulationReport,
  type SimulatorModule,
} from "./app-loader.ts";

interface SimulationFlags
  extends TextInput<"profile", "seeds" | "plant">,
    Switches<"story" | "shrink" | "twice" | "save" | "refuseResume" | "json"> {
  readonly seed?: number;
  readonly jobs: number;
}

interface SimulationContext {
  readonly terminal: Terminal;
  readonly stopSignal: AbortSignal;
}

const seedsDefault = "1..200";
const barCells = 24;
const redrawMs = 100;
const logEveryMs = 10_000;
const repositoryRoot = fileURLToPath(new URL("../../../../", import.meta.url));

export async function runSimulation(context: SimulationContext, flags: SimulationFlags): Promise<ExitCode> {
  const range = parseSeedRange(flags);
  const sim = await loadSimulator();
  requireKnownName("profile", flags.profile, sim.profiles);
  if (flags.plant !== undefined) requireKnownName("plant", flags.plant, sim.mutants);
  if (flags.save && flags.plant !== undefined) throw usageFailure("A mutant is no regression; use either --save or --plant.");
  return flags.story ? await printStory(flags, range, sim, context) : await runCampaign(flags, range, sim, context);
}

type SeedRange = Readonly<Record<"from" | "to", number>>;

function parseSeedRange({ seeds, seed, story }: SimulationFlags): SeedRange {
  if (seed !== undefined && seeds !== undefined) throw usageFailure("Use either --seed or --seeds.");
  if (story && seed === undefined) throw usageFailure("--story needs a single seed.", "astra sim --seed 7 --story");
  if (seed !== undefined) return { from: seed, to: seed };
  const text = seeds ?? seedsDefault;
  const match = /^(\d{1,9})\.\.(\d{1,9})$/.exec(text);
  const [from, to] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || from > to) throw usageFailure(`--seeds "${text}" is not a range.`, `astra sim --seeds ${seedsDefault}`);
  return { from, to };
}

function requireKnownName(what: string, name: string, known: Readonly<Record<string, unknown>>): void {
  if (Object.hasOwn(known, name)) return;
  throw usageFailure(`Unknown ${what} "${name}"; use one of ${Object.keys(known).join(", ")}.`);
}

const seedRequest = ({ profile, plant, refuseResume = false }: SimulationFlags) => ({
  profile,
  isResumeRefused: refuseResume,
  ...(plant !== undefined && { plant }),
});

async function printStory(
  flags: SimulationFlags,
  { from }: SeedRange,
  sim: SimulatorModule,
  { terminal }: SimulationContext,
): Promise<ExitCode> {
  const story = await sim.traceSeed({ seed: from, ...seedRequest(flags) });
  for (const line of story) terminal.print(sim.describeTraceLine(line));
  return exitCodes.ok;
}

async function runCampaign(
  flags: SimulationFlags,
  { from, to }: SeedRange,
  sim: SimulatorModule,
  { terminal, stopSignal }: SimulationContext,
): Promise<ExitCode> {
  const { plant, json } = flags;
  const startedAt = performance.now();
  const count = { seeds: 0, total: to - from + 1, violations: 0, simulatedMs: 0 };
  let shownAt = 0;
  const showProgress = (everyMs: number): void => {
    const ms = performance.now() - startedAt;
    if (ms - shownAt < everyMs) return;
    shownAt = ms;
    const line = formatCampaignProgress(count, ms, terminal);
    if (terminal.isInteractive) terminal.draw([line]);
    else terminal.info(line);
  };
  const onSeed = ({ report, violations, differs }: SimulatedSeed): void => {
    count.seeds++;
    count.violations += violations.length;
    count.simulatedMs += report.simulatedMs;
    if (json) terminal.print(JSON.stringify({ seed: report.seed, traceHash: report.traceHash, differs, violations }));
    else showProgress(terminal.isInteractive ? redrawMs : logEveryMs);
  };
  const report = await sim.runCampaign({
    from,
    to,
    ...seedRequest(flags),
    twice: flags.twice ?? false,
    shrink: flags.shrink === true || flags.save === true,
    jobs: flags.jobs,
    isFirstEnough: plant !== undefined,
    stopping: stopSignal,
    onSeed,
  });
  if (terminal.isInteractive && !json && count.seeds > 0) showProgress(0);
  terminal.finishDrawing();
  const ms = performance.now() - startedAt;
  if (json) terminal.print(JSON.stringify({ summary: true, ms: Math.round(ms), profile: flags.profile, ...report }));
  else {
    for (const found of report.violations) for (const line of sim.describeViolation(found)) terminal.print(line);
    for (const line of sim.describeCampaign(report, ms)) terminal.print(line);
  }
  if (flags.save) saveRegressions(report.violations, sim, terminal);
  if (plant !== undefined) return checkMutantCaught(plant, report, terminal);
  return report.violations.length + report.differing.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** A mutant must be caught: not finding it is the failure. */
function checkMutantCaught(plant: string, { violations, seeds }: SimulationReport, terminal: Terminal): ExitCode {
  const [first] = violations;
  if (first === undefined) {
    terminal.info(`${plant} was not caught in ${formatCount(seeds, "seed")}`);
    return exitCodes.failed;
  }
  terminal.info(
    `${plant} was caught by ${first.checker} (${first.invariant}) in seed ${first.seed}, after ${formatCount(seeds, "seed")}`,
  );
  return exitCodes.ok;
}

function saveRegressions(found: readonly FoundViolation[], sim: SimulatorModule, terminal: Terminal): void {
  const simulatorFolder = join(repositoryRoot, "packages", "sim");
  if (!existsSync(simulatorFolder))
    throw usageFailure(`${simulatorFolder} does not exist; --save works only inside the repository.`);
  for (const one of found) {
    const { name, text } = sim.toRegression(one);
    const file = join(simulatorFolder, "regressions", name);
    mkdirSync(join(simulatorFolder, "regressions"), { recursive: true });
    writeFileSync(file, text);
    terminal.info(`saved ${relative(process.cwd(), file)}`);
  }
}

type CampaignProgress = Readonly<Record<"seeds" | "total" | "violations" | "simulatedMs", number>>;

/** A bar on a terminal, a line now and then in a pipe. */
export function formatCampaignProgress(
  { seeds, total, violations, simulatedMs }: CampaignProgress,
  ms: number,
  { isInteractive: isLive, colors }: Terminal,
): string {
  const rate = seeds / Math.max(0.001, ms / 1_000);
  const left = Math.ceil((total - seeds) / Math.max(0.001, rate));
  const full = Math.round((seeds / total) * barCells);
  const bar = isLive ? `${colors.blue("━".repeat(full))}${colors.dim("─".repeat(barCells - full))} ` : "";
  const broken = violations === 0 ? "no violations" : colors.red(`${violations} violations`);
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  return `${bar}${seeds} of ${total} seeds · ${rate.toFixed(1)} a second · ${left} s left · ${hours} simulated hours · ${broken}`;
}
