import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const nodeView = (status: string, more: object = {}) => ({ taskId: "r1.0", nodeId: "n", status, ...more });
const runView = (nodes: readonly object[], more: object = {}) => ({ runId: "r1", status: "running", asOf: 2, nodes, ...more });
const runShown = (before: object) =>
  new ObservationScript().start("r1").exchange("getRun", { params: { runId: "r1" } }, { status: 200, body: before });
const readSnapshot = (script: ObservationScript, body: object, status = 200, at = "2") =>
  script.exchange("readMoment", { params: { runId: "r1" }, query: { at }, on: "s2" }, { status, body });

describe("moments", () => {
  it("[X73] the moments checker finds a run, and a node, that a later read of the same position shows differently", () => {
    const was = runView([nodeView("running", { fence: 2 })]);

    expect(passesChecker(readSnapshot(runShown(was), { ...was, at: 2 }), "moments")).toBe(true);
    expect(
      violationOf(readSnapshot(runShown(was), runView([nodeView("running", { fence: 3 })], { at: 2 })), "moments"),
    ).toContain("then it was");
    expect(violationOf(readSnapshot(runShown(was), runView([], { at: 2 })), "moments")).toContain("shows r1.0 as nothing");
    expect(violationOf(readSnapshot(runShown(was), { ...was, at: 2, status: "queued" }), "moments")).toContain(
      "shows the run as",
    );
  });

  it("[X73] the moments checker finds a past state that is refused, or is of another position than requested", () => {
    const was = runView([nodeView("running")]);

    expect(violationOf(readSnapshot(runShown(was), { error: "E.NOT_FOUND" }, 404), "moments")).toContain(
      "answered with 404 E.NOT_FOUND",
    );
    expect(violationOf(readSnapshot(runShown(was), { ...was, at: 2, asOf: 9 }), "moments")).toContain("is shown as of 9");
    expect(readSnapshot(runShown(was), { error: "E.OVERLOADED" }, 503).runChecker("moments").saw).toBe(0);
  });

  it("[X73] the moments checker ignores what the log does not record: partial results, whether an artifact still exists, names", () => {
    const artifact = { resourceId: "a", status: "ready", workerName: "old" };
    const was = runView([
      nodeView("running", { result: { part: 1 }, state: { stage: "running", worker: "old" }, artifacts: [artifact] }),
    ]);
    const gone = { resourceId: "a", status: "expired", removed: "expired", workerName: "new" };
    const is = runView([nodeView("running", { artifacts: [gone], state: { worker: "new", stage: "running" } })], { at: 2 });
    const ended = (out: number) => runView([nodeView("succeeded", { result: { out } })], { at: 2 });

    expect(passesChecker(readSnapshot(runShown(was), is), "moments")).toBe(true);
    expect(violationOf(readSnapshot(runShown(ended(1)), ended(2)), "moments")).toContain("then it was");
  });
});
