import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

describe("no loss", () => {
  it("[X20] the no-loss checker finds an accepted run that a later read does not find", () => {
    const gone = { status: 404, body: { error: "E.NOT_FOUND" } };
    const script = new ObservationScript().start("r1").exchange("getRun", { params: { runId: "r1" } }, gone);

    expect(violationOf(script, "no-loss")).toBe("run r1 was accepted and is not found by getRun on s1");
  });

  it("[X20] the no-loss checker finds an accepted run that the list leaves out, and only within the page's range", () => {
    const page = (items: string[], nextCursor: string | null) => ({
      status: 200,
      body: { items: items.map((runId) => ({ runId })), nextCursor },
    });
    const started = () =>
      new ObservationScript().start("r1").start("r2").start("r3").created("r1").created("r2").created("r3").read();

    expect(passesChecker(started().exchange("listRuns", {}, page(["r3", "r2"], "c1")), "no-loss")).toBe(true);
    expect(violationOf(started().exchange("listRuns", {}, page(["r3", "r1"], null)), "no-loss")).toContain(
      "run r2 was accepted and is missing",
    );
    const next = (items: string[]) =>
      started()
        .exchange("listRuns", {}, page(["r3", "r2"], "c1"))
        .exchange("listRuns", { query: { cursor: "c1" } }, page(items, null));
    expect(passesChecker(next(["r1"]), "no-loss")).toBe(true);
    expect(violationOf(next([]), "no-loss")).toContain("run r1 was accepted and is missing");
  });

  it("[X20] the no-loss checker finds an accepted run missing from the log at the end, and expects nothing of an unanswered start", () => {
    expect(violationOf(new ObservationScript().start("r1").read(), "no-loss")).toContain("is not in the log at the end");
    expect(passesChecker(new ObservationScript().start("r1").start(null).created("r1").read(), "no-loss")).toBe(true);
  });
});
