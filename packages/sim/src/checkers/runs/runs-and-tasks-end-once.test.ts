import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const twoNodes = [{}, { before: [0] }];
const taskEnded = (task: string, worker = "w1") =>
  [`run/${task.slice(0, -2)}`, "task.succeeded", { task, worker: `t1/${worker}` }] as const;

describe("once", () => {
  it("[X24] the once checker finds a second end of a task or a run", () => {
    const script = () => new ObservationScript().start("r1").created("r1").commit(taskEnded("r1.0"));

    expect(violationOf(script().commitTaskFact("r1.0", "task.failed").read(), "once")).toContain(
      "r1.0 had ended already (succeeded)",
    );
    const over = script().commit(["run/r1", "run.succeeded"]);
    expect(passesChecker(over.read(), "once")).toBe(true);
    expect(violationOf(over.commit(["run/r1", "run.failed"]).read(), "once")).toContain("run r1 had ended (succeeded)");
  });

  it("[X24] the once checker accepts feedback marked late, as overtaken by a result, after the end of its task and only there", () => {
    const script = () => new ObservationScript().start("r1").created("r1");
    const late = { isLate: true };

    expect(passesChecker(script().commit(taskEnded("r1.0")).commitTaskFact("r1.0", "task.feedback", late).read(), "once")).toBe(
      true,
    );
    expect(violationOf(script().granted("r1.0", "w1", 5).commitTaskFact("r1.0", "task.feedback", late).read(), "once")).toContain(
      "is marked late, and the task has not ended",
    );
  });

  it("[X24] the once checker finds a task that is granted before its predecessors have succeeded", () => {
    const script = () => new ObservationScript().start("r1", twoNodes).created("r1");

    expect(violationOf(script().granted("r1.1", "w1", 5).read(), "once")).toContain("although node 0 before it is open");
    expect(passesChecker(script().commit(taskEnded("r1.0")).granted("r1.1", "w1", 5).read(), "once")).toBe(true);
  });

  it("[X24] the once checker finds a run that ends with an open task, or succeeds with a node untouched", () => {
    const script = () => new ObservationScript().start("r1", twoNodes).created("r1").granted("r1.0", "w1", 5);

    expect(violationOf(script().commit(["run/r1", "run.failed"]).read(), "once")).toContain("r1.0 of run r1 had not ended");
    expect(violationOf(script().commit(taskEnded("r1.0"), ["run/r1", "run.succeeded"]).read(), "once")).toContain(
      "node 1 of run r1 is untouched",
    );
  });

  it("[X24] the once checker finds two runs for one Idempotency-Key, by the answers or by the log", () => {
    expect(violationOf(new ObservationScript().start("r1", [{}], { key: "k" }).start("r2", [{}], { key: "k" }), "once")).toBe(
      "key t1/k gave run r1 and then run r2",
    );
    const lost = new ObservationScript().start(null, [{}], { key: "k" }).start("r1", [{}], { key: "k" }).created("r1", "k");
    expect(passesChecker(lost.read(), "once")).toBe(true);
    expect(violationOf(lost.created("r2", "k").read(), "once")).toContain("1 start requests of client k became 2 runs");
  });
});
