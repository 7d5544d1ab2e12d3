import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const limits = { timeoutMs: 4_000, queueTimeoutMs: 6_000 };
const runWithLimits = () =>
  new ObservationScript()
    .start("r1", [{ policy: limits }], { timeoutMs: 50_000 })
    .created("r1")
    .joined("w1");
const timeout = { error: { code: "E.TIMEOUT", message: "attempt 1 of task r1.0 did not end within its time limit" } };

describe("timers", () => {
  it("[X29] the timers checker reports an attempt, queue wait or run that is ended too early, and a retry before its delay is over", () => {
    const attempt = (ms: number) =>
      runWithLimits().granted("r1.0", "w1", 10).wait(ms).commitTaskFact("r1.0", "task.failed", timeout).read();
    const queue = (waitedMs: number) =>
      runWithLimits()
        .commitTaskFact("r1.0", "task.ready")
        .commitTaskFact("r1.0", "task.failed", { error: { code: "E.DISPATCH.UNAVAILABLE", details: { waitedMs } } })
        .read();
    const run = (ms: number) =>
      runWithLimits()
        .wait(ms)
        .commit(["run/r1", "run.failed", { error: { code: "E.TIMEOUT" } }])
        .read();
    const retry = (ms: number) =>
      runWithLimits()
        .granted("r1.0", "w1", 10)
        .commitTaskFact("r1.0", "task.retrying", { delayMs: 900 })
        .wait(ms)
        .granted("r1.0", "w1", 20, 2)
        .read();

    expect(passesChecker(attempt(4_000), "timers")).toBe(true);
    expect(violationOf(attempt(3_000), "timers")).toContain("its limit is 4000");
    expect(passesChecker(queue(6_000), "timers")).toBe(true);
    expect(violationOf(queue(5_999), "timers")).toContain("was given up after 5999 ms in queue");
    expect(passesChecker(run(50_000), "timers")).toBe(true);
    expect(violationOf(run(49_000), "timers")).toContain("its limit is 50000");
    expect(retry(900).runChecker("timers").violations).toEqual([]);
    expect(violationOf(retry(500), "timers")).toContain("before its pause was over");
  });

  it("[X29] the timers checker reports attempts, queue waits and runs still open long after their deadline and the last fault", () => {
    const held = (ms: number) => runWithLimits().granted("r1.0", "w1", 10).read().phase("heal").wait(ms).read();
    const waiting = (ms: number) => runWithLimits().commitTaskFact("r1.0", "task.ready").read().phase("heal").wait(ms).read();

    expect(held(8_000).runChecker("timers").violations).toEqual([]);
    const ailing = runWithLimits().granted("r1.0", "w1", 10).read().fault({ name: "store-stalled", target: "store" });
    ailing
      .fault({ name: "store-stalled", target: "store" })
      .observe({ kind: "fault", name: "store-stalled", target: "store", event: "ends" });
    expect(ailing.wait(30_000).read().runChecker("timers").violations).toEqual([]);
    expect(violationOf(held(30_000), "timers")).toContain("attempt r1.0#10 has a limit of 4000 ms and has not ended");
    expect(violationOf(waiting(30_000), "timers")).toContain("r1.0 may wait 6000 ms and still waits");
    expect(violationOf(runWithLimits().read().phase("heal").wait(80_000).read(), "timers")).toContain(
      "run r1 has a limit of 50000 ms",
    );
  });

  it("[X29] the timers checker reports a worker that stopped sending heartbeats long ago and still holds a task", () => {
    const unreportedGrants = (ms: number) =>
      new ObservationScript()
        .start("r1")
        .created("r1")
        .joined("w1")
        .granted("r1.0", "w1", 10)
        .wait(100_000)
        .sendToScheduler("w1", "c1", "control.heartbeat", {})
        .wait(ms)
        .read();

    expect(unreportedGrants(30_000).runChecker("timers").violations).toEqual([]);
    expect(violationOf(unreportedGrants(40_000), "timers")).toBe("t1/w1 no longer renews its lease and still holds r1.0");
  });

  it("[X29] the timers checker reports a retry delay that differs from the node's policy or does not grow with each failure", () => {
    const pauses = (...delays: readonly number[]) => {
      const script = new ObservationScript()
        .start("r1", [{ policy: { retry: { maxAttempts: 4, backoffMs: 300 } } }])
        .created("r1")
        .joined("w1");
      let fence = 0;
      for (const delayMs of delays)
        script
          .granted("r1.0", "w1", (fence += 10), fence / 10)
          .commitTaskFact("r1.0", "task.retrying", { delayMs })
          .wait(5_000);
      return script.read();
    };

    expect(passesChecker(pauses(300, 720, 960), "timers")).toBe(true);
    expect(violationOf(pauses(0), "timers")).toContain("pauses for 0 ms after failure 1, not about 300");
    expect(violationOf(pauses(300, 300), "timers")).toContain("pauses for 300 ms after failure 2, not about 600");
  });
});
