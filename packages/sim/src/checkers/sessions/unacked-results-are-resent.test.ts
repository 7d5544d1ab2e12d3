import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const resultSentUnacked = (hasDisk = false) =>
  new ObservationScript({ hasDisk })
    .phase("heal")
    .accepted("w1", "c1", "s-1")
    .sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0, lost: true })
    .sendToWorker("w1", "c1", "control.reset", { code: "E.SESSION.GAP", reason: "gap" })
    .link("w1", "c1", "closed");
const muchLater = (script: ObservationScript) => script.wait(60_000).phase("converged", true);

describe("owed", () => {
  it("[X52] the owed checker finds a result that was never acked and is not sent again in the session after the reset", () => {
    const anew = () => resultSentUnacked().accepted("w1", "c2", "s-2");

    expect(violationOf(muchLater(anew()), "owed")).toContain(
      "r1.0#10 in s-1, never received its ack, and does not send it in s-2",
    );
    expect(passesChecker(muchLater(anew().sendToScheduler("w1", "c2", "biz.exec.result", result, { seq: 0 })), "owed")).toBe(
      true,
    );
    const acked = anew()
      .sendToScheduler("w1", "c2", "biz.exec.result", result, { seq: 0 })
      .sendToWorker("w1", "c2", "control.ack", { ack_seq: 0 });
    expect(muchLater(acked).runChecker("owed").violations).toEqual([]);
  });

  it("[X52] the owed checker lets a result be given up when its attempt is over, or with a process that kept it in memory", () => {
    const cancel = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const cancelled = resultSentUnacked()
      .accepted("w1", "c2", "s-2")
      .sendToWorker("w1", "c2", "biz.exec.cancel", cancel, { seq: 0 });
    const next = (hasDisk: boolean) => muchLater(resultSentUnacked(hasDisk).accepted("w1", "c2", "s-2", {}, { boot: "w1-b2" }));

    expect(muchLater(cancelled).runChecker("owed").violations).toEqual([]);
    expect(next(false).runChecker("owed").violations).toEqual([]);
    expect(violationOf(next(true), "owed")).toContain("r1.0#10");
  });
});
