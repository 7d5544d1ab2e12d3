import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const held = () => new Script().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10);
const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const register = { capabilities: { features: [] } };

describe("durable before said", () => {
  it("[X27] finds a start, a cancel or a drain that was answered and that a later reading of the log does not tell of", () => {
    expect(caught(new Script().start("r1").read(), "durable")).toContain("the start of run r1 was answered");
    const cancelled = () => held().exchange("cancelRun", { params: { runId: "r1" } }, { status: 202, body: {} });
    expect(caught(cancelled().read(), "durable")).toContain("the cancelling of run r1 was answered");
    expect(passed(cancelled().commit(["run/r1", "run.cancelling"]).read(), "durable")).toBe(true);
    const drained = () => held().exchange("drainWorker", { params: { workerId: "w1" } }, { status: 202, body: {} });
    expect(caught(drained().read(), "durable")).toContain("drainWorker of t1/w1 was answered");
    expect(passed(drained().commit(["worker/t1/w1", "worker.draining"]).read(), "durable")).toBe(true);
    const contested = drained().exchange("undrainWorker", { params: { workerId: "w1" } }, null);
    expect(passed(contested.read(), "durable")).toBe(true);
  });

  it("[X27] finds a session or a dispatch that left before it was committed", () => {
    const accept = (script: Script, connection = "c1") =>
      script.hears("w1", connection, "control.session.accept", { session_id: "s" });
    const dispatch = (fence: number) =>
      held().hears("w1", "c1", "biz.exec.dispatch", { run_id: "r1", task_id: "r1.0", fence }, { seq: 0 });

    expect(passed(accept(held()).read(), "durable")).toBe(true);
    expect(caught(accept(accept(held()), "c2").read(), "durable")).toContain("was accepted 2 times and the log tells of 1 joins");
    // A renewed token needs no join.
    expect(passed(accept(accept(held())).read(), "durable")).toBe(true);
    expect(passed(dispatch(10).read(), "durable")).toBe(true);
    expect(caught(dispatch(11).read(), "durable")).toContain("the log does not tell of that grant");
  });

  it("[X27] finds a result that was acked while the log still shows the attempt running", () => {
    const acked = () =>
      held()
        .says("w1", "c1", "control.register", register)
        .says("w1", "c1", "biz.exec.result", result, { seq: 4 })
        .hears("w1", "c1", "control.ack", { ack_seq: 3, ack_bitmap: 1 });

    expect(caught(acked().read(), "durable")).toContain(
      "SUCCEEDED of r1.0#10 was acked to t1/w1 and the log still shows it running",
    );
    expect(passed(acked().tells("r1.0", "task.succeeded", { fence: 10, worker: "t1/w1" }).read(), "durable")).toBe(true);
    expect(passed(acked().commit(["worker/t1/w1", "worker.lost"]).read(), "durable")).toBe(true);
    expect(passed(acked().says("w1", "c2", "control.register", register).read(), "durable")).toBe(true);
  });

  it("[X27] a reading that began before the answer proves nothing", () => {
    const about = { call: 99, caller: "tail", scheduler: "s1", tenant: "t1", route: "tailLog" };
    const page = { items: [], next: 0, head: 0, floor: 0 };
    const script = new Script()
      .add({ kind: "call", ...about, params: {}, query: { after: "0" }, idempotencyKey: null, body: null })
      .start("r1")
      .add({ kind: "answer", ...about, status: 200, body: page });

    expect(script.judge("durable").violations).toEqual([]);
    expect(passed(script.created("r1").read(), "durable")).toBe(true);
  });
});
