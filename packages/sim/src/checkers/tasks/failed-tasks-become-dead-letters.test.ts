import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";
import { middlewareWorkflow } from "../testing/workflow-bodies.ts";

const runStarted = () => new ObservationScript().start("r1").created("r1");
const taskDead = (script: ObservationScript, task = "r1.0") => script.commitTaskFact(task, "task.dead", { code: "E.X" });
const taskFailed = (script: ObservationScript, task = "r1.0") =>
  script.commitTaskFact(task, "task.failed", { error: { code: "E.X" } });
const showDeadLetters = (script: ObservationScript, ...tasks: string[]) =>
  script.read().exchange("listDeadLetters", {}, { status: 200, body: { items: tasks.map((taskId) => ({ taskId })) } });

describe("letters", () => {
  it("[X68] the dead letters checker reports a failed task without a task.dead fact, one recorded twice, and one of a middleware call", () => {
    const chain = () => new ObservationScript().startWorkflow("r1", middlewareWorkflow()).created("r1");

    expect(passesChecker(taskFailed(taskDead(runStarted())).read(), "letters")).toBe(true);
    expect(violationOf(taskFailed(runStarted()).read(), "letters")).toContain("without a task.dead fact");
    expect(passesChecker(taskFailed(chain(), "r1.0~1").read(), "letters")).toBe(true);
    expect(violationOf(taskFailed(taskDead(chain(), "r1.0~1"), "r1.0~1").read(), "letters")).toContain("with a task.dead fact");
    expect(violationOf(taskDead(taskDead(runStarted())).read(), "letters")).toContain("records task.dead of r1.0 again");
  });

  it("[X68] the dead letters checker reports a dead letter that is missing at the end, and one of a task that is not dead", () => {
    expect(passesChecker(showDeadLetters(taskFailed(taskDead(runStarted())), "r1.0"), "letters")).toBe(true);
    expect(violationOf(showDeadLetters(taskFailed(taskDead(runStarted()))), "letters")).toContain("has no dead letter");
    expect(violationOf(showDeadLetters(runStarted(), "r1.0"), "letters")).toContain("which is not dead");
  });
});
