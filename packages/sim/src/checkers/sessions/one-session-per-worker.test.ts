import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
const sessionAccepted = () => new ObservationScript().accepted("w1", "c1", "s-1");
const workerJoined = (script: ObservationScript, epoch: number) =>
  script.commit(["worker/t1/w1", "worker.joined", { boot: "b", epoch, slots: 1, name: "w1" }]).read();

describe("one session", () => {
  it("[X53] the one-session checker finds frames sent on a socket that another has replaced, and allows a reset there", () => {
    const taken = () => sessionAccepted().resumed("w1", "c2", "s-1").wait(1);

    expect(passesChecker(taken().sendToWorker("w1", "c2", "biz.exec.dispatch", dispatch, { seq: 0 }), "one-session")).toBe(true);
    expect(violationOf(taken().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 }), "one-session")).toContain(
      "on c1, which c2 had replaced",
    );
    const reset = { code: "E.SESSION.SUPERSEDED", reason: "newer" };
    expect(passesChecker(taken().sendToWorker("w1", "c1", "control.reset", reset), "one-session")).toBe(true);
  });

  it("[X53] the one-session checker finds a replaced process that displaces its successor while that one lives", () => {
    const twice = () => sessionAccepted().wait(9_000).accepted("w1", "c2", "s-2", {}, { boot: "w1-b2" });

    expect(violationOf(twice().wait(9_000).accepted("w1", "c3", "s-3"), "one-session")).toContain(
      "came back on c3 and replaced w1-b2",
    );
    const gone = twice().wait(9_000).link("w1", "c2", "closed");
    expect(passesChecker(gone.accepted("w1", "c3", "s-3"), "one-session")).toBe(true);
  });

  it("[X53] the one-session checker finds an epoch that does not rise", () => {
    expect(passesChecker(workerJoined(workerJoined(sessionAccepted(), 1), 2), "one-session")).toBe(true);
    expect(violationOf(workerJoined(workerJoined(sessionAccepted(), 2), 2), "one-session")).toContain(
      "in epoch 2, after epoch 2",
    );
  });
});
