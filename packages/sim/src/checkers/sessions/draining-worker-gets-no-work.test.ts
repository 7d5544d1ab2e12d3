import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
const heartbeat = { healthy: true, metrics: { inflight: 0 } };
const drainingWorker = () =>
  new ObservationScript()
    .start("r1")
    .created("r1")
    .joined("w1")
    .accepted("w1", "c1", "s-1")
    .commit(["worker/t1/w1", "worker.draining"])
    .read()
    .sendToWorker("w1", "c1", "control.drain", {});

describe("drain", () => {
  it("[X54] the drain checker finds a grant that was made and sent after its worker was ordered to drain", () => {
    const sent = drainingWorker().sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });
    const before = new ObservationScript()
      .start("r1")
      .created("r1")
      .joined("w1")
      .accepted("w1", "c1", "s-1")
      .granted("r1.0", "w1", 10)
      .commit(["worker/t1/w1", "worker.draining"])
      .sendToWorker("w1", "c1", "control.drain", {})
      .sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 })
      .read();

    expect(violationOf(sent.granted("r1.0", "w1", 10).read(), "drain")).toContain("which had been told to drain");
    expect(passesChecker(before, "drain")).toBe(true);
  });

  it("[X54] the drain checker finds a worker that stops its heartbeats when it drains", () => {
    const slow = () => drainingWorker().wait(30_000).sendToScheduler("w1", "c1", "control.heartbeat", heartbeat);

    expect(passesChecker(slow().wait(30_000).phase("heal"), "drain")).toBe(true);
    expect(violationOf(slow().wait(90_000).phase("heal"), "drain")).toContain("its heartbeats have stopped");
    expect(passesChecker(slow().sendToWorker("w1", "c1", "control.undrain", {}).wait(90_000).phase("heal"), "drain")).toBe(true);
  });
});
