import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

/** So many grants in a row, each taken back. */
const grantTimes = (times: number, code = "E.TIMEOUT") => {
  const script = new ObservationScript().start("r1").created("r1").joined("w1");
  for (let time = 1; time <= times; time++)
    script
      .granted("r1.0", "w1", time * 10, time)
      .commitTaskFact("r1.0", "task.requeued", { fence: time * 10 + 1, from: "t1/w1", code });
  return script;
};

describe("deliveries", () => {
  it("[X28] the deliveries checker reports a task that is requeued after its last delivery, or that fails too early or with a wrong count", () => {
    const failed = (deliveries: number) => ({ error: { code: "E.WORKER.LOST", details: { deliveries } } });
    const last = () => grantTimes(2).granted("r1.0", "w1", 30, 3);

    expect(passesChecker(grantTimes(2).read(), "deliveries")).toBe(true);
    expect(violationOf(grantTimes(3).read(), "deliveries")).toContain("is queued again after 3 grants, 3 allowed");
    expect(passesChecker(last().commitTaskFact("r1.0", "task.failed", failed(3)).read(), "deliveries")).toBe(true);
    expect(violationOf(last().commitTaskFact("r1.0", "task.failed", failed(2)).read(), "deliveries")).toContain(
      "failed after 2 grants",
    );
    expect(
      violationOf(
        grantTimes(1).granted("r1.0", "w1", 20, 2).commitTaskFact("r1.0", "task.failed", failed(2)).read(),
        "deliveries",
      ),
    ).toContain("3 allowed");
  });

  it("[X28] the deliveries checker accepts that a returned delivery is not counted, and counts anew after a retry", () => {
    const retried = grantTimes(2).granted("r1.0", "w1", 30, 3).commitTaskFact("r1.0", "task.retrying", { fence: 30, delayMs: 0 });

    expect(passesChecker(grantTimes(8, "E.RUNNER.CANCELLED").read(), "deliveries")).toBe(true);
    expect(passesChecker(retried.granted("r1.0", "w1", 40, 4).read(), "deliveries")).toBe(true);
  });

  it("[X28] the deliveries checker reports attempts that are not numbered consecutively", () => {
    expect(violationOf(grantTimes(1).granted("r1.0", "w1", 20, 1).read(), "deliveries")).toContain(
      "attempt 1 of r1.0 follows attempt 1",
    );
  });
});
