import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const limits = { timeoutMs: 4_000, queueTimeoutMs: 6_000 };
const limited = () =>
  new Script()
    .start("r1", [{ policy: limits }], { timeoutMs: 50_000 })
    .created("r1")
    .joined("w1");
const timeout = { error: { code: "E.TIMEOUT", message: "attempt 1 of task r1.0 did not end within its time limit" } };

describe("timers", () => {
  it("[X29] finds an attempt, a wait or a run that is ended before its time, and a retry before its pause is over", () => {
    const attempt = (ms: number) => limited().granted("r1.0", "w1", 10).wait(ms).tells("r1.0", "task.failed", timeout).read();
    const queue = (waitedMs: number) =>
      limited()
        .tells("r1.0", "task.ready")
        .tells("r1.0", "task.failed", { error: { code: "E.DISPATCH.UNAVAILABLE", details: { waitedMs } } })
        .read();
    const run = (ms: number) =>
      limited()
        .wait(ms)
        .commit(["run/r1", "run.failed", { error: { code: "E.TIMEOUT" } }])
        .read();
    const retry = (ms: number) =>
      limited()
        .granted("r1.0", "w1", 10)
        .tells("r1.0", "task.retrying", { delayMs: 900 })
        .wait(ms)
        .granted("r1.0", "w1", 20, 2)
        .read();

    expect(passed(attempt(4_000), "timers")).toBe(true);
    expect(caught(attempt(3_000), "timers")).toContain("its limit is 4000");
    expect(passed(queue(6_000), "timers")).toBe(true);
    expect(caught(queue(5_999), "timers")).toContain("was given up after 5999 ms in queue");
    expect(passed(run(50_000), "timers")).toBe(true);
    expect(caught(run(49_000), "timers")).toContain("its limit is 50000");
    expect(retry(900).judge("timers").violations).toEqual([]);
    expect(caught(retry(500), "timers")).toContain("before its pause was over");
  });

  it("[X29] finds what is still there long after it was due and after the last trouble", () => {
    const held = (ms: number) => limited().granted("r1.0", "w1", 10).read().phase("heal").wait(ms).read();
    const waiting = (ms: number) => limited().tells("r1.0", "task.ready").read().phase("heal").wait(ms).read();

    expect(held(8_000).judge("timers").violations).toEqual([]);
    const ailing = limited().granted("r1.0", "w1", 10).read().fault({ name: "store-stalled", target: "store" });
    ailing
      .fault({ name: "store-stalled", target: "store" })
      .add({ kind: "fault", name: "store-stalled", target: "store", event: "ends" });
    expect(ailing.wait(30_000).read().judge("timers").violations).toEqual([]);
    expect(caught(held(30_000), "timers")).toContain("attempt r1.0#10 has a limit of 4000 ms and goes on");
    expect(caught(waiting(30_000), "timers")).toContain("r1.0 may wait 6000 ms and still does");
    expect(caught(limited().read().phase("heal").wait(80_000).read(), "timers")).toContain("run r1 has a limit of 50000 ms");
  });

  it("[X29] finds a worker that has long been silent and still holds something", () => {
    const silent = (ms: number) =>
      new Script()
        .start("r1")
        .created("r1")
        .joined("w1")
        .granted("r1.0", "w1", 10)
        .wait(100_000)
        .says("w1", "c1", "control.heartbeat", {})
        .wait(ms)
        .read();

    expect(silent(30_000).judge("timers").violations).toEqual([]);
    expect(caught(silent(40_000), "timers")).toBe("t1/w1 renews its lease no more and still holds r1.0");
  });

  it("[X29] finds a pause that is not the one the node asked for, or does not grow with every failure", () => {
    const pauses = (...delays: readonly number[]) => {
      const script = new Script()
        .start("r1", [{ policy: { retry: { maxAttempts: 4, backoffMs: 300 } } }])
        .created("r1")
        .joined("w1");
      let fence = 0;
      for (const delayMs of delays)
        script
          .granted("r1.0", "w1", (fence += 10), fence / 10)
          .tells("r1.0", "task.retrying", { delayMs })
          .wait(5_000);
      return script.read();
    };

    expect(passed(pauses(300, 720, 960), "timers")).toBe(true);
    expect(caught(pauses(0), "timers")).toContain("pauses for 0 ms after failure 1, not about 300");
    expect(caught(pauses(300, 300), "timers")).toContain("pauses for 300 ms after failure 2, not about 600");
  });
});
