// The findings of a campaign as text and as files: the figures, each violation with its schedule and trace, and the regression that replays it.

import type { ScheduledFault } from "../observation/observation.ts";
import type { Mutant } from "../scheduler/mutants.ts";
import { type CampaignReport, type CampaignViolation, checkSeed } from "./campaign.ts";

/** A seed that once broke a promise, with the faults it needed. What the seed draws may change with the world; the file says what was drawn then. */
export interface Regression extends Pick<CampaignViolation, "seed" | "profile" | "checker" | "invariant" | "schedule"> {
  /** What was wrong when it was found. */
  readonly found: string;
  /** Every resume was refused; absent where not. */
  readonly isResumeRefused?: boolean;
}

export function toRegression(found: CampaignViolation): { name: string; text: string } {
  const { seed, profile, checker, invariant, message, schedule, isResumeRefused } = found;
  const how = { ...(isResumeRefused && { isResumeRefused }) };
  const regression: Regression = { seed, profile, checker, invariant, found: message, schedule, ...how };
  const where = profile === "default" ? "" : `${profile}-`;
  return { name: `${where}${seed}-${checker}.json`, text: `${JSON.stringify(regression, null, 2)}\n` };
}

/** Plays a regression again; gives what any checker finds wrong now. */
export async function replayRegression(regression: Regression, mutant: Mutant | null = null): Promise<readonly string[]> {
  const { seed, profile, schedule, isResumeRefused = false } = regression;
  const trial = { seed, profile, isResumeRefused, plant: mutant };
  const { violations } = await checkSeed(schedule === null ? trial : { ...trial, schedule });
  return violations.map(({ checker, message }) => `${checker}: ${message}`);
}

const formatInteger = (count: number): string => Math.round(count).toLocaleString("en-US");

/** The figures, one a line. `ms` is how long it took. */
export function describeCampaign(report: CampaignReport, ms: number): string[] {
  const { seeds, simulatedMs, events, runs, tasks, starts, faults, neverStruck, sawNothing, differing, violations } = report;
  const struck = Object.entries(faults).sort(([, a], [, b]) => b - a);
  const judged = Object.values(report.saw).reduce((sum, count) => sum + count, 0);
  return [
    `${formatInteger(seeds)} seeds in ${(ms / 1_000).toFixed(1)} s (${(seeds / (ms / 1_000)).toFixed(1)} a second), ${(simulatedMs / 3_600_000).toFixed(1)} simulated hours`,
    `${formatInteger(events)} events, ${formatInteger(runs)} runs, ${formatInteger(tasks)} tasks, ${formatInteger(starts)} handlers started, ${formatInteger(judged)} things judged`,
    ...describeSessionCounts(report.sometimes),
    `${formatInteger(struck.reduce((sum, [, count]) => sum + count, 0))} faults: ${struck.map(([name, count]) => `${name} ${formatInteger(count)}`).join(", ") || "none"}`,
    ...(neverStruck.length > 0 ? [`faults that never occurred: ${neverStruck.join(", ")}`] : []),
    ...(sawNothing.length > 0 ? [`checkers with nothing to check: ${sawNothing.join(", ")}`] : []),
    ...(differing.length > 0 ? [`played differently the second time: ${differing.join(", ")}`] : []),
    violations.length === 0
      ? "no violations"
      : `${violations.length} violations in ${new Set(violations.map(({ seed }) => seed)).size} seeds`,
  ];
}

function describeSessionCounts(sometimes: CampaignReport["sometimes"]): string[] {
  const mark = "session: ";
  const counts = Object.entries(sometimes).flatMap(([name, count]) =>
    name.startsWith(mark) ? [`${name.slice(mark.length)} ${formatInteger(count)}`] : [],
  );
  return counts.length === 0 ? [] : [`sessions: ${counts.sort().join(", ")}`];
}

/** One violation: what, when, the faults it needs, what led to it. */
export function describeViolation({ seed, checker, invariant, message, at, schedule, story }: CampaignViolation): string[] {
  return [
    `seed ${seed}: ${checker} (${invariant}) at ${Math.round(at)} ms: ${message}`,
    ...(schedule === null ? [] : [schedule.length === 0 ? "  needs no fault" : "  needs these faults:"]),
    ...(schedule ?? []).map((event) => `    ${describeFault(event)}`),
    ...(story.length === 0 ? [] : ["  what led to it:"]),
    ...story.map((line) => `    ${describeTraceLine(line)}`),
  ];
}

export const describeTraceLine = ({ at, text }: { readonly at: number; readonly text: string }): string =>
  `${at.toFixed(1).padStart(9)} ${text}`;

export function describeFault({ at, kind, target, ms, rate, amount, detail }: ScheduledFault): string {
  const words = [`${String(Math.round(at)).padStart(7)} ms ${kind} at ${target}`];
  if (ms !== undefined) words.push(`for ${ms} ms`);
  if (rate !== undefined) words.push(`share ${rate.toFixed(2)}`);
  if (amount !== undefined) words.push(`by ${amount}`);
  if (detail !== undefined) words.push(`(${detail})`);
  return words.join(" ");
}
