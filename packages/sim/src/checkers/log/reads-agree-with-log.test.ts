import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const runningRun = () =>
  new ObservationScript().start("r1").created("r1").joined("w1").commit(["run/r1", "run.started"]).granted("r1.0", "w1", 10);

describe("reads and the log", () => {
  it("[X38] the reads checker compares a run's page with the log up to the position the page is true at", () => {
    const shown = (status: string, node: object, asOf?: number) =>
      runningRun()
        .show("r1", status, [{ ...node }], asOf === undefined ? {} : { asOf })
        .read();
    const running = { status: "running", fence: 10, attempt: 1 };

    expect(passesChecker(shown("running", running), "reads")).toBe(true);
    expect(passesChecker(shown("queued", { status: "queued", fence: 0, attempt: 0 }, 1), "reads")).toBe(true);
    expect(violationOf(shown("running", running, 3), "reads")).toContain("r1.0 is running; the log says nothing of it");
    expect(violationOf(shown("running", { ...running, fence: 9 }), "reads")).toContain("is under fence 9; the log says 10");
    expect(violationOf(shown("running", { ...running, attempt: 2 }), "reads")).toContain("is at attempt 2");
    expect(violationOf(shown("succeeded", running), "reads")).toContain(
      "run r1 is succeeded by getRun on s1, true at 4; the log says open",
    );
    expect(violationOf(shown("queued", running), "reads")).toContain("the log says started");
  });

  it("[X38] the reads checker checks lists likewise, and judges a page once the log is known that far", () => {
    const list = (status: string, asOf: number) =>
      runningRun()
        .exchange(
          "listRuns",
          {},
          { status: 200, body: { items: [{ runId: "r1", status, clientId: "r1" }], nextCursor: null, asOf } },
        )
        .read();

    expect(passesChecker(list("running", 4), "reads")).toBe(true);
    expect(violationOf(list("failed", 4), "reads")).toContain("run r1 is failed by listRuns");
    expect(list("failed", 9).runChecker("reads")).toEqual({ violations: [], saw: 0 });
  });
});
