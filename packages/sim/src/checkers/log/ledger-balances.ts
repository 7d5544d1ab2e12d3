// I51: the books balance. Of a run that has ended everything that was given to a worker has come to its one end; the figures are those that
// anybody counts in the log, no handler has started that they do not know, and stretches of the log add up to the sum of all runs.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { MergedLog, ObservedFact } from "../../checking/merged-log.ts";

interface LedgerFigures {
  readonly accepted: number;
  readonly finished: number;
  readonly open: number;
  readonly attempts: number;
  readonly repeated: number;
  readonly refusedLate: number;
  readonly lost: number;
  readonly twice: number;
}
const summedFigures = ["accepted", "finished", "attempts", "repeated", "refusedLate"] as const;
type LedgerSums = Record<(typeof summedFigures)[number], number>;

interface LedgerPage {
  readonly figures: LedgerFigures;
  readonly from: number;
  readonly to: number;
  readonly next: number | null;
  readonly asOf: number;
}

export function checkLedgerBalances({ reportViolation, projection, world }: CheckerContext, mergedLog: MergedLog): Checker {
  const runs = new Map<string, { readonly tenant: string; readonly figures: LedgerFigures; readonly asOf: number }>();
  const pages = new Map<string, LedgerPage[]>();
  /** Tasks whose handlers were seen to start, by run. */
  const started = new Map<string, Set<string>>();
  let isInTime = true;
  let checkedCount = 0;

  const checkRun = (
    run: string,
    { tenant, figures, asOf }: { readonly tenant: string; readonly figures: LedgerFigures; readonly asOf: number },
  ): string | null => {
    const projected = projection.run(run);
    // Outcomes may be refused as late after the log was read for the last time.
    if (mergedLog.completeUpTo(tenant) < asOf) return null;
    if (projected === undefined) return "has a ledger, and the log does not know it";
    checkedCount++;
    const counted = countFacts(projected.facts.filter(({ position }) => position <= asOf));
    for (const name of summedFigures)
      if (figures[name] !== counted[name]) return `has ${name} ${figures[name]} in its ledger; the log has ${counted[name]}`;
    const startedHere = started.get(run)?.size ?? 0;
    if (figures.accepted < startedHere) return `has accepted ${figures.accepted}, and handlers of ${startedHere} tasks started`;
    if (projected.endStatus === null) return null;
    const { accepted, finished, open, lost, twice } = figures;
    if (open !== 0 || lost !== 0 || twice !== 0 || finished !== accepted)
      return `is ${projected.endStatus} with accepted ${accepted}, finished ${finished}, open ${open}, lost ${lost}, twice ${twice}`;
    return null;
  };

  const checkPages = (tenant: string, list: readonly LedgerPage[]): string | null => {
    let to = 0;
    for (const page of list) {
      if (page.from !== to + 1) return `goes on at ${page.from} after ${to}`;
      ({ to } = page);
    }
    const last = list.at(-1);
    if (last === undefined || last.next !== null) return null;
    if (to !== last.asOf) return `ends at ${to}, true at ${last.asOf}`;
    const own = [...runs.values()].filter((run) => run.tenant === tenant);
    const isStill = own.every(({ asOf }) => asOf === last.asOf);
    for (const name of summedFigures) {
      if (name === "refusedLate" && !isStill) continue;
      const [stretches, total] = [sumFigure(list, name), sumFigure(own, name)];
      checkedCount++;
      if (stretches !== total) return `has ${name} ${stretches} in all stretches and ${total} in all runs`;
    }
    return null;
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "phase" && observation.phase === "converged") isInTime = observation.isInTime !== false;
      if (observation.kind !== "handler" || observation.event !== "starts") return;
      const tasks = started.get(observation.run) ?? new Set();
      started.set(observation.run, tasks.add(observation.task));
    },
    onExchange({ call, answer }) {
      if (answer.status !== 200) return;
      if (call.route === "getRunLedger") {
        const { figures, asOf } = answer.body as LedgerPage;
        runs.set(call.params["runId"] ?? "", { tenant: call.tenant, figures, asOf });
      }
      if (call.route === "getLedger") pages.set(call.tenant, [...(pages.get(call.tenant) ?? []), answer.body as LedgerPage]);
    },
    onEnd() {
      for (const [run, seen] of runs) {
        const problem = checkRun(run, seen);
        if (problem !== null) return reportViolation(`run ${run} ${problem}`, [run]);
      }
      // Where things still go on, they go on between two reads.
      if (!isInTime || world.phase !== "end") return;
      for (const [tenant, list] of pages) {
        const problem = checkPages(tenant, list);
        if (problem !== null) return reportViolation(`the ledger of ${tenant} ${problem}`, [tenant]);
      }
    },
  };
}

const taskEndFacts = new Set(["task.succeeded", "task.failed", "task.cancelled", "task.skipped"]);

function countFacts(facts: readonly ObservedFact[]): LedgerSums {
  const grants = facts.filter(({ type }) => type === "task.granted");
  const given = new Set(grants.map(({ data }) => data["task"]));
  const ended = new Set(facts.flatMap(({ type, data }) => (taskEndFacts.has(type) ? [data["task"]] : [])));
  return {
    accepted: given.size,
    finished: [...given].filter((task) => ended.has(task)).length,
    attempts: grants.length,
    repeated: grants.length - given.size,
    refusedLate: facts.filter(({ type }) => type === "task.refused").length,
  };
}

const sumFigure = (list: readonly { readonly figures: LedgerFigures }[], name: (typeof summedFigures)[number]): number =>
  list.reduce((sum, { figures }) => sum + figures[name], 0);
