import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const nodeWithKey = { policy: { concurrency: { key: "k" } } };
const runningHandler = () =>
  new ObservationScript()
    .start("r1", [nodeWithKey, nodeWithKey])
    .created("r1")
    .joined("w1")
    .joined("w2")
    .granted("r1.0", "w1", 10)
    .read()
    .handler("starts", "w1", "r1.0", 10);

describe("single flight", () => {
  it("[X32] the single-flight checker finds two attempts that are held at once under one concurrency key", () => {
    expect(violationOf(runningHandler().granted("r1.1", "w2", 11).read(), "single-flight")).toContain(
      "r1.0 and r1.1 are held at once under key k",
    );
    const one = runningHandler().commit(
      ["run/r1", "task.succeeded", { task: "r1.0", fence: 10 }],
      ["run/r1", "task.granted", { task: "r1.1", worker: "t1/w2", fence: 11, attempt: 1 }],
    );
    expect(passesChecker(one.read(), "single-flight")).toBe(true);
  });

  it("[X32] the single-flight checker finds a grant that is started twice", () => {
    expect(violationOf(runningHandler().handler("starts", "w1", "r1.0", 10, { boot: "w1-b2" }), "single-flight")).toContain(
      "r1.0#10 was started twice",
    );
  });

  it("[X32] the single-flight checker finds a handler that runs on after its worker was taken for lost and its attempt requeued", () => {
    const lost = { fence: 11, from: "t1/w1", code: "E.WORKER.LOST" };
    const given = (script: ObservationScript) =>
      script.wait(40_000).commit(["worker/t1/w1", "worker.lost"]).commitTaskFact("r1.0", "task.requeued", lost).read();

    expect(violationOf(given(runningHandler()), "single-flight")).toContain("still runs there, not told to stop");
    expect(passesChecker(given(runningHandler().handler("told", "w1", "r1.0", 10)), "single-flight")).toBe(true);
    expect(
      passesChecker(given(runningHandler().process({ role: "worker", process: "w1", event: "pauses" })), "single-flight"),
    ).toBe(true);
    expect(passesChecker(given(runningHandler().fault({ name: "suspended", target: "w1" })), "single-flight")).toBe(true);
  });
});
