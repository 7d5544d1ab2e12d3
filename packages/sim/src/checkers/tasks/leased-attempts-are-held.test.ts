import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

/** An attempt leased to a worker that is online, in calm, and time in which the worker sends heartbeats that do not list it. */
function leasedAttempt(during: (script: ObservationScript) => ObservationScript = (script) => script): ObservationScript {
  const script = new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10).read().phase("heal");
  during(script);
  for (let minute = 0; minute < 3; minute++)
    script.wait(60_000).sendToScheduler("w1", "c1", "control.heartbeat", { healthy: true }).read();
  return script;
}

describe("leased attempts are held", () => {
  it("[X81] the held checker reports an attempt that its worker neither runs nor answers for", () => {
    expect(violationOf(leasedAttempt(), "held")).toContain("r1.0 is leased to t1/w1, which neither runs it nor has answered for");
  });

  it("[X81] the held checker accepts an attempt whose handler runs", () => {
    expect(
      passesChecker(
        leasedAttempt((script) => script.handler("starts", "w1", "r1.0", 10)),
        "held",
      ),
    ).toBe(true);
  });

  it("[X81] the held checker accepts an attempt that heartbeats list, that is taken back in time, or whose worker has no session", () => {
    const listing = leasedAttempt();
    const held = { healthy: true, held: [{ task_id: "r1.0", fence: 10 }] };
    const listed = new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10).read().phase("heal");
    for (let minute = 0; minute < 3; minute++) listed.wait(60_000).sendToScheduler("w1", "c1", "control.heartbeat", held).read();

    expect(() => passesChecker(listing, "held")).toThrow("neither runs it");
    expect(passesChecker(listed, "held")).toBe(true);
    const takenBack = leasedAttempt((script) =>
      script.wait(20_000).read().commitTaskFact("r1.0", "task.requeued", { fence: 11, from: "t1/w1" }).read(),
    );
    expect(passesChecker(takenBack, "held")).toBe(true);
    const away = leasedAttempt((script) => script.wait(20_000).read().commit(["worker/t1/w1", "worker.left"]).read());
    expect(passesChecker(away, "held")).toBe(true);
  });

  it("[X81] the held checker counts an ack of the dispatch as an answer and starts its time limit anew", () => {
    const script = new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10).read().phase("heal");
    for (let minute = 0; minute < 4; minute++)
      script.wait(60_000).sendToScheduler("w1", "c1", "control.ack", { ok: true, for: "r1.0#10" }).read();

    expect(passesChecker(script, "held")).toBe(true);
  });
});
