import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const listRuns = (items: object[], query = {}) =>
  new ObservationScript()
    .start("r1")
    .start("r2")
    .exchange("listRuns", { query }, { status: 200, body: { items, nextCursor: null } });
const runView = (runId: string, status = "queued") => ({ runId, status, clientId: runId });

describe("conservation", () => {
  it("[X31] the conservation checker finds a run that is listed twice, listed but never requested, or listed under another state", () => {
    expect(passesChecker(listRuns([runView("r1"), runView("r2")]), "conservation")).toBe(true);
    expect(violationOf(listRuns([runView("r1"), runView("r1")]), "conservation")).toContain("shows a run twice");
    expect(violationOf(listRuns([runView("r3")]), "conservation")).toContain("run r3 is listed and was never requested");
    expect(violationOf(listRuns([runView("r1", "failed")], { status: "queued" }), "conservation")).toContain(
      "is failed in the list of those queued",
    );
  });

  it("[X31] the conservation checker finds a run whose nodes are not those of its definition, or do not add up to its state", () => {
    const run = (status: string, ...states: string[]) =>
      new ObservationScript().start("r1", [{}, {}]).show(
        "r1",
        status,
        states.map((state) => ({ status: state })),
      );

    expect(passesChecker(run("running", "succeeded", "running"), "conservation")).toBe(true);
    expect(passesChecker(run("failed", "failed", "cancelled"), "conservation")).toBe(true);
    expect(violationOf(run("running", "running"), "conservation")).toContain("was requested with");
    expect(violationOf(run("succeeded", "succeeded", "cancelled"), "conservation")).toContain("although not every node did");
    expect(violationOf(run("cancelled", "cancelled", "running"), "conservation")).toContain("is cancelled with 1 open, 1 ended");
    expect(violationOf(run("queued", "queued", "running"), "conservation")).toContain("although a node has moved");
    expect(violationOf(run("running", "running", "asleep"), "conservation")).toContain("in no known state");
  });
});
