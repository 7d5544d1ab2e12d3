import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const resourceReference = { resourceRef: { resourceId: "blob", workerName: "w1", type: "blob" } };
const sticky = [{ policy: { affinity: { key: "k" } } }, { policy: { affinity: { key: "k" } } }];
const runWithStickyKey = () => new ObservationScript().start("r1", sticky).created("r1").joined("w1").joined("w2");
const dispatch = (script: ObservationScript, worker: string) =>
  script
    .accepted(worker, `c-${worker}`, `s-${worker}`)
    .sendToWorker(
      worker,
      `c-${worker}`,
      "biz.exec.dispatch",
      { run_id: "r1", task_id: "r1.1", fence: 10, parameters: { in: [resourceReference] } },
      { seq: 0 },
    );
const artifactLeft = (script: ObservationScript) =>
  script.commitTaskFact("r1.0", "task.artifact", { resource: "blob", worker: "t1/w1" }).read();

describe("pinned", () => {
  it("[X67] the pinned checker reports a task sent to another worker than the one that holds its resource", () => {
    expect(passesChecker(dispatch(artifactLeft(runWithStickyKey()), "w1"), "pinned")).toBe(true);
    expect(violationOf(dispatch(artifactLeft(runWithStickyKey()), "w2"), "pinned")).toContain(
      "was sent to t1/w2, and blob lies with t1/w1",
    );
    expect(violationOf(dispatch(runWithStickyKey(), "w1"), "pinned")).toContain("lies with nobody");
  });

  it("[X72] the pinned checker reports a task granted after its worker had reported the task's resource as removed", () => {
    const removed = (script: ObservationScript, data: object) =>
      script.commitTaskFact("r1.0", "artifact.removed", { resource: "blob", ...data });
    const granted = (script: ObservationScript) => dispatch(script.granted("r1.1", "w1", 10).read(), "w1");
    const byWorker = { worker: "t1/w1", reason: "evicted" };

    expect(violationOf(granted(removed(artifactLeft(runWithStickyKey()), byWorker)), "pinned")).toContain(
      "says that blob is gone",
    );
    expect(passesChecker(granted(artifactLeft(removed(artifactLeft(runWithStickyKey()), byWorker))), "pinned")).toBe(true);
    expect(passesChecker(removed(granted(artifactLeft(runWithStickyKey())), byWorker).read(), "pinned")).toBe(true);
    expect(passesChecker(granted(removed(artifactLeft(runWithStickyKey()), { reason: "expired" })), "pinned")).toBe(true);
  });

  it("[X67] the pinned checker reports a sticky key that moves though its worker is not lost and the run is not rebound", () => {
    const two = (between: (script: ObservationScript) => ObservationScript) =>
      between(runWithStickyKey().granted("r1.0", "w1", 10))
        .granted("r1.1", "w2", 11)
        .read();

    expect(
      violationOf(
        two((script) => script),
        "pinned",
      ),
    ).toContain("and key k is with t1/w1");
    expect(
      passesChecker(
        two((script) => script.commit(["worker/t1/w1", "worker.lost"])),
        "pinned",
      ),
    ).toBe(true);
    expect(
      passesChecker(
        two((script) => script.commit(["run/r1", "run.rebound"])),
        "pinned",
      ),
    ).toBe(true);
    expect(passesChecker(runWithStickyKey().granted("r1.0", "w1", 10).granted("r1.1", "w1", 11).read(), "pinned")).toBe(true);
  });
});
