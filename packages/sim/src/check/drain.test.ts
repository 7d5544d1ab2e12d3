import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
const beat = { healthy: true, metrics: { inflight: 0 } };
const draining = () =>
  new Script()
    .start("r1")
    .created("r1")
    .joined("w1")
    .accepted("w1", "c1", "s-1")
    .commit(["worker/t1/w1", "worker.draining"])
    .read()
    .hears("w1", "c1", "control.drain", {});

describe("drain", () => {
  it("[X54] finds a grant that was made and sent after its worker was told to drain", () => {
    const sent = draining().hears("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });
    const before = new Script()
      .start("r1")
      .created("r1")
      .joined("w1")
      .accepted("w1", "c1", "s-1")
      .granted("r1.0", "w1", 10)
      .commit(["worker/t1/w1", "worker.draining"])
      .hears("w1", "c1", "control.drain", {})
      .hears("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 })
      .read();

    expect(caught(sent.granted("r1.0", "w1", 10).read(), "drain")).toContain("which had been told to drain");
    expect(passed(before, "drain")).toBe(true);
  });

  it("[X54] finds a worker that stops its heartbeats when it drains", () => {
    const slow = () => draining().wait(30_000).says("w1", "c1", "control.heartbeat", beat);

    expect(passed(slow().wait(30_000).phase("heal"), "drain")).toBe(true);
    expect(caught(slow().wait(90_000).phase("heal"), "drain")).toContain("its heartbeats have stopped");
    expect(passed(slow().hears("w1", "c1", "control.undrain", {}).wait(90_000).phase("heal"), "drain")).toBe(true);
  });
});
