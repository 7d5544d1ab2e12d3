import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";
import { workflowNode } from "../testing/workflow-bodies.ts";

/** A task whose first attempt is taken back and whose second one starts. */
function repeatedTask({ code = "E.WORKER.LOST", policy = {}, begins = true } = {}) {
  const packageRef = { name: "sim", version: "1.0.0", idempotency: "none" };
  const workflow = { nodes: [workflowNode("a", { package: packageRef, policy })], edges: [] };
  const script = new ObservationScript().startWorkflow("r1", workflow).created("r1").joined("w1").joined("w2");
  script.granted("r1.0", "w1", 10);
  if (begins) script.handler("starts", "w1", "r1.0", 10);
  script.commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1", code }).granted("r1.0", "w2", 12, 2);
  return script.handler("starts", "w2", "r1.0", 12).read();
}

describe("silent repeat", () => {
  it("[X1156] the silent-repeat checker reports a task of a declared adapter that runs again after its worker was lost with it", () => {
    expect(violationOf(repeatedTask(), "silent-repeat")).toContain(
      "r1.0 ran under fence 10, its worker was lost or silent, and it ran again",
    );
    expect(passesChecker(repeatedTask({ begins: false }), "silent-repeat")).toBe(true);
    expect(passesChecker(repeatedTask({ code: "E.RUNNER.CANCELLED" }), "silent-repeat")).toBe(true);
  });

  it("[X1156] the silent-repeat checker reports a task that was never acked in time and runs again, unless its node has a retry policy", () => {
    expect(violationOf(repeatedTask({ code: "E.TIMEOUT" }), "silent-repeat")).toContain("it ran again");
    expect(passesChecker(repeatedTask({ code: "E.TIMEOUT", begins: false }), "silent-repeat")).toBe(true);
    expect(passesChecker(repeatedTask({ code: "E.TIMEOUT", policy: { retry: { maxAttempts: 2 } } }), "silent-repeat")).toBe(true);
  });

  it("[X1156] the silent-repeat checker accepts that a task whose adapter declares nothing, or whose policy allows deliveries, runs again", () => {
    const undeclared = new ObservationScript().start("r1").created("r1").joined("w1").joined("w2").granted("r1.0", "w1", 10);
    undeclared.handler("starts", "w1", "r1.0", 10);
    undeclared.commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1", code: "E.WORKER.LOST" });
    undeclared.granted("r1.0", "w2", 12, 2).handler("starts", "w2", "r1.0", 12);

    for (const script of [undeclared.read(), repeatedTask({ policy: { maxDeliveries: 2 } })])
      expect(script.runChecker("silent-repeat").violations).toEqual([]);
  });
});
