import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const grantedRun = () =>
  new ObservationScript().start("r1").created("r1").joined("w1").joined("w2").granted("r1.0", "w1", 10).read();
const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const done = { fence: 10, worker: "t1/w1" };

describe("fencing", () => {
  it("[X23] the fencing checker accepts a success that the task's holder sent, and reports one that no worker sent", () => {
    expect(
      passesChecker(
        grantedRun()
          .sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0 })
          .commitTaskFact("r1.0", "task.succeeded", done)
          .read(),
        "fencing",
      ),
    ).toBe(true);
    expect(violationOf(grantedRun().commitTaskFact("r1.0", "task.succeeded", done).read(), "fencing")).toContain(
      "t1/w1 (boot w1-b1) never reported that for attempt r1.0#10",
    );
  });

  it("[X23] the fencing checker reports a success under an old fence, of another worker, or of another process of the same worker", () => {
    const resultSent = () => grantedRun().sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0 });
    const back = resultSent().commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1" }).granted("r1.0", "w2", 12, 2);

    expect(violationOf(back.commitTaskFact("r1.0", "task.succeeded", done).read(), "fencing")).toContain(
      "is under fence 12, not 10",
    );
    expect(
      violationOf(
        resultSent()
          .commitTaskFact("r1.0", "task.succeeded", { ...done, worker: "t1/w2" })
          .read(),
        "fencing",
      ),
    ).toContain("t1/w1 held r1.0");
    const other = grantedRun().sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0, boot: "w1-b2" });
    expect(violationOf(other.commitTaskFact("r1.0", "task.succeeded", done).read(), "fencing")).toContain("never reported that");
  });

  it("[X23] the fencing checker accepts feedback that a result overtook, and reports feedback that no worker sent or of another attempt", () => {
    const chunk = { task_id: "r1.0", fence: 10, chunks: [] };
    const ended = (script: ObservationScript) =>
      script.sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 1 }).commitTaskFact("r1.0", "task.succeeded", done);
    const feedbackSent = () => ended(grantedRun().sendToScheduler("w1", "c1", "biz.exec.feedback", chunk, { seq: 0 }));

    expect(
      passesChecker(feedbackSent().commitTaskFact("r1.0", "task.feedback", { fence: 10, isLate: true }).read(), "fencing"),
    ).toBe(true);
    expect(
      violationOf(ended(grantedRun()).commitTaskFact("r1.0", "task.feedback", { fence: 10, isLate: true }).read(), "fencing"),
    ).toContain("no worker ever reported that for attempt r1.0#10");
    expect(
      violationOf(feedbackSent().commitTaskFact("r1.0", "task.feedback", { fence: 9, isLate: true }).read(), "fencing"),
    ).toContain("ended under fence 10, not 9");
  });

  it("[X23] the fencing checker reports a late result that was acked but not answered with the stale code", () => {
    const late = () =>
      grantedRun()
        .commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1" })
        .read()
        .link("w1", "c1")
        .sendToScheduler("w1", "c1", "control.register", { capabilities: { features: ["cancel"] } })
        .wait(10)
        .sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0 })
        .wait(10)
        .sendToWorker("w1", "c1", "control.ack", { ack_seq: 0 });
    const stop = { task_id: "r1.0", fence: 10, reason: "E.SESSION.STALE_BINDING: no longer yours" };

    expect(violationOf(late().wait(10_000).read(), "fencing")).toContain("was acked and not answered as stale");
    expect(violationOf(late().wait(10_000).read().wait(1).read(), "fencing")).toContain("r1.0#10");
    expect(
      late().sendToWorker("w1", "c1", "biz.exec.cancel", stop, { seq: 1 }).wait(10_000).read().runChecker("fencing").violations,
    ).toEqual([]);
    expect(late().link("w1", "c1", "closed").wait(10_000).read().runChecker("fencing").violations).toEqual([]);
  });
});
