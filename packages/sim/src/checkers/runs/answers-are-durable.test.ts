import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const grantedRun = () => new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10);
const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const register = { capabilities: { features: [] } };

describe("durable before said", () => {
  it("[X27] the durable checker finds an answered start, cancel or drain that a later read of the log does not contain", () => {
    expect(violationOf(new ObservationScript().start("r1").read(), "durable")).toContain("the start of run r1 was answered");
    const cancelled = () => grantedRun().exchange("cancelRun", { params: { runId: "r1" } }, { status: 202, body: {} });
    expect(violationOf(cancelled().read(), "durable")).toContain("the cancellation of run r1 was answered");
    expect(passesChecker(cancelled().commit(["run/r1", "run.cancelling"]).read(), "durable")).toBe(true);
    const drained = () => grantedRun().exchange("drainWorker", { params: { workerId: "w1" } }, { status: 202, body: {} });
    expect(violationOf(drained().read(), "durable")).toContain("drainWorker of t1/w1 was answered");
    expect(passesChecker(drained().commit(["worker/t1/w1", "worker.draining"]).read(), "durable")).toBe(true);
    const contested = drained().exchange("undrainWorker", { params: { workerId: "w1" } }, null);
    expect(passesChecker(contested.read(), "durable")).toBe(true);
  });

  it("[X27] the durable checker finds a session or a dispatch that was sent before it was committed", () => {
    const accept = (script: ObservationScript, connection = "c1") =>
      script.sendToWorker("w1", connection, "control.session.accept", { session_id: "s" });
    const dispatch = (fence: number) =>
      grantedRun().sendToWorker("w1", "c1", "biz.exec.dispatch", { run_id: "r1", task_id: "r1.0", fence }, { seq: 0 });

    expect(passesChecker(accept(grantedRun()).read(), "durable")).toBe(true);
    expect(violationOf(accept(accept(grantedRun()), "c2").read(), "durable")).toContain(
      "was accepted 2 times and the log records 1 joins",
    );
    // A renewed token needs no join.
    expect(passesChecker(accept(accept(grantedRun())).read(), "durable")).toBe(true);
    expect(passesChecker(dispatch(10).read(), "durable")).toBe(true);
    expect(violationOf(dispatch(11).read(), "durable")).toContain("the log has no such grant");
  });

  it("[X27] the durable checker finds a result that was acked while the log still shows the attempt running", () => {
    const acked = () =>
      grantedRun()
        .sendToScheduler("w1", "c1", "control.register", register)
        .sendToScheduler("w1", "c1", "biz.exec.result", result, { seq: 4 })
        .sendToWorker("w1", "c1", "control.ack", { ack_seq: 3, ack_bitmap: 1 });

    expect(violationOf(acked().read(), "durable")).toContain(
      "SUCCEEDED of r1.0#10 was acked to t1/w1 and the log still shows it running",
    );
    expect(
      passesChecker(acked().commitTaskFact("r1.0", "task.succeeded", { fence: 10, worker: "t1/w1" }).read(), "durable"),
    ).toBe(true);
    expect(passesChecker(acked().commit(["worker/t1/w1", "worker.lost"]).read(), "durable")).toBe(true);
    expect(passesChecker(acked().sendToScheduler("w1", "c2", "control.register", register).read(), "durable")).toBe(true);
  });

  it("[X27] the durable checker concludes nothing from a read of the log that began before the answer", () => {
    const about = { call: 99, caller: "tail", scheduler: "s1", tenant: "t1", route: "tailLog" };
    const page = { items: [], next: 0, head: 0, floor: 0 };
    const script = new ObservationScript()
      .observe({ kind: "call", ...about, params: {}, query: { after: "0" }, idempotencyKey: null, body: null })
      .start("r1")
      .observe({ kind: "answer", ...about, status: 200, body: page });

    expect(script.runChecker("durable").violations).toEqual([]);
    expect(passesChecker(script.created("r1").read(), "durable")).toBe(true);
  });
});
