import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

/** A ready task beside a worker with slots, in calm; heartbeats as long as it lasts. */
function idle(seconds: number, wish: { pool?: string; slots?: number; draining?: boolean; limit?: number } = {}): Script {
  const { pool = "default", slots = 2, draining = false, limit = 2 } = wish;
  const script = new Script({ perNodeLimits: { "sim.step": limit } })
    .start("r1", [{}, { policy: { pool } }])
    .created("r1")
    .joined("w1", slots)
    .link("w1", "c1");
  script.hears("w1", "c1", "control.session.accept", {}).granted("r1.0", "w1", 10).tells("r1.1", "task.ready");
  if (draining) script.commit(["worker/t1/w1", "worker.draining"]);
  script.read().phase("heal");
  for (let second = 0; second < seconds; second++)
    script.wait(1_000).says("w1", "c1", "control.heartbeat", { healthy: true, held: [] }).read();
  return script;
}

describe("work conserving", () => {
  it("[X33] finds a slot that stays free beside a task that could run there", () => {
    expect(passed(idle(5), "work-conserving")).toBe(true);
    expect(caught(idle(20), "work-conserving")).toContain("r1.1 is ready and t1/w1 has had a free slot for");
  });

  it("[X33] a worker that is full, drains, is unhealthy or does not fit leaves nothing idle", () => {
    expect(passed(idle(20, { slots: 1 }), "work-conserving")).toBe(true);
    expect(passed(idle(20, { draining: true }), "work-conserving")).toBe(true);
    expect(passed(idle(20, { limit: 1 }), "work-conserving")).toBe(true);
    expect(passed(idle(20, { pool: "gpu" }), "work-conserving")).toBe(true);
    const sick = idle(5);
    for (let second = 0; second < 20; second++) sick.wait(1_000).says("w1", "c1", "control.heartbeat", { healthy: false });
    expect(passed(sick, "work-conserving")).toBe(true);
  });
});
