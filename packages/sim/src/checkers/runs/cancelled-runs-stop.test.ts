import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const cancelledRun = () =>
  new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10).commit(["run/r1", "run.cancelling"]);
const stopHandler = (script: ObservationScript) =>
  script.commitTaskFact("r1.0", "task.cancelled", { fence: 10, worker: "t1/w1" }).commit(["run/r1", "run.cancelled"]);

describe("cancel", () => {
  it("[X30] the cancel checker finds a cancelled run of which something is granted or succeeds, or that ends in another state", () => {
    expect(passesChecker(stopHandler(cancelledRun()).read(), "cancel")).toBe(true);
    expect(violationOf(cancelledRun().commitTaskFact("r1.0", "task.succeeded", { fence: 10 }).read(), "cancel")).toContain(
      "run r1 was being cancelled",
    );
    expect(violationOf(cancelledRun().granted("r1.1", "w1", 11).read(), "cancel")).toContain("was being cancelled");
    expect(violationOf(cancelledRun().commit(["run/r1", "run.failed"]).read(), "cancel")).toContain(
      "was cancelled and ended otherwise",
    );
  });

  it("[X30] the cancel checker finds a handler that was never notified that its attempt is over", () => {
    const running = () =>
      stopHandler(cancelledRun().handler("starts", "w1", "r1.0", 10))
        .read()
        .phase("heal");
    const later = (script: ObservationScript) => script.wait(1_000).read().wait(90_000).read();

    expect(violationOf(later(running()), "cancel")).toContain("attempt r1.0#10 is over and its handler at w1 was never told");
    expect(passesChecker(later(running().handler("told", "w1", "r1.0", 10)), "cancel")).toBe(true);
  });
});
