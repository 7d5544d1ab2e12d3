import { describe, expect, it } from "vitest";
import { type LedgerFact, LedgerFold, type LedgerState } from "./ledger-fold.ts";

const foldLedger = (before: LedgerState | null, facts: readonly LedgerFact[]) => new LedgerFold(before).add(facts).finish();

const fact = (type: string, data: Record<string, unknown> = {}, subject = "run/r"): LedgerFact => ({ type, data, subject });
const grant = (task: string, attempt: number) => fact("task.granted", { task, attempt, fence: attempt });
const end = (task: string, fence = 1) => fact("task.succeeded", { task, fence, worker: "t/w" });
const noProblems = { repeated: 0, refusedLate: 0, lost: 0, twice: 0 };

describe("LedgerFold", () => {
  it("[C27] the ledger fold counts the tasks given to workers, their outcomes, and the results that were refused", () => {
    const facts = [
      fact("run.created"),
      fact("task.succeeded", { task: "r.9", fence: 0, why: "pin" }),
      grant("r.0", 1),
      fact("task.requeued", { task: "r.0", fence: 2 }),
      grant("r.0", 2),
      fact("task.refused", { task: "r.0", fence: 1, holds: 3 }),
      end("r.0"),
      grant("r.1", 1),
      fact("worker.joined", {}, "worker/t/w"),
    ];

    const { figures } = foldLedger(null, facts);

    expect(figures).toEqual({ ...noProblems, accepted: 2, finished: 1, open: 1, attempts: 3, repeated: 1, refusedLate: 1 });
  });

  it("[C27] the ledger fold counts a dispatch after one that nobody acked neither as accepted again nor as repeated", () => {
    const unacked = fact("task.requeued", { task: "r.0", fence: 2, attempt: 0 });
    const redelivered = fact("task.granted", { task: "r.0", attempt: 1, fence: 3, isRedelivery: true });

    const { figures } = foldLedger(null, [grant("r.0", 1), unacked, redelivered, end("r.0", 3)]);

    expect(figures).toEqual({ ...noProblems, accepted: 1, finished: 1, open: 0, attempts: 2 });
  });

  it("[C27] the ledger fold finds a task that ended twice, and one whose run ended without it", () => {
    const facts = [grant("r.0", 1), grant("r.1", 1), end("r.0"), end("r.0"), fact("run.succeeded")];

    expect(foldLedger(null, facts).figures).toMatchObject({ twice: 1, lost: 1 });
  });

  it("[C27] the ledger fold's counts of two parts add up to those of the whole, and a fold continued from the first part equals the whole", () => {
    const facts = [grant("r.0", 1), grant("r.1", 1), end("r.0"), grant("r.1", 2), end("r.1"), end("r.1"), fact("run.succeeded")];
    const whole = foldLedger(null, facts).figures;

    for (let cut = 0; cut <= facts.length; cut++) {
      const [one, two] = [foldLedger(null, facts.slice(0, cut)), foldLedger(null, facts.slice(cut)).figures];
      for (const name of ["accepted", "finished", "open", "attempts", "repeated", "refusedLate"] as const)
        expect(one.figures[name] + two[name]).toBe(whole[name]);
      expect(foldLedger(one, facts.slice(cut)).figures).toEqual(whole);
    }
  });

  it("[C27] the ledger fold does not change the state that it continues: several folds can be continued from one", () => {
    const before = foldLedger(null, [grant("r.0", 1), grant("r.1", 1), end("r.0")]);
    const copyOfBefore = structuredClone(before);
    const facts = [end("r.1"), grant("r.2", 1), fact("run.succeeded")];

    const [first, second] = [foldLedger(before, facts), foldLedger(before, facts)];

    expect(before).toEqual(copyOfBefore);
    expect(first.figures).toMatchObject({ twice: 0, lost: 1 });
    expect(second).toEqual(first);
  });
});
