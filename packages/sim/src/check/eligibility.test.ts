import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const ready = (policy = {}, wish = {}) => new Script(wish).start("r1", [{ policy }, {}, {}]).created("r1").joined("w1", 2);
const worker = "worker/t1/w1";

describe("eligibility", () => {
  it("[X34] finds a grant to a worker that drains, is away or lost, is unknown, or is of another tenant", () => {
    const after = (type: string) => ready().commit([worker, type]).granted("r1.0", "w1", 10).read();

    expect(passed(ready().granted("r1.0", "w1", 10).read(), "eligibility")).toBe(true);
    expect(caught(after("worker.draining"), "eligibility")).toContain("to t1/w1, which drains");
    expect(caught(after("worker.left"), "eligibility")).toContain("which is away");
    expect(caught(after("worker.lost"), "eligibility")).toContain("which is lost");
    expect(caught(ready().granted("r1.0", "w9", 10).read(), "eligibility")).toContain("a stranger there");
  });

  it("[X34] turns that share an instant are no order: a drain after a grant is fine", () => {
    const grant = ["run/r1", "task.granted", { task: "r1.0", worker: "t1/w1", fence: 10, attempt: 1 }] as const;

    expect(passed(ready().commit(grant, [worker, "worker.draining"]).read(), "eligibility")).toBe(true);
    expect(
      passed(ready().commit([worker, "worker.draining"]).commit([worker, "worker.undrained"], grant).read(), "eligibility"),
    ).toBe(true);
  });

  it("[X34] finds a grant beyond the slots or the limit of a node type, outside the pool, or of a package that is not there", () => {
    const third = ready().granted("r1.0", "w1", 10).granted("r1.1", "w1", 11).granted("r1.2", "w1", 12);

    expect(caught(third.read(), "eligibility")).toContain("which holds 3 attempts and has 2 slots");
    expect(caught(ready({ pool: "gpu" }).granted("r1.0", "w1", 10).read(), "eligibility")).toContain("in pool default, not gpu");
    const second = ready({}, { perNodeLimits: { "sim.step": 1 } })
      .granted("r1.0", "w1", 10)
      .granted("r1.1", "w1", 11);
    expect(caught(second.read(), "eligibility")).toContain("which takes 1 of sim.step at once");
  });

  it("[X34] finds a dispatch on a session that is not accepted, was reset, or is another tenant's", () => {
    const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const live = () => ready().read().hears("w1", "c1", "control.session.accept", {});
    const send = (script: Script) => script.hears("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });

    expect(passed(send(live()), "eligibility")).toBe(true);
    expect(caught(send(ready().read()), "eligibility")).toContain("before its session was accepted");
    expect(caught(send(live().hears("w1", "c1", "control.reset", {})), "eligibility")).toContain("after its session was reset");
  });
});
