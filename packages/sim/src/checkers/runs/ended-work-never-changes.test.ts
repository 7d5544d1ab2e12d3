import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

describe("terminal for ever", () => {
  it("[X25] the terminal checker finds an ended run or node that a later read shows changed", () => {
    const script = () => new ObservationScript().start("r1").show("r1", "succeeded", [{ status: "succeeded", result: { a: 1 } }]);

    expect(
      passesChecker(script().show("r1", "succeeded", [{ status: "succeeded", result: { a: 1 } }], { asOf: 9 }), "terminal"),
    ).toBe(true);
    expect(violationOf(script().show("r1", "failed", [{ status: "succeeded", result: { a: 1 } }]), "terminal")).toContain(
      "r1 had ended and changed",
    );
    expect(violationOf(script().show("r1", "succeeded", [{ status: "succeeded", result: { a: 2 } }]), "terminal")).toContain(
      "r1.0 had ended and changed",
    );
  });

  it("[X25] the terminal checker lets the artifacts that an ended node left with its worker end later", () => {
    const left = (artifact: object) => [{ status: "succeeded", artifacts: [{ resourceId: "blob", type: "blob", ...artifact }] }];
    const script = () => new ObservationScript().start("r1").show("r1", "succeeded", left({}));

    expect(passesChecker(script().show("r1", "succeeded", left({ removed: "evicted" })), "terminal")).toBe(true);
    expect(violationOf(script().show("r1", "succeeded", left({ sizeBytes: 7 })), "terminal")).toContain(
      "r1.0 had ended and changed",
    );
  });

  it("[X25] the terminal checker lets an open run change, and a read requested before the end was seen show the past", () => {
    const script = new ObservationScript()
      .start("r1")
      .show("r1", "running", [{ status: "running" }])
      .show("r1", "succeeded", [{ status: "succeeded" }]);
    const about = { call: 99, caller: "reader", scheduler: "s2", tenant: "t1", route: "getRun" };
    const early = new ObservationScript()
      .observe({ kind: "call", ...about, params: { runId: "r1" }, query: {}, idempotencyKey: null, body: null })
      .show("r1", "succeeded", [{ status: "succeeded" }])
      .observe({ kind: "answer", ...about, status: 200, body: { runId: "r1", status: "running", nodes: [] } })
      .show("r1", "succeeded", [{ status: "succeeded" }]);

    expect(script.runChecker("terminal").violations).toEqual([]);
    expect(passesChecker(early, "terminal")).toBe(true);
  });
});
