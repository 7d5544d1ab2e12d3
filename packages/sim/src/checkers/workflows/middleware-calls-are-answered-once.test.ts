import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";
import { middlewareWorkflow } from "../testing/workflow-bodies.ts";

const runStarted = () =>
  new ObservationScript()
    .startWorkflow("r1", middlewareWorkflow())
    .created("r1")
    .joined("w1")
    .commitTaskFact("r1.0", "task.hosting")
    .commitTaskFact("r1.1", "task.ready")
    .granted("r1.1", "w1", 5);
const nextAsked = (script: ObservationScript, target: string, request = "q1", task = "r1.1") =>
  script.commitTaskFact(task, "next.asked", { request, target });
const nextAnswered = (script: ObservationScript, target: string, code: string | null, request = "q1", task = "r1.1") =>
  script.commitTaskFact(task, "next.answered", { request, target, code, ms: 1 });
const taskEnded = (script: ObservationScript, task: string, how: string, worker: string | null = "t1/w1") =>
  script.commitTaskFact(task, `task.${how}`, { worker, fence: 5 });
const request = { requestId: "q1", runId: "r1", nodeId: "outer", middlewareId: "outer" };

describe("chains", () => {
  it("[X64] the chains checker reports a middleware call that no holder may request, is misnumbered, or is not the next in its chain", () => {
    expect(passesChecker(nextAsked(runStarted(), "r1.2~1").read(), "chains")).toBe(true);
    expect(violationOf(nextAsked(runStarted(), "r1.0~1").read(), "chains")).toContain("is not the next of its chain");
    expect(violationOf(nextAsked(runStarted(), "r1.2~2").read(), "chains")).toContain("as call 1 of it");
    expect(violationOf(nextAsked(taskEnded(runStarted(), "r1.1", "succeeded"), "r1.2~1").read(), "chains")).toContain(
      "no worker holds it",
    );
    expect(violationOf(nextAsked(nextAsked(runStarted(), "r1.2~1"), "r1.2~2").read(), "chains")).toContain("twice by request q1");
  });

  it("[X64] the chains checker reports a middleware request that is answered twice, never, or otherwise than its call ended", () => {
    const called = () =>
      taskEnded(nextAsked(runStarted(), "r1.2~1").commitTaskFact("r1.2~1", "task.ready"), "r1.2~1", "succeeded");

    expect(passesChecker(nextAnswered(called(), "r1.2~1", null).read(), "chains")).toBe(true);
    expect(violationOf(nextAnswered(nextAnswered(called(), "r1.2~1", null), "r1.2~1", null).read(), "chains")).toContain(
      "no such request",
    );
    expect(violationOf(nextAnswered(called(), "r1.2~1", "next_failed").read(), "chains")).toContain("and it is succeeded");
    expect(violationOf(nextAsked(runStarted(), "r1.2~1").granted("r1.1", "w1", 6, 2).read(), "chains")).toContain("is open");
    const left = taskEnded(called(), "r1.1", "succeeded").commit(["run/r1", "run.succeeded"]);
    expect(violationOf(left.read(), "chains")).toContain("is open");
  });

  it("[X64] the chains checker reports a host that ends unlike its chain, and a middleware that was never called and is not skipped", () => {
    const over = (inner: string, host: string) =>
      taskEnded(taskEnded(taskEnded(runStarted(), "r1.1", "succeeded"), "r1.2", inner, null), "r1.0", host, null).read();

    expect(passesChecker(over("skipped", "skipped"), "chains")).toBe(true);
    expect(violationOf(over("succeeded", "skipped"), "chains")).toContain("was never called and is succeeded");
    expect(violationOf(over("skipped", "succeeded"), "chains")).toContain("succeeded and was never called");
    expect(violationOf(over("skipped", "failed"), "chains")).toContain("its outermost middleware is succeeded");
    expect(violationOf(taskEnded(runStarted(), "r1.0", "skipped", null).read(), "chains")).toContain("before its outermost");
  });

  it("[X64] the chains checker reports a response frame sent twice for one request, but accepts one more in a new or resumed session", () => {
    const talk = () =>
      new ObservationScript()
        .accepted("w1", "c1", "s-1")
        .sendToScheduler("w1", "c1", "biz.exec.next.request", request, { seq: 0 });
    const recordSentResults = (script: ObservationScript, connection: string, seq: number, result: object = {}) =>
      script.sendToWorker("w1", connection, "biz.exec.next.response", { ...request, result }, { seq });

    expect(passesChecker(recordSentResults(talk(), "c1", 0), "chains")).toBe(true);
    expect(violationOf(recordSentResults(recordSentResults(talk(), "c1", 0), "c1", 1), "chains")).toContain(
      "asked 1 times in s-1 and answered 2 times",
    );
    const resumed = () => recordSentResults(talk(), "c1", 0).resumed("w1", "c2", "s-1");
    expect(passesChecker(recordSentResults(resumed(), "c2", 1), "chains")).toBe(true);
    expect(violationOf(recordSentResults(recordSentResults(resumed(), "c2", 1), "c2", 2), "chains")).toContain(
      "answered 3 times",
    );
    const anew = () => recordSentResults(talk(), "c1", 0).accepted("w1", "c2", "s-2");
    expect(passesChecker(recordSentResults(anew(), "c2", 0), "chains")).toBe(true);
    expect(violationOf(recordSentResults(anew(), "c2", 0, { other: 1 }), "chains")).toContain("and then");
  });
});
