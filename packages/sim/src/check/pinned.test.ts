import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const kept = { resourceRef: { resourceId: "blob", workerName: "w1", type: "blob" } };
const sticky = [{ policy: { affinity: { key: "k" } } }, { policy: { affinity: { key: "k" } } }];
const begun = () => new Script().start("r1", sticky).created("r1").joined("w1").joined("w2");
const dispatch = (script: Script, worker: string) =>
  script
    .accepted(worker, `c-${worker}`, `s-${worker}`)
    .hears(
      worker,
      `c-${worker}`,
      "biz.exec.dispatch",
      { run_id: "r1", task_id: "r1.1", fence: 10, parameters: { in: [kept] } },
      { seq: 0 },
    );
const made = (script: Script) => script.tells("r1.0", "task.artifact", { resource: "blob", worker: "t1/w1" }).read();

describe("pinned", () => {
  it("[X67] finds work that was sent elsewhere than where lies what it refers to", () => {
    expect(passed(dispatch(made(begun()), "w1"), "pinned")).toBe(true);
    expect(caught(dispatch(made(begun()), "w2"), "pinned")).toContain("was sent to t1/w2, and blob lies with t1/w1");
    expect(caught(dispatch(begun(), "w1"), "pinned")).toContain("lies with nobody");
  });

  it("[X72] finds work that was granted after its worker had said that what it refers to is gone", () => {
    const removed = (script: Script, data: object) => script.tells("r1.0", "artifact.removed", { resource: "blob", ...data });
    const granted = (script: Script) => dispatch(script.granted("r1.1", "w1", 10).read(), "w1");
    const byWorker = { worker: "t1/w1", reason: "evicted" };

    expect(caught(granted(removed(made(begun()), byWorker)), "pinned")).toContain("says that blob is gone");
    expect(passed(granted(made(removed(made(begun()), byWorker))), "pinned")).toBe(true);
    expect(passed(removed(granted(made(begun())), byWorker).read(), "pinned")).toBe(true);
    expect(passed(granted(removed(made(begun()), { reason: "expired" })), "pinned")).toBe(true);
  });

  it("[X67] finds a sticky key that moves while its worker is there", () => {
    const two = (between: (script: Script) => Script) =>
      between(begun().granted("r1.0", "w1", 10))
        .granted("r1.1", "w2", 11)
        .read();

    expect(
      caught(
        two((script) => script),
        "pinned",
      ),
    ).toContain("and key k is with t1/w1");
    expect(
      passed(
        two((script) => script.commit(["worker/t1/w1", "worker.lost"])),
        "pinned",
      ),
    ).toBe(true);
    expect(
      passed(
        two((script) => script.commit(["run/r1", "run.rebound"])),
        "pinned",
      ),
    ).toBe(true);
    expect(passed(begun().granted("r1.0", "w1", 10).granted("r1.1", "w1", 11).read(), "pinned")).toBe(true);
  });
});
