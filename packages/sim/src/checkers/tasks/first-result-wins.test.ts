import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const resultSent = (result: object) =>
  new ObservationScript()
    .start("r1")
    .sendToScheduler("w1", "c1", "biz.exec.result", { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result }, { seq: 0 });

describe("duplicate results", () => {
  it("[X26] the duplicates checker accepts the result that was sent under the task's fence and reports any other", () => {
    const shown = (fence: number, result: object) =>
      resultSent({ a: 1 }).show("r1", "succeeded", [{ status: "succeeded", fence, result }]);

    expect(passesChecker(shown(10, { a: 1 }), "duplicates")).toBe(true);
    expect(violationOf(shown(10, { a: 2 }), "duplicates")).toContain("is none that was sent under it");
    expect(violationOf(shown(11, { a: 1 }), "duplicates")).toContain("under fence 11");
  });

  it("[X26] the duplicates checker reports a second result under the same fence that replaces the first", () => {
    const again = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: { a: 2 } };
    const node = (result: object) => [{ status: "succeeded", fence: 10, result }];
    const script = resultSent({ a: 1 })
      .show("r1", "succeeded", node({ a: 1 }))
      .sendToScheduler("w1", "c2", "biz.exec.result", again, { seq: 0 });

    expect(passesChecker(script.show("r1", "succeeded", node({ a: 1 })), "duplicates")).toBe(true);
    expect(violationOf(script.show("r1", "succeeded", node({ a: 2 })), "duplicates")).toContain('was {"a":1} and is {"a":2}');
  });
});
