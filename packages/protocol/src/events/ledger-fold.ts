// The ledger: what was given to workers, what came of it and what was refused, counted from facts. Figures of consecutive ranges of a log
// can be added, except `lost` and `twice`, which only see one range.

/** One fact of any subject of a tenant's log. */
export interface LedgerFact {
  readonly type: string;
  /** `run/<run id>` for facts of a run. */
  readonly subject: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface LedgerFigures {
  /** Tasks that were given to a worker for the first time. */
  readonly accepted: number;
  /** Tasks that ended after they were given to a worker. */
  readonly finished: number;
  /** The difference; can be negative for a range that starts mid-run. */
  readonly open: number;
  /** Dispatches in all, and those that were not the first of their task. */
  readonly attempts: number;
  readonly repeated: number;
  /** Outcomes that came after another had been accepted, or under an older fence. */
  readonly refusedLate: number;
  /** Tasks given to a worker that had not ended when their run ended. */
  readonly lost: number;
  /** Outcomes accepted after a task already had one. */
  readonly twice: number;
}

/** The state between two pages of facts. */
export interface LedgerState {
  readonly figures: LedgerFigures;
  /** Tasks that were given to a worker and have not ended, by run. */
  readonly openTasks: ReadonlyMap<string, ReadonlySet<string>>;
  /** Tasks that have ended, by run. */
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

/** The ledger after these facts, which follow those of `before`. `before` is not changed. */
export function foldLedger(before: LedgerState | null, facts: Iterable<LedgerFact>): LedgerState {
  const fold = startLedgerFold(before);
  fold.add(facts);
  return fold.finish();
}

/** A ledger over several pages of facts: its state is copied once, not once per page. */
export interface LedgerFold {
  add(facts: Iterable<LedgerFact>): void;
  /** The ledger after all added facts; nothing may be added afterwards. */
  finish(): LedgerState;
}

export function startLedgerFold(before: LedgerState | null): LedgerFold {
  const openTasks = copySets(before?.openTasks);
  const endedTasks = copySets(before?.endedTasks);
  const figures = { ...(before?.figures ?? zeroFigures) };

  const applyFact = ({ type, subject, data }: LedgerFact): void => {
    if (!subject.startsWith("run/")) return;
    const task = typeof data["task"] === "string" ? data["task"] : "";
    if (type === "task.granted") {
      figures.attempts++;
      if (data["attempt"] === 1) figures.accepted++;
      else figures.repeated++;
      addToSet(openTasks, subject, task);
    }
    if (type === "task.refused") figures.refusedLate++;
    if (taskEndFacts.has(type)) {
      // Without a fence it was never given to a worker: a host, a pin, or an excluded node.
      if (typeof data["fence"] === "number" && data["fence"] > 0) figures.finished++;
      if (endedTasks.get(subject)?.has(task) === true) figures.twice++;
      addToSet(endedTasks, subject, task);
      openTasks.get(subject)?.delete(task);
    }
    if (runEndFacts.has(type)) figures.lost += openTasks.get(subject)?.size ?? 0;
  };

  return {
    add(facts) {
      for (const fact of facts) applyFact(fact);
    },
    finish: () => ({ figures: { ...figures, open: figures.accepted - figures.finished }, openTasks, endedTasks }),
  };
}

const copySets = (sets: ReadonlyMap<string, ReadonlySet<string>> | undefined): Map<string, Set<string>> =>
  new Map([...(sets ?? [])].map(([key, set]) => [key, new Set(set)]));

function addToSet(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}
