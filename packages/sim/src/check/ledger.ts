// I51: the books balance. Of a run that has ended everything that was given to a worker has come to its one end; the figures are those that
// anybody counts in the log, no handler has started that they do not know, and stretches of the log add up to the sum of all runs.

import type { Bench, Checker } from "./checker.ts";
import type { Fact, LogBook } from "./log-book.ts";

interface Figures {
  readonly accepted: number;
  readonly finished: number;
  readonly open: number;
  readonly attempts: number;
  readonly repeated: number;
  readonly refusedLate: number;
  readonly lost: number;
  readonly twice: number;
}
const sums = ["accepted", "finished", "attempts", "repeated", "refusedLate"] as const;
type Sums = Record<(typeof sums)[number], number>;

interface Page {
  readonly figures: Figures;
  readonly from: number;
  readonly to: number;
  readonly next: number | null;
  readonly asOf: number;
}

export function ledger({ fail, lives, scene }: Bench, book: LogBook): Checker {
  const runs = new Map<string, { readonly tenant: string; readonly figures: Figures; readonly asOf: number }>();
  const pages = new Map<string, Page[]>();
  /** Tasks whose handlers were seen to start, by run. */
  const started = new Map<string, Set<string>>();
  let isInTime = true;
  let saw = 0;

  const judgeRun = (
    run: string,
    { tenant, figures, asOf }: { readonly tenant: string; readonly figures: Figures; readonly asOf: number },
  ): string | null => {
    const life = lives.run(run);
    // Outcomes may be refused as late after the log was read for the last time.
    if (book.knownTo(tenant) < asOf) return null;
    if (life === undefined) return "has a ledger, and the log does not know it";
    saw++;
    const counted = count(life.facts.filter(({ position }) => position <= asOf));
    for (const name of sums)
      if (figures[name] !== counted[name]) return `has ${name} ${figures[name]} in its ledger; the log has ${counted[name]}`;
    const startedHere = started.get(run)?.size ?? 0;
    if (figures.accepted < startedHere) return `has accepted ${figures.accepted}, and handlers of ${startedHere} tasks started`;
    if (life.end === null) return null;
    const { accepted, finished, open, lost, twice } = figures;
    if (open !== 0 || lost !== 0 || twice !== 0 || finished !== accepted)
      return `is ${life.end} with accepted ${accepted}, finished ${finished}, open ${open}, lost ${lost}, twice ${twice}`;
    return null;
  };

  const judgePages = (tenant: string, list: readonly Page[]): string | null => {
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
    for (const name of sums) {
      if (name === "refusedLate" && !isStill) continue;
      const [stretches, total] = [add(list, name), add(own, name)];
      saw++;
      if (stretches !== total) return `has ${name} ${stretches} in all stretches and ${total} in all runs`;
    }
    return null;
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "phase" && seen.phase === "converged") isInTime = seen.isInTime !== false;
      if (seen.kind !== "handler" || seen.event !== "starts") return;
      const tasks = started.get(seen.run) ?? new Set();
      started.set(seen.run, tasks.add(seen.task));
    },
    exchange({ call, answer }) {
      if (answer.status !== 200) return;
      if (call.route === "getRunLedger") {
        const { figures, asOf } = answer.body as Page;
        runs.set(call.params["runId"] ?? "", { tenant: call.tenant, figures, asOf });
      }
      if (call.route === "getLedger") pages.set(call.tenant, [...(pages.get(call.tenant) ?? []), answer.body as Page]);
    },
    end() {
      for (const [run, seen] of runs) {
        const problem = judgeRun(run, seen);
        if (problem !== null) return fail(`run ${run} ${problem}`, [run]);
      }
      // Where things still go on, they go on between two reads.
      if (!isInTime || scene.phase !== "end") return;
      for (const [tenant, list] of pages) {
        const problem = judgePages(tenant, list);
        if (problem !== null) return fail(`the ledger of ${tenant} ${problem}`, [tenant]);
      }
    },
  };
}

const ends = new Set(["task.succeeded", "task.failed", "task.cancelled", "task.skipped"]);

function count(facts: readonly Fact[]): Sums {
  const grants = facts.filter(({ type }) => type === "task.granted");
  const given = new Set(grants.map(({ data }) => data["task"]));
  const ended = new Set(facts.flatMap(({ type, data }) => (ends.has(type) ? [data["task"]] : [])));
  return {
    accepted: given.size,
    finished: [...given].filter((task) => ended.has(task)).length,
    attempts: grants.length,
    repeated: grants.length - given.size,
    refusedLate: facts.filter(({ type }) => type === "task.refused").length,
  };
}

const add = (list: readonly { readonly figures: Figures }[], name: (typeof sums)[number]): number =>
  list.reduce((sum, { figures }) => sum + figures[name], 0);
