import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";
import { mapWorkflow } from "../testing/workflow-bodies.ts";

const containerStarted = (items: readonly unknown[] = [1, 2], loop = {}, box = {}) =>
  new ObservationScript()
    .startWorkflow("r1", mapWorkflow(items, loop, box))
    .created("r1")
    .commitTaskFact("r1.0", "task.hosting");
const openIteration = (script: ObservationScript, number: number, index: number) =>
  script.commitTaskFact(`r1.0*${number}`, "frame.opened", { index });
const endIteration = (script: ObservationScript, number: number, index: number, status = "succeeded") =>
  script.commitTaskFact(`r1.0*${number}`, "frame.ended", { index, status });
const endNode = (script: ObservationScript, frame: number, node: number) =>
  script
    .commitTaskFact(`r1.0*${frame}/${node}`, "task.ready")
    .commitTaskFact(`r1.0*${frame}/${node}`, "task.succeeded", { worker: "t1/w1" });
const completeIteration = (script: ObservationScript, number: number, index: number) =>
  endIteration(endNode(endNode(openIteration(script, number, index), number, 0), number, 1), number, index);

describe("frames", () => {
  it("[X63] the frames checker reports an iteration that ends while a task inside is open, or with a node that never ran", () => {
    const inside = endNode(openIteration(containerStarted(), 0, 0), 0, 0).commitTaskFact("r1.0*0/1", "task.ready");

    expect(violationOf(endIteration(inside, 0, 0).read(), "frames")).toContain("ends as succeeded while r1.0*0/1 inside is open");
    expect(violationOf(endIteration(endNode(openIteration(containerStarted(), 0, 0), 0, 1), 0, 0).read(), "frames")).toContain(
      "node 0 inside has not",
    );
    expect(passesChecker(completeIteration(containerStarted(), 0, 0).read(), "frames")).toBe(true);
  });

  it("[X63] the frames checker reports iterations that are misnumbered, too many at once, or tried more often than allowed", () => {
    expect(violationOf(openIteration(containerStarted(), 1, 0).read(), "frames")).toContain("follows 0 iterations");
    const two = openIteration(openIteration(containerStarted([1, 2], { parallelism: 1 }), 0, 0), 1, 1);
    expect(violationOf(two.read(), "frames")).toContain("makes 2 open iterations, 1 allowed");
    const again = () =>
      openIteration(
        endIteration(openIteration(containerStarted([1], {}, { retry: { maxAttempts: 2 } }), 0, 0), 0, 0, "failed"),
        1,
        0,
      );
    expect(passesChecker(again().read(), "frames")).toBe(true);
    expect(violationOf(openIteration(endIteration(again(), 1, 0, "failed"), 2, 0).read(), "frames")).toContain(
      "is try 3 of iteration 0, 2 allowed",
    );
  });

  it("[X63] the frames checker reports a container that succeeds with an iteration missing or still open", () => {
    const over = (script: ObservationScript) => script.commitTaskFact("r1.0", "task.succeeded", { worker: null }).read();

    expect(violationOf(over(completeIteration(containerStarted(), 0, 0)), "frames")).toContain("succeeded for 1 iterations of 2");
    expect(passesChecker(over(completeIteration(completeIteration(containerStarted(), 0, 0), 1, 1)), "frames")).toBe(true);
    expect(violationOf(over(openIteration(completeIteration(containerStarted(), 0, 0), 1, 1)), "frames")).toContain(
      "while an iteration of it is open",
    );
  });

  it("[X63] the frames checker reports a forEach loop that runs out of order, and tasks inside an iteration that is not open", () => {
    const loop = { mode: "forEach" };

    expect(violationOf(openIteration(containerStarted([1, 2], loop), 0, 1).read(), "frames")).toContain(
      "the one before it has not succeeded",
    );
    expect(violationOf(containerStarted().commitTaskFact("r1.0*0/0", "task.ready").read(), "frames")).toContain(
      "around it is not opened",
    );
    expect(
      violationOf(completeIteration(containerStarted(), 0, 0).commitTaskFact("r1.0*0/0", "task.granted").read(), "frames"),
    ).toContain("is succeeded");
  });
});
