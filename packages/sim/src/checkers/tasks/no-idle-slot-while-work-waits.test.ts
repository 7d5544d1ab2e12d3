import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

/** A ready task beside a worker with slots, in calm; heartbeats as long as it lasts. */
function idleWorkerBesideReadyTask(
  seconds: number,
  options: { pool?: string; slots?: number; draining?: boolean; limit?: number } = {},
): ObservationScript {
  const { pool = "default", slots = 2, draining = false, limit = 2 } = options;
  const script = new ObservationScript({ perNodeLimits: { "sim.step": limit } })
    .start("r1", [{}, { policy: { pool } }])
    .created("r1")
    .joined("w1", slots)
    .link("w1", "c1");
  script.sendToWorker("w1", "c1", "control.session.accept", {}).granted("r1.0", "w1", 10).commitTaskFact("r1.1", "task.ready");
  if (draining) script.commit(["worker/t1/w1", "worker.draining"]);
  script.read().phase("heal");
  for (let second = 0; second < seconds; second++)
    script.wait(1_000).sendToScheduler("w1", "c1", "control.heartbeat", { healthy: true, held: [] }).read();
  return script;
}

describe("work conserving", () => {
  it("[X33] the work-conserving checker reports a slot that stays free while a task that could run there is ready", () => {
    expect(passesChecker(idleWorkerBesideReadyTask(5), "work-conserving")).toBe(true);
    expect(violationOf(idleWorkerBesideReadyTask(20), "work-conserving")).toContain(
      "r1.1 is ready and t1/w1 has had a free slot for",
    );
  });

  it("[X33] the work-conserving checker accepts a waiting task if the worker is full, draining, unhealthy or does not fit", () => {
    expect(passesChecker(idleWorkerBesideReadyTask(20, { slots: 1 }), "work-conserving")).toBe(true);
    expect(passesChecker(idleWorkerBesideReadyTask(20, { draining: true }), "work-conserving")).toBe(true);
    expect(passesChecker(idleWorkerBesideReadyTask(20, { limit: 1 }), "work-conserving")).toBe(true);
    expect(passesChecker(idleWorkerBesideReadyTask(20, { pool: "gpu" }), "work-conserving")).toBe(true);
    const sick = idleWorkerBesideReadyTask(5);
    for (let second = 0; second < 20; second++)
      sick.wait(1_000).sendToScheduler("w1", "c1", "control.heartbeat", { healthy: false });
    expect(passesChecker(sick, "work-conserving")).toBe(true);
  });
});
