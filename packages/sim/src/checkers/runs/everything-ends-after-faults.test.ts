import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const grantedRun = () => new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10).read();

describe("convergence", () => {
  it("[X36] the convergence checker finds runs still open after the time limit or at the end, and reports where they stand", () => {
    expect(violationOf(grantedRun().phase("heal").phase("converged", false), "convergence")).toContain("r1 (r1.0 with t1/w1)");
    expect(violationOf(grantedRun().phase("heal").phase("end"), "convergence")).toContain("not ended at the end: r1");
    const over = grantedRun()
      .commit(["run/r1", "task.succeeded", { task: "r1.0" }], ["run/r1", "run.succeeded"])
      .read();
    expect(passesChecker(over.phase("heal").phase("converged", true).phase("end"), "convergence")).toBe(true);
  });

  it("[X36] the convergence checker finds a call that is never answered once all faults have ended", () => {
    const asks = (ms: number) => new ObservationScript().phase("heal").wait(ms).exchange("listWorkers", {}, null);

    expect(asks(1_000).runChecker("convergence").violations).toEqual([]);
    expect(violationOf(asks(10_000), "convergence")).toContain(
      "listWorkers of reader on s1 was never answered after the faults ended",
    );
  });
});
