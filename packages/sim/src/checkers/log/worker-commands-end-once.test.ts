import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const acceptCommand = (script: ObservationScript, commandId = "c1", key: string | null = null) =>
  script.exchange("kickWorker", { params: { workerId: "w1" }, key }, { status: 202, body: { commandId } });
const endCommand = (script: ObservationScript, type = "command.acked", id = "c1") =>
  script.commit(["worker/t1/w1", type, { id }]).read();
const showCommand = (script: ObservationScript, status: string, asOf: number) =>
  script.exchange("getCommand", { params: { commandId: "c1" } }, { status: 200, body: { commandId: "c1", status, asOf } });
const endWorld = (script: ObservationScript) => script.phase("converged", true).phase("end");

describe("commands", () => {
  it("[X75] the commands checker finds a command that never ends, also where its answer was lost, and one that ends twice", () => {
    const unanswered = () =>
      new ObservationScript()
        .joined("w1")
        .commit(["worker/t1/w1", "audit.worker.kick", { target: "w1", command: "c1", outcome: "ok", by: "ada" }]);

    expect(passesChecker(endWorld(endCommand(acceptCommand(new ObservationScript()))), "commands")).toBe(true);
    expect(violationOf(endWorld(acceptCommand(new ObservationScript()).read()), "commands")).toContain(
      "kickWorker of t1 was accepted, and command t1 c1 never",
    );
    expect(violationOf(endWorld(unanswered().read()), "commands")).toContain("audit.worker.kick stands in the log of t1");
    expect(endWorld(unanswered().commit(["worker/t1/w1", "worker.left"]).read()).runChecker("commands").violations).toEqual([]);
    expect(violationOf(endCommand(endCommand(acceptCommand(new ObservationScript())), "command.failed"), "commands")).toContain(
      "is acked at position 1 and ends again",
    );
  });

  it("[X75] the commands checker finds a command document that differs from the log as of its position", () => {
    expect(
      passesChecker(
        showCommand(endCommand(showCommand(acceptCommand(new ObservationScript()), "sent", 0)), "acked", 1),
        "commands",
      ),
    ).toBe(true);
    expect(violationOf(showCommand(endCommand(acceptCommand(new ObservationScript())), "sent", 1), "commands")).toContain(
      "is sent, true at 1; the log says acked",
    );
    expect(
      violationOf(showCommand(endCommand(acceptCommand(new ObservationScript()), "command.failed"), "acked", 1), "commands"),
    ).toContain("the log says failed");
  });

  it("[X75] the commands checker finds two commands under one idempotency key", () => {
    expect(passesChecker(acceptCommand(acceptCommand(new ObservationScript(), "c1", "k"), "c1", "k"), "commands")).toBe(true);
    expect(violationOf(acceptCommand(acceptCommand(new ObservationScript(), "c1", "k"), "c2", "k"), "commands")).toContain(
      "stands for command t1 c1 and for t1 c2",
    );
  });
});
