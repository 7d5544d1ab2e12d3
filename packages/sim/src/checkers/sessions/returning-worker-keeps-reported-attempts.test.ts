import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const registersWith = (...running: { task_id: string; fence: number }[]) =>
  new ObservationScript()
    .start("r1")
    .created("r1")
    .joined("w1")
    .granted("r1.0", "w1", 10)
    .read()
    .sendToScheduler("w1", "c2", "control.register", { capabilities: {}, running });
const workerJoined = ["worker/t1/w1", "worker.joined", { boot: "w1-b1", epoch: 2, slots: 2 }] as const;
const taskRebound = ["run/r1", "task.rebound", { task: "r1.0", fence: 10, worker: "t1/w1" }] as const;
const taskRequeued = ["run/r1", "task.requeued", { task: "r1.0", fence: 11, from: "t1/w1", code: "E.WORKER.LOST" }] as const;

describe("binding", () => {
  it("[X47] the binding checker finds an attempt that is bound again to a worker that did not report it", () => {
    expect(passesChecker(registersWith({ task_id: "r1.0", fence: 10 }).commit(workerJoined, taskRebound).read(), "binding")).toBe(
      true,
    );
    expect(violationOf(registersWith().commit(workerJoined, taskRebound).read(), "binding")).toContain("which never reported it");
    expect(
      violationOf(registersWith({ task_id: "r1.0", fence: 9 }).commit(workerJoined, taskRebound).read(), "binding"),
    ).toContain("r1.0 was rebound");
  });

  it("[X47] the binding checker finds an attempt that is taken from a returning worker although the worker reported it", () => {
    expect(passesChecker(registersWith().commit(workerJoined, taskRequeued).read(), "binding")).toBe(true);
    expect(
      violationOf(registersWith({ task_id: "r1.0", fence: 10 }).commit(workerJoined, taskRequeued).read(), "binding"),
    ).toContain("although it reported it");
    const later = registersWith({ task_id: "r1.0", fence: 10 }).sendToScheduler("w1", "c3", "control.register", {
      capabilities: {},
      running: [],
    });
    expect(passesChecker(later.commit(workerJoined, taskRequeued).read(), "binding")).toBe(true);
  });

  it("[X47] the binding checker finds an attempt that is taken from a worker as it resumes the session in which it got it", () => {
    const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const sent = () =>
      new ObservationScript()
        .start("r1")
        .created("r1")
        .joined("w1")
        .granted("r1.0", "w1", 10)
        .read()
        .sendToScheduler("w1", "c1", "control.register", { capabilities: {}, running: [] })
        .accepted("w1", "c1", "s-1")
        .sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });

    expect(violationOf(sent().resumed("w1", "c2", "s-1").commit(workerJoined, taskRequeued).read(), "binding")).toContain(
      "as it resumed its session",
    );
    const anew = sent().sendToScheduler("w1", "c2", "control.register", { capabilities: {}, running: [] });
    expect(passesChecker(anew.commit(workerJoined, taskRequeued).read(), "binding")).toBe(true);
  });
});
