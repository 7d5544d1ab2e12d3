import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const grantedRun = () => new ObservationScript().start("r1").created("r1").joined("w1").joined("w2").granted("r1.0", "w1", 10);

describe("single lease", () => {
  it("[X22] the single-lease checker reports a fence that does not rise with a grant or a requeue", () => {
    const back = (fence: number) => grantedRun().commitTaskFact("r1.0", "task.requeued", { fence, from: "t1/w1" });

    expect(violationOf(back(10).read(), "single-lease")).toContain(
      "did not rise with task.requeued at position 5 of t1: 10, then 10",
    );
    expect(violationOf(back(11).granted("r1.0", "w2", 11, 2).read(), "single-lease")).toContain("did not rise with task.granted");
    expect(passesChecker(back(11).granted("r1.0", "w2", 12, 2).read(), "single-lease")).toBe(true);
  });

  it("[X22] the single-lease checker reports a grant of a task that another worker still holds", () => {
    expect(violationOf(grantedRun().granted("r1.0", "w2", 11, 2).read(), "single-lease")).toContain("while t1/w1 still held it");
  });

  it("[X22] the single-lease checker reports one fence that is sent to two workers", () => {
    const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const script = grantedRun().read().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });

    expect(passesChecker(script, "single-lease")).toBe(true);
    expect(
      violationOf(script.sendToWorker("w2", "c2", "biz.exec.dispatch.batch", { items: [dispatch] }, { seq: 0 }), "single-lease"),
    ).toContain("was sent under fence 10 to t1/w1 (boot w1-b1) and to t1/w2 (boot w2-b1)");
  });
});
