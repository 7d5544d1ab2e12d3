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
  it("[X21] the unacked checker reports a grant that got no report from its worker and is not taken back within the time limit", () => {
    expect(violationOf(dispatchedGrant().wait(60_000).read().wait(60_000).read(), "unacked")).toContain(
      "r1.0#10 to t1/w1 was never acked",
    );
  });

  it("[X21] the unacked checker does not count a heartbeat that does not list the attempt as a report on it", () => {
    const beat = { healthy: true, metrics: { inflight: 0 }, held: [] };

    expect(
      violationOf(
        dispatchedGrant().wait(60_000).sendToScheduler("w1", "c1", "control.heartbeat", beat).wait(60_000).read(),
        "unacked",
      ),
    ).toContain("r1.0#10");
  });

  it("[X21] the unacked checker accepts a grant after an ack by number, a report, an inventory that lists it, or a requeue", () => {
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

  it("[X21] the unacked checker allows the lease, not the ack deadline, once the scheduler has ended the session of a worker that is paused", () => {
    const granted = () =>
      new ObservationScript()
        .start("r1")
        .created("r1")
        .joined("w1")
        .link("w1", "c1")
        .accepted("w1", "c1", "s")
        .wait(1_000)
        .granted("r1.0", "w1", 10)
        .read();
    const kick = { code: "E.AUTH.INVALID_TOKEN", reason: "kicked" };

    expect(violationOf(granted().wait(20_000).read(), "unacked")).toContain("r1.0#10");
    expect(passesChecker(granted().sendToWorker("w1", "c1", "control.reset", kick).wait(20_000).read(), "unacked")).toBe(true);
    expect(violationOf(granted().sendToWorker("w1", "c1", "control.reset", kick).wait(90_000).read(), "unacked")).toContain(
      "r1.0#10",
    );
  });

  it("[X21] the unacked checker restarts its time limit when a scheduler was disturbed", () => {
    const script = dispatchedGrant()
      .wait(60_000)
      .process({ role: "scheduler", process: "s1", event: "crashes" })
      .wait(60_000)
      .read();

    expect(passesChecker(script, "unacked")).toBe(true);
  });
});
