import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const runWithWorker = (policy = {}, options = {}) =>
  new ObservationScript(options).start("r1", [{ policy }, {}, {}]).created("r1").joined("w1", 2);
const worker = "worker/t1/w1";

describe("eligibility", () => {
  it("[X34] the eligibility checker reports a grant to a worker that is draining, away, lost or not a worker of the tenant", () => {
    const after = (type: string) => runWithWorker().commit([worker, type]).granted("r1.0", "w1", 10).read();

    expect(passesChecker(runWithWorker().granted("r1.0", "w1", 10).read(), "eligibility")).toBe(true);
    expect(violationOf(after("worker.draining"), "eligibility")).toContain("to t1/w1, which is draining");
    expect(violationOf(after("worker.left"), "eligibility")).toContain("which is away");
    expect(violationOf(after("worker.lost"), "eligibility")).toContain("which is lost");
    expect(violationOf(runWithWorker().granted("r1.0", "w9", 10).read(), "eligibility")).toContain(
      "which is not a worker of this tenant",
    );
  });

  it("[X34] the eligibility checker assumes no order among turns of one instant and accepts a grant beside a drain or undrain", () => {
    const grant = ["run/r1", "task.granted", { task: "r1.0", worker: "t1/w1", fence: 10, attempt: 1 }] as const;

    expect(passesChecker(runWithWorker().commit(grant, [worker, "worker.draining"]).read(), "eligibility")).toBe(true);
    expect(
      passesChecker(
        runWithWorker().commit([worker, "worker.draining"]).commit([worker, "worker.undrained"], grant).read(),
        "eligibility",
      ),
    ).toBe(true);
  });

  it("[X34] the eligibility checker reports a grant beyond a worker's slots, beyond its limit for a node type, or outside the task's pool", () => {
    const third = runWithWorker().granted("r1.0", "w1", 10).granted("r1.1", "w1", 11).granted("r1.2", "w1", 12);

    expect(violationOf(third.read(), "eligibility")).toContain("which holds 3 attempts and has 2 slots");
    expect(violationOf(runWithWorker({ pool: "gpu" }).granted("r1.0", "w1", 10).read(), "eligibility")).toContain(
      "in pool default, not gpu",
    );
    const second = runWithWorker({}, { perNodeLimits: { "sim.step": 1 } })
      .granted("r1.0", "w1", 10)
      .granted("r1.1", "w1", 11);
    expect(violationOf(second.read(), "eligibility")).toContain("which takes 1 of sim.step at once");
  });

  it("[X34] the eligibility checker reports a grant to another tenant's worker, even one that is online", () => {
    const script = runWithWorker()
      .commit(["worker/t2/w1", "worker.joined", { boot: "b", epoch: 1, slots: 2, name: "w1" }])
      .commit(["run/r1", "task.granted", { task: "r1.0", worker: "t2/w1", fence: 10, attempt: 1 }]);

    expect(violationOf(script.read(), "eligibility")).toContain("to t2/w1, which is not a worker of this tenant");
  });

  it.each([
    ["sim", "2.0.0"],
    ["other", "1.0.0"],
  ])("[X34] the eligibility checker reports a grant to a worker that does not have package %s %s", (name, version) => {
    const id = "00000000-0000-4000-8000-000000000000";
    const workflow = { nodes: [{ id, type: "sim.step", package: { name, version } }], edges: [] };
    const script = new ObservationScript().startWorkflow("r1", workflow).created("r1").joined("w1", 2).granted("r1.0", "w1", 10);

    expect(violationOf(script.read(), "eligibility")).toContain(`which does not have ${name} ${version}`);
  });

  it("[X34] the eligibility checker reports a dispatch on a session that was not accepted or was reset", () => {
    const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const live = () => runWithWorker().read().sendToWorker("w1", "c1", "control.session.accept", {});
    const send = (script: ObservationScript) => script.sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });

    expect(passesChecker(send(live()), "eligibility")).toBe(true);
    expect(violationOf(send(runWithWorker().read()), "eligibility")).toContain("before its session was accepted");
    expect(violationOf(send(live().sendToWorker("w1", "c1", "control.reset", {})), "eligibility")).toContain(
      "after its session was reset",
    );
  });
});
