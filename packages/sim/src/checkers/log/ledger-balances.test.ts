import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const balancedFigures = { accepted: 1, finished: 1, open: 0, attempts: 2, repeated: 1, refusedLate: 0, lost: 0, twice: 0 };
/** One task, given away twice, and a run that has succeeded. */
const endedRun = () =>
  new ObservationScript()
    .start("r1")
    .created("r1")
    .granted("r1.0", "w1", 1)
    .commitTaskFact("r1.0", "task.requeued", { fence: 2 })
    .granted("r1.0", "w2", 3, 2)
    .commitTaskFact("r1.0", "task.succeeded", { fence: 3 })
    .commit(["run/r1", "run.succeeded"])
    .read();
const showRunLedger = (script: ObservationScript, figures: object = balancedFigures, asOf = 6) =>
  script.exchange("getRunLedger", { params: { runId: "r1" } }, { status: 200, body: { runId: "r1", figures, asOf } });
const showLedgerPage = (script: ObservationScript, from: number, to: number, figures: object, next: number | null) =>
  script.exchange(
    "getLedger",
    { query: { after: String(from - 1) } },
    { status: 200, body: { figures, from, to, next, asOf: 6 } },
  );
const zeroFigures = { accepted: 0, finished: 0, open: 0, attempts: 0, repeated: 0, refusedLate: 0, lost: 0, twice: 0 };

describe("ledger", () => {
  it("[X74] the ledger checker finds a run whose figures are not those of the log, or count less than has started", () => {
    expect(passesChecker(showRunLedger(endedRun()), "ledger")).toBe(true);
    expect(violationOf(showRunLedger(endedRun(), { ...balancedFigures, attempts: 1 }), "ledger")).toContain(
      "attempts 1 in its ledger; the log has 2",
    );
    expect(violationOf(showRunLedger(endedRun(), { ...balancedFigures, refusedLate: 1 }), "ledger")).toContain("refusedLate 1");
    const unlogged = showRunLedger(endedRun().handler("starts", "w1", "r1.0", 1).handler("starts", "w1", "r1.7", 1));
    expect(violationOf(unlogged, "ledger")).toContain("handlers of 2 tasks started");
  });

  it("[X74] the ledger checker finds an ended run of which something is open, lost or was ended twice", () => {
    for (const wrong of [{ open: 1 }, { lost: 1 }, { twice: 1 }])
      expect(violationOf(showRunLedger(endedRun(), { ...balancedFigures, ...wrong }), "ledger")).toContain(
        "is succeeded with accepted 1, finished 1",
      );
  });

  it("[X74] the ledger checker finds ledger pages that leave a gap or do not add up to all runs", () => {
    const end = (script: ObservationScript) => script.phase("converged", true).phase("end");
    const half = { ...zeroFigures, accepted: 1, attempts: 1 };
    const rest = { ...zeroFigures, finished: 1, attempts: 1, repeated: 1 };

    expect(
      passesChecker(end(showLedgerPage(showLedgerPage(showRunLedger(endedRun()), 1, 3, half, 3), 4, 6, rest, null)), "ledger"),
    ).toBe(true);
    expect(
      violationOf(end(showLedgerPage(showLedgerPage(showRunLedger(endedRun()), 1, 3, half, 3), 5, 6, rest, null)), "ledger"),
    ).toContain("goes on at 5");
    expect(violationOf(end(showLedgerPage(showRunLedger(endedRun()), 1, 5, balancedFigures, null)), "ledger")).toContain(
      "ends at 5, true at 6",
    );
    expect(
      violationOf(end(showLedgerPage(showLedgerPage(showRunLedger(endedRun()), 1, 3, half, 3), 4, 6, half, null)), "ledger"),
    ).toContain("accepted 2 in all stretches and 1 in all runs");
  });
});
