// Prints the figures of the postgres bench: a line per contender, ratios round by round, the cost of a task and of a turn, the plans.

import { formatInteger, formatRange, median } from "../harness/statistics.ts";
import type { ContenderRound } from "./contenders.ts";
import type { QueryPlan } from "./query-plans.ts";

export interface PostgresFigures {
  readonly where: string;
  readonly shape: Readonly<Record<string, number>>;
  /** One small transaction after the other without other load: every turn waits at least that long. */
  readonly commitMs: number;
  /** Finished tasks in the database `past`. */
  readonly stored: number;
  readonly rounds: Readonly<Record<string, readonly ContenderRound[]>>;
  readonly plans: readonly QueryPlan[];
}

const contenderTitles: Readonly<Record<string, string>> = {
  one: "one scheduler, chains",
  two: "two schedulers, chains",
  past: "one, chains, long past",
  "one-single": "one scheduler, single tasks",
  "two-single": "two schedulers, single tasks",
  "one-1-turn": "one, chains, 1 turn in flight",
  peer: "graphile-worker, one process",
  "peer-two": "graphile-worker, two processes",
  "peer-window": "graphile-worker, our window",
  "peer-window-two": "the same, two processes",
};

/** Numerator, denominator, and what is asked of the ratio. */
const comparedRatios: readonly (readonly [string, string, string])[] = [
  ["one", "peer", "goal >= 1"],
  ["two", "peer-two", ""],
  ["one-single", "peer", ""],
  ["two-single", "peer-two", ""],
  ["one", "peer-window", ""],
  ["two", "peer-window-two", ""],
  ["two", "one", "goal >= 1"],
  ["two-single", "one-single", ""],
  ["peer-two", "peer", "the peer's own"],
  ["one", "one-1-turn", "turns that overlap"],
  ["past", "one", "growth, goal >= 0.9"],
];

export function showPostgres(figures: PostgresFigures): void {
  const { shape } = figures;
  console.log(
    `chains of ${shape["chain"]}, ${shape["inFlight"]} in flight and ${shape["workers"]} workers a scheduler, ${shape["turnsInFlight"]} turns in flight unless noted otherwise; ${formatInteger(figures.stored)} finished tasks in the long past; a transaction alone takes ${figures.commitMs.toFixed(2)} ms`,
  );
  for (const [name, rounds] of Object.entries(figures.rounds)) showContender(contenderTitles[name] ?? name, rounds);
  for (const [above, below, goal] of comparedRatios) showRatio(figures, above, below, goal);
  for (const [name, rounds] of Object.entries(figures.rounds)) showCosts(contenderTitles[name] ?? name, rounds);
  showPlans(figures.plans);
}

function showContender(title: string, rounds: readonly ContenderRound[]): void {
  const of = (name: "rate" | "clientUs" | "serverUs" | "walBytes" | "commitsPerSecond") => rounds.map((one) => one[name]);
  const perTurn = rounds.map(({ tasks, sums }) => tasks / (sums?.turns ?? Number.NaN));
  const turns =
    rounds[0]?.sums === null
      ? ""
      : `, ${formatInteger(median(of("commitsPerSecond")))} commits/s of ${formatInteger(median(perTurn))} tasks`;
  console.log(
    `${title.padEnd(31)} ${formatInteger(median(of("rate"))).padStart(7)} lives/s (${formatRange(of("rate"))}); a task: processes ${formatInteger(median(of("clientUs")))} us, server ${formatInteger(median(of("serverUs")))} us, ${formatInteger(median(of("walBytes")))} bytes of log${turns}`,
  );
}

function showRatio({ rounds }: PostgresFigures, above: string, below: string, goal: string): void {
  const [upper = [], lower = []] = [rounds[above], rounds[below]];
  if (upper.length === 0 || lower.length === 0) return;
  const each = upper.map(({ rate }, at) => rate / (lower[at]?.rate ?? Number.NaN));
  const range = `${Math.min(...each).toFixed(2)}..${Math.max(...each).toFixed(2)}`;
  console.log(
    `ratio ${median(each).toFixed(2)} (${range})  ${contenderTitles[above]} / ${contenderTitles[below]}${goal === "" ? "" : ` (${goal})`}`,
  );
}

/** What the store itself counted. */
function showCosts(title: string, rounds: readonly ContenderRound[]): void {
  const stored = rounds.flatMap(({ sums, tasks }) => (sums === null ? [] : [{ ...sums, tasks }]));
  if (stored.length === 0) return;
  const names = ["statements", "roundTrips", "rows"] as const;
  const say = (per: "tasks" | "turns", digits: number) =>
    names.map((name) => `${median(stored.map((one) => one[name] / one[per])).toFixed(digits)} ${name}`).join(", ");
  console.log(`${title.padEnd(31)} a turn: ${say("turns", 2)}; a task: ${say("tasks", 3)}`);
}

function showPlans(plans: readonly QueryPlan[]): void {
  const large = /on (run|task|event):/;
  const shown = plans.filter(({ scans, problem }) => problem !== null || scans.some((scan) => large.test(scan)));
  console.log(`plans, with the rows they looked at: ${plans.length} statements, those on runs, tasks and the log:`);
  for (const { asker, statement, scans, problem } of shown) {
    console.log(`  ${asker}: ${statement}`);
    console.log(`    ${scans.filter((scan) => large.test(scan)).join("; ")}${problem === null ? "" : `  <- ${problem}`}`);
  }
}
