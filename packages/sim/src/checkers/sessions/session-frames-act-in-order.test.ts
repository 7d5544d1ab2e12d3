import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const dispatch = (task: string, fence = 10) => ({ run_id: "r1", task_id: task, fence });
const result = (task: string) => ({ task_id: task, fence: 10, status: "SUCCEEDED", result: {} });
const feedback = (text: string) => ({ run_id: "r1", task_id: "r1.0", fence: 10, chunks: [{ channel: "log", text }] });
const sessionAccepted = () => new ObservationScript().start("r1").created("r1").accepted("w1", "c1", "s-1");
const feedbackRecorded = (script: ObservationScript) =>
  script.commitTaskFact("r1.0", "task.feedback", { fence: 10, chunks: { first: 0, count: 1 } }).read();
/** A reader finds these texts stored, one row each. */
const readStoredChunks = (script: ObservationScript, ...texts: string[]) => {
  const items = texts.map((text, first) => ({ first, count: 1, chunks: [{ channel: "log", text }] }));
  return script.exchange("readChunks", { params: { task: "r1.0", fence: "10" } }, { status: 200, body: { items } });
};

describe("in order", () => {
  it("[X49] the in-order checker finds frame numbers that are left out, or that are used for another frame later", () => {
    const first = () => sessionAccepted().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0, lost: true });

    expect(
      violationOf(first().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.1"), { seq: 2 }), "in-order"),
    ).toContain("2 was sent after 0");
    const other = first().resumed("w1", "c2", "s-1").sendToWorker("w1", "c2", "biz.exec.dispatch", dispatch("r1.1"), { seq: 0 });
    expect(violationOf(other, "in-order")).toContain("0 was dispatch r1.0#10 and is now dispatch r1.1#10");
    const again = first().resumed("w1", "c2", "s-1").sendToWorker("w1", "c2", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0 });
    expect(passesChecker(again, "in-order")).toBe(true);
    expect(passesChecker(first().sendToWorker("w1", "c1", "ext.vendor.astraflow.void", {}, { seq: 0 }), "in-order")).toBe(true);
  });

  it("[X49] the in-order checker finds a handler that starts before all frames sent before its dispatch have arrived", () => {
    const hole = () =>
      sessionAccepted()
        .sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0, lost: true })
        .sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.1"), { seq: 1 });

    expect(violationOf(hole().handler("starts", "w1", "r1.1", 10), "in-order")).toContain("arrived without gaps only up to -1");
    const filled = hole().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0 });
    expect(passesChecker(filled.handler("starts", "w1", "r1.1", 10), "in-order")).toBe(true);
    expect(violationOf(sessionAccepted().handler("starts", "w1", "r1.1", 10), "in-order")).toContain(
      "and no such frame has arrived",
    );
  });

  it("[X49] the in-order checker finds a result in the log that arrived over a gap, or on a socket that another had replaced", () => {
    const over = sessionAccepted()
      .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.1"), { seq: 0, lost: true })
      .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 1 })
      .commitTaskFact("r1.0", "task.succeeded", { fence: 10 })
      .read();
    const old = sessionAccepted()
      .resumed("w1", "c2", "s-1")
      .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 0 })
      .commitTaskFact("r1.0", "task.succeeded", { fence: 10 })
      .read();

    expect(violationOf(over, "in-order")).toContain("SUCCEEDED r1.0#10 in frame 1");
    expect(violationOf(old, "in-order")).toContain("and no such frame has arrived");
  });

  it("[X49] the in-order checker finds feedback that is stored twice however often it arrived, or stored though it never arrived", () => {
    const once = () => sessionAccepted().sendToScheduler("w1", "c1", "biz.exec.feedback", feedback("part 1"), { seq: 0 });
    const anew = () =>
      once().accepted("w1", "c2", "s-2").sendToScheduler("w1", "c2", "biz.exec.feedback", feedback("part 1"), { seq: 0 });

    expect(passesChecker(readStoredChunks(once(), "part 1"), "in-order")).toBe(true);
    expect(passesChecker(readStoredChunks(anew(), "part 1"), "in-order")).toBe(true);
    expect(violationOf(readStoredChunks(anew(), "part 1", "part 1"), "in-order")).toContain("stored twice");
    expect(violationOf(readStoredChunks(once(), "part 2"), "in-order")).toContain("that was never delivered");
  });

  it("[X49] the in-order checker finds feedback that the log records more often than it arrived", () => {
    const once = () => sessionAccepted().sendToScheduler("w1", "c1", "biz.exec.feedback", feedback("part 1"), { seq: 0 });
    const anew = once()
      .accepted("w1", "c2", "s-2")
      .sendToScheduler("w1", "c2", "biz.exec.feedback", feedback("part 1"), { seq: 0 });

    expect(passesChecker(feedbackRecorded(once()), "in-order")).toBe(true);
    expect(violationOf(feedbackRecorded(feedbackRecorded(once())), "in-order")).toContain(
      "is the 2. feedback report of r1.0#10, of which 1 came",
    );
    expect(passesChecker(feedbackRecorded(feedbackRecorded(anew)), "in-order")).toBe(true);
  });
});
