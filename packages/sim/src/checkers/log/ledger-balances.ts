// I51: the ledger of a run balances. Once the run has ended, every task that was accepted has exactly one end. The figures are those that anyone
// can count in the log, every handler that started is in them, and the ledgers of parts of the log add up to the ledger of the whole.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { endStatusOf } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation } from "../../observation/observation.ts";

const summedFigures = ["accepted", "finished", "attempts", "repeated", "refusedLate"] as const;
type SummedFigure = (typeof summedFigures)[number];

interface RunLedger {
  readonly tenant: string;
  readonly figures: Readonly<Record<SummedFigure | "open" | "lost" | "twice", number>>;
  readonly asOf: number;
}

interface LedgerPage extends Omit<RunLedger, "tenant"> {
  readonly from: number;
  readonly to: number;
  readonly next: number | null;
}

export class LedgerBalances extends Checker {
  readonly #runs = new Map<string, RunLedger>();
  readonly #pages = new Map<string, LedgerPage[]>();
  /** Tasks whose handlers were seen to start, by run. */
  readonly #started = new Map<string, Set<string>>();
  #isInTime = true;

  override onObservation(observation: Observation): void {
    if (observation.kind === "phase" && observation.phase === "converged") this.#isInTime = observation.isInTime !== false;
    if (observation.kind !== "handler" || observation.event !== "starts") return;
    getOrCreate(this.#started, observation.run, () => new Set()).add(observation.task);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (answer.status !== 200) return;
    if (call.route === "getRunLedger") {
      const { figures, asOf } = answer.body as LedgerPage;
      this.#runs.set(call.params["runId"] ?? "", { tenant: call.tenant, figures, asOf });
    }
    if (call.route === "getLedger") getOrCreate(this.#pages, call.tenant, () => []).push(answer.body as LedgerPage);
  }

  override onEnd(): void {
    for (const [run, seen] of this.#runs) {
      const problem = this.#checkRun(run, seen);
      if (problem !== null) return this.fail(`run ${run} ${problem}`, run);
    }
    // Where things still go on, they go on between two reads.
    if (!this.#isInTime || this.world.phase !== "end") return;
    for (const [tenant, list] of this.#pages) {
      const problem = this.#checkPages(tenant, list);
      if (problem !== null) return this.fail(`the ledger of ${tenant} ${problem}`, tenant);
    }
  }

  #checkRun(run: string, { tenant, figures, asOf }: RunLedger): string | null {
    const projected = this.projection.runs.get(run);
    // Outcomes may be refused as late after the log was read for the last time.
    if (this.mergedLog.completeUpTo(tenant) < asOf) return null;
    if (projected === undefined) return "has a ledger, and the log does not know it";
    this.checkedCount++;
    const counted = countFacts(projected.facts.filter(({ position }) => position <= asOf));
    for (const name of summedFigures)
      if (figures[name] !== counted[name]) return `has ${name} ${figures[name]} in its ledger; the log has ${counted[name]}`;
    const startedHere = this.#started.get(run)?.size ?? 0;
    if (figures.accepted < startedHere) return `has accepted ${figures.accepted}, and handlers of ${startedHere} tasks started`;
    if (projected.endStatus === null) return null;
    const { accepted, finished, open, lost, twice } = figures;
    if (open !== 0 || lost !== 0 || twice !== 0 || finished !== accepted)
      return `is ${projected.endStatus} with accepted ${accepted}, finished ${finished}, open ${open}, lost ${lost}, twice ${twice}`;
    return null;
  }

  #checkPages(tenant: string, list: readonly LedgerPage[]): string | null {
    let to = 0;
    for (const page of list) {
      if (page.from !== to + 1) return `goes on at ${page.from} after ${to}`;
      ({ to } = page);
    }
    const last = list.at(-1);
    if (last === undefined || last.next !== null) return null;
    if (to !== last.asOf) return `ends at ${to}, true at ${last.asOf}`;
    const own = [...this.#runs.values()].filter((run) => run.tenant === tenant);
    const isStill = own.every(({ asOf }) => asOf === last.asOf);
    for (const name of summedFigures) {
      if (name === "refusedLate" && !isStill) continue;
      const [stretches, total] = [sumFigure(list, name), sumFigure(own, name)];
      this.checkedCount++;
      if (stretches !== total) return `has ${name} ${stretches} in all stretches and ${total} in all runs`;
    }
    return null;
  }
}

function countFacts(facts: readonly ObservedFact[]): Record<SummedFigure, number> {
  const grants = facts.filter(({ type }) => type === "task.granted");
  const reruns = facts.filter(({ type }) => type === "task.repeated").length;
  const given = new Set(grants.map(({ data }) => data["task"]));
  const ended = new Set(facts.flatMap(({ type, data }) => (endStatusOf(type) === null ? [] : [data["task"]])));
  return {
    accepted: given.size,
    finished: [...given].filter((task) => ended.has(task)).length,
    attempts: grants.length + reruns,
    repeated: grants.filter(({ data }) => data["isRedelivery"] !== true).length - given.size + reruns,
    refusedLate: facts.filter(({ type }) => type === "task.refused").length,
  };
}

const sumFigure = (list: readonly Pick<RunLedger, "figures">[], name: SummedFigure): number =>
  list.reduce((sum, { figures }) => sum + figures[name], 0);
