import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const back = (...running: { task_id: string; fence: number }[]) =>
  new Script()
    .start("r1")
    .created("r1")
    .joined("w1")
    .granted("r1.0", "w1", 10)
    .read()
    .says("w1", "c2", "control.register", { capabilities: {}, running });
const joined = ["worker/t1/w1", "worker.joined", { boot: "w1-b1", epoch: 2, slots: 2 }] as const;
const rebound = ["run/r1", "task.rebound", { task: "r1.0", fence: 10, worker: "t1/w1" }] as const;
const requeued = ["run/r1", "task.requeued", { task: "r1.0", fence: 11, from: "t1/w1", code: "E.WORKER.LOST" }] as const;

describe("binding", () => {
  it("[X47] finds an attempt that is bound again to a worker that did not report it", () => {
    expect(passed(back({ task_id: "r1.0", fence: 10 }).commit(joined, rebound).read(), "binding")).toBe(true);
    expect(caught(back().commit(joined, rebound).read(), "binding")).toContain("which never reported it");
    expect(caught(back({ task_id: "r1.0", fence: 9 }).commit(joined, rebound).read(), "binding")).toContain(
      "r1.0 was bound again",
    );
  });

  it("[X47] finds an attempt that is taken from a worker as it comes back, although it reported it", () => {
    expect(passed(back().commit(joined, requeued).read(), "binding")).toBe(true);
    expect(caught(back({ task_id: "r1.0", fence: 10 }).commit(joined, requeued).read(), "binding")).toContain(
      "although it reported it",
    );
    const later = back({ task_id: "r1.0", fence: 10 }).says("w1", "c3", "control.register", { capabilities: {}, running: [] });
    expect(passed(later.commit(joined, requeued).read(), "binding")).toBe(true);
  });

  it("[X47] finds an attempt that is taken from a worker as it resumes the session in which it got it", () => {
    const dispatch = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const sent = () =>
      new Script()
        .start("r1")
        .created("r1")
        .joined("w1")
        .granted("r1.0", "w1", 10)
        .read()
        .says("w1", "c1", "control.register", { capabilities: {}, running: [] })
        .accepted("w1", "c1", "s-1")
        .hears("w1", "c1", "biz.exec.dispatch", dispatch, { seq: 0 });

    expect(caught(sent().resumed("w1", "c2", "s-1").commit(joined, requeued).read(), "binding")).toContain(
      "as it resumed its session",
    );
    const anew = sent().says("w1", "c2", "control.register", { capabilities: {}, running: [] });
    expect(passed(anew.commit(joined, requeued).read(), "binding")).toBe(true);
  });
});
