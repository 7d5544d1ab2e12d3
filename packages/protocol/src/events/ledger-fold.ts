// The ledger, counted from facts. Figures of consecutive ranges add up, except `lost` and `twice`, which only see one range.

import type { LedgerFigures } from "../rest/bodies/run-part-bodies.ts";

export interface LedgerFact {
  readonly type: string;
  /** `run/<run id>` for facts of a run. */
  readonly subject: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The state between two pages of facts. */
export interface LedgerState {
  readonly figures: LedgerFigures;
  /** Tasks that were given to a worker and have not ended, by run. */
  readonly openTasks: ReadonlyMap<string, ReadonlySet<string>>;
  readonly endedTasks: ReadonlyMap<string, ReadonlySet<string>>;
}

const taskEndFacts: ReadonlySet<string> = new Set(["task.succeeded", "task.failed", "task.cancelled", "task.skipped"]);
const runEndFacts: ReadonlySet<string> = new Set(["run.succeeded", "run.failed", "run.cancelled"]);
const zeroFigures: LedgerFigures = {
  accepted: 0,
  finished: 0,
  open: 0,
  attempts: 0,
  repeated: 0,
  refusedLate: 0,
  lost: 0,
  twice: 0,
};

/** A ledger over several pages of facts that follow those of `before`, which is copied once and not changed. */
export class LedgerFold {
  readonly #openTasks: Map<string, Set<string>>;
  readonly #endedTasks: Map<string, Set<string>>;
  readonly #figures: LedgerFigures;

  constructor(before: LedgerState | null) {
    this.#openTasks = copySets(before?.openTasks);
    this.#endedTasks = copySets(before?.endedTasks);
    this.#figures = { ...(before?.figures ?? zeroFigures) };
  }

  add(facts: Iterable<LedgerFact>): this {
    for (const fact of facts) this.#apply(fact);
    return this;
  }

  /** The ledger after all added facts; nothing may be added afterwards. */
  finish(): LedgerState {
    const figures = { ...this.#figures, open: this.#figures.accepted - this.#figures.finished };
    return { figures, openTasks: this.#openTasks, endedTasks: this.#endedTasks };
  }

  #apply({ type, subject, data }: LedgerFact): void {
    if (!subject.startsWith("run/")) return;
    const figures = this.#figures;
    const task = typeof data["task"] === "string" ? data["task"] : "";
    if (type === "task.granted") {
      figures.attempts++;
      // The grant before was never acked: nothing has run since the attempt was counted.
      const isCounted = data["isRedelivery"] === true;
      if (data["attempt"] === 1 && !isCounted) figures.accepted++;
      else if (!isCounted) figures.repeated++;
      addToSet(this.#openTasks, subject, task);
    }
    // Its worker had lost the outcome and ran it once more under the same grant.
    if (type === "task.repeated") {
      figures.attempts++;
      figures.repeated++;
    }
    if (type === "task.refused") figures.refusedLate++;
    if (taskEndFacts.has(type)) {
      // Without a fence it was never given to a worker: a host, a pin, or an excluded node.
      if (typeof data["fence"] === "number" && data["fence"] > 0) figures.finished++;
      if (this.#endedTasks.get(subject)?.has(task) === true) figures.twice++;
      addToSet(this.#endedTasks, subject, task);
      this.#openTasks.get(subject)?.delete(task);
    }
    if (runEndFacts.has(type)) figures.lost += this.#openTasks.get(subject)?.size ?? 0;
  }
}

const copySets = (sets: ReadonlyMap<string, ReadonlySet<string>> | undefined): Map<string, Set<string>> =>
  new Map([...(sets ?? [])].map(([key, set]) => [key, new Set(set)]));

function addToSet(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}
