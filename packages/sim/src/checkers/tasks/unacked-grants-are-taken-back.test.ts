import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const dispatchedGrant = () =>
  new ObservationScript()
    .start("r1")
    .created("r1")
    .joined("w1")
    .granted("r1.0", "w1", 10)
    .read()
    .sendToWorker("w1", "c1", "biz.exec.dispatch", { run_id: "r1", task_id: "r1.0", fence: 10 }, { seq: 0, lost: true });

describe("un-acked dispatch", () => {
  it("[X21] finds a grant of which nobody ever said a word and that is not taken back within the bound", () => {
    expect(violationOf(dispatchedGrant().wait(60_000).read().wait(60_000).read(), "unacked")).toContain(
      "r1.0#10 to t1/w1 was never acked",
    );
  });

  it("[X21] a heartbeat that does not name the attempt does not stand for a word", () => {
    const beat = { healthy: true, metrics: { inflight: 0 }, held: [] };

    expect(
      violationOf(
        dispatchedGrant().wait(60_000).sendToScheduler("w1", "c1", "control.heartbeat", beat).wait(60_000).read(),
        "unacked",
      ),
    ).toContain("r1.0#10");
  });

  it("[X21] an ack by number, a word, an inventory that names it, and a taking back are all enough", () => {
    const later = (script: ObservationScript) => script.wait(200_000).read();

    expect(passesChecker(later(dispatchedGrant().sendToScheduler("w1", "c1", "control.ack", { ack_seq: 0 })), "unacked")).toBe(
      true,
    );
    expect(
      passesChecker(
        later(dispatchedGrant().sendToScheduler("w1", "c1", "biz.exec.feedback", { task_id: "r1.0", fence: 10 })),
        "unacked",
      ),
    ).toBe(true);
    const register = { capabilities: {}, running: [{ task_id: "r1.0", fence: 10 }] };
    expect(passesChecker(later(dispatchedGrant().sendToScheduler("w1", "c2", "control.register", register)), "unacked")).toBe(
      true,
    );
    expect(
      passesChecker(
        later(dispatchedGrant().commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1" }).read()),
        "unacked",
      ),
    ).toBe(true);
  });

  it("[X21] the bound begins anew when a scheduler was disturbed", () => {
    const script = dispatchedGrant()
      .wait(60_000)
      .process({ role: "scheduler", process: "s1", event: "crashes" })
      .wait(60_000)
      .read();

    expect(passesChecker(script, "unacked")).toBe(true);
  });
});
