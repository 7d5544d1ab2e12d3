import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

/** A worker of an older dialect with one slot runs an attempt that is cancelled; then it is granted another task. */
function grantAfterCancel(between: (script: ObservationScript) => ObservationScript = (script) => script): ObservationScript {
  const script = new ObservationScript({ dialect: "first" }).start("r1").start("r2").created("r1").created("r2").joined("w1", 1);
  script
    .granted("r1.0", "w1", 10)
    .handler("starts", "w1", "r1.0", 10)
    .sendToScheduler("w1", "c1", "control.ack", { ok: true, for: "r1.0#10" })
    .commitTaskFact("r1.0", "task.cancelled", { fence: 10, worker: "t1/w1" })
    .read();
  return between(script).granted("r2.0", "w1", 11).read();
}

describe("unstopped handlers keep their slot", () => {
  it("[X82] the unstopped checker reports a grant to a worker whose only slot is taken by a cancelled handler", () => {
    expect(violationOf(grantAfterCancel(), "unstopped")).toContain(
      "r2.0 was granted to t1/w1 at position 6 of t1: it has 1 slots, holds 0 tasks and still runs what was cancelled, r1.0#10",
    );
  });

  it("[X82] the unstopped checker accepts the grant once the handler has ended, in a new session, after a restart and after the limit", () => {
    const accepted = [
      grantAfterCancel((script) => script.handler("ends", "w1", "r1.0", 10)),
      grantAfterCancel((script) => script.joined("w1", 1).read()),
      grantAfterCancel((script) => script.process({ role: "scheduler", process: "s1", event: "crashes" })),
      grantAfterCancel((script) => script.wait(3_600_000).read()),
    ];

    for (const script of accepted) expect(script.runChecker("unstopped").violations).toEqual([]);
  });

  it("[X82] the unstopped checker accepts the grant where another slot is free", () => {
    const script = new ObservationScript({ dialect: "first" })
      .start("r1")
      .start("r2")
      .created("r1")
      .created("r2")
      .joined("w1", 2);
    script
      .granted("r1.0", "w1", 10)
      .handler("starts", "w1", "r1.0", 10)
      .sendToScheduler("w1", "c1", "control.ack", { ok: true, for: "r1.0#10" })
      .commitTaskFact("r1.0", "task.cancelled", { fence: 10, worker: "t1/w1" })
      .granted("r2.0", "w1", 11)
      .read();

    expect(passesChecker(script, "unstopped")).toBe(true);
  });
});
