import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const registerNamingIt = { capabilities: {}, running: [{ task_id: "r1.0", fence: 10 }] };
const registerWithoutIt = { capabilities: {}, running: [] };
const resultSentUnacked = (hasDisk = false) =>
  new ObservationScript({ hasDisk }).sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 0, lost: true });

describe("kept", () => {
  it("[X48] the kept checker finds a register without a result that its worker has sent and never received an ack for", () => {
    const acked = resultSentUnacked().sendToWorker("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 0 });

    expect(passesChecker(resultSentUnacked().sendToScheduler("w1", "c2", "control.register", registerNamingIt), "kept")).toBe(
      true,
    );
    expect(violationOf(resultSentUnacked().sendToScheduler("w1", "c2", "control.register", registerWithoutIt), "kept")).toContain(
      "comes back without r1.0#10",
    );
    expect(acked.sendToScheduler("w1", "c2", "control.register", registerWithoutIt).runChecker("kept").violations).toEqual([]);
    const lost = resultSentUnacked().sendToWorker("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 0 }, { lost: true });
    expect(violationOf(lost.sendToScheduler("w1", "c2", "control.register", registerWithoutIt), "kept")).toContain(
      "never received an ack for",
    );
  });

  it("[X48] the kept checker expects an unacked result of a later process only where the outbox is on a disk", () => {
    const later = { boot: "b2" };

    expect(
      violationOf(resultSentUnacked(true).sendToScheduler("w1", "c2", "control.register", registerWithoutIt, later), "kept"),
    ).toContain("(boot b2) comes back without");
    expect(
      resultSentUnacked().sendToScheduler("w1", "c2", "control.register", registerWithoutIt, later).runChecker("kept").violations,
    ).toEqual([]);
  });

  it("[X48] the kept checker lets a worker drop an older attempt once a newer one of its task has arrived", () => {
    const newer = resultSentUnacked(true).sendToWorker(
      "w1",
      "c1",
      "biz.exec.dispatch",
      { run_id: "r1", task_id: "r1.0", fence: 20 },
      { seq: 0 },
    );

    expect(newer.sendToScheduler("w1", "c2", "control.register", registerWithoutIt).runChecker("kept").violations).toEqual([]);
  });
});
