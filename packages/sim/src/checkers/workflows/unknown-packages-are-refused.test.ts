import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const body = (allowUnknown: boolean, name = "missing") =>
  JSON.stringify({
    workflow: { nodes: [{ id: "n", type: "missing.step", package: { name, version: "1.0.0" } }], edges: [] },
    clientId: "c",
    allowUnknown,
  });
const refusal = { error: "E.WORKFLOW.INVALID", details: { path: "/nodes/0/package/name" } };
const catalogueFilled = () =>
  new ObservationScript().exchange("listPackages", {}, { status: 200, body: { items: [{ name: "sim" }] } }).wait(5_000);
const requestStart = (script: ObservationScript, status: number, answer: object, isAllowed = false) =>
  script.exchange("startRun", { key: "k", body: body(isAllowed) }, { status, body: answer });
const created = (script: ObservationScript) => script.created("r1", "c").read();

describe("unknown packages", () => {
  it("[X76] the unknown-package checker reports an unknown package accepted while the catalogue lists others, and a refusal that does not name it", () => {
    expect(passesChecker(requestStart(catalogueFilled(), 400, refusal), "unknown-package")).toBe(true);
    expect(passesChecker(requestStart(new ObservationScript(), 202, { runId: "r1" }), "unknown-package")).toBe(true);
    expect(violationOf(requestStart(catalogueFilled(), 202, { runId: "r1" }), "unknown-package")).toContain("was accepted");
    const unnamed = { ...refusal, details: { path: "/nodes/0/type" } };
    expect(violationOf(requestStart(catalogueFilled(), 400, unnamed), "unknown-package")).toContain("at /nodes/0/type");
  });

  it("[X76] the unknown-package checker reports the refusal of an unknown package that was allowed, and a run that exists though it was refused", () => {
    expect(passesChecker(requestStart(catalogueFilled(), 202, { runId: "r1" }, true), "unknown-package")).toBe(true);
    expect(violationOf(requestStart(catalogueFilled(), 400, refusal, true), "unknown-package")).toContain(
      "allows that and was answered with 400",
    );
    expect(violationOf(created(requestStart(catalogueFilled(), 400, refusal)), "unknown-package")).toContain(
      "was refused, and run r1 exists",
    );
  });

  it("[X76] the unknown-package checker reports a grant of an unknown package's task, and such a run that ends other than cancelled", () => {
    const waits = () => created(requestStart(catalogueFilled(), 202, { runId: "r1" }, true));

    expect(passesChecker(waits().commit(["run/r1", "run.cancelled"]).read(), "unknown-package")).toBe(true);
    expect(violationOf(waits().granted("r1.0", "w1", 1).read(), "unknown-package")).toContain("was given away");
    expect(violationOf(waits().commit(["run/r1", "run.succeeded"]).read(), "unknown-package")).toContain(
      "is succeeded, and nobody",
    );
  });
});
