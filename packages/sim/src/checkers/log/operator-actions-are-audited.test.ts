import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const skipNode = (script: ObservationScript, status = 202, body: object = { runId: "r1", tasks: [] }) =>
  script.exchange("skipNode", { params: { runId: "r1", nodeId: "n" } }, { status, body });
const auditEntry = (script: ObservationScript, outcome = "ok", by: string | null = "ada") =>
  script.commit(["run/r1", "audit.run.skip", { target: "r1", targetType: "run", outcome, by }]);
const runStarted = () => new ObservationScript().start("r1").created("r1");

describe("audit", () => {
  it("[X66] the audit checker finds an operator action that was answered and left no entry, or one with another outcome", () => {
    expect(passesChecker(auditEntry(skipNode(runStarted())).read(), "audit")).toBe(true);
    expect(violationOf(skipNode(runStarted()).read().read(), "audit")).toContain(
      "was answered with ok, and the audit says nothing",
    );
    const refused = () => skipNode(runStarted(), 409, { error: "E.TASK.ENDED" });
    expect(passesChecker(auditEntry(refused(), "E.TASK.ENDED").read(), "audit")).toBe(true);
    expect(violationOf(auditEntry(refused()).read(), "audit")).toContain("answered with E.TASK.ENDED, and the audit says ok");
  });

  it("[X66] the audit checker finds an entry that nobody requested, or that names nobody", () => {
    expect(violationOf(auditEntry(runStarted()).read(), "audit")).toContain("asked 0 times");
    expect(violationOf(auditEntry(skipNode(runStarted()), "ok", null).read(), "audit")).toContain("nobody is named");
    const gone = () =>
      runStarted().exchange(
        "skipNode",
        { params: { runId: "r2", nodeId: "n" } },
        { status: 404, body: { error: "E.NOT_FOUND" } },
      );
    expect(passesChecker(auditEntry(skipNode(gone())).read(), "audit")).toBe(true);
  });

  it("[X77] the audit checker finds a missing or wrong entry for a worker command: kick, package or rebind, refused or not", () => {
    const commanded = (type: string, status: number, body: object) =>
      new ObservationScript().exchange(
        "commandWorker",
        { params: { workerName: "w1" }, body: JSON.stringify({ type }) },
        { status, body },
      );
    const audited = (script: ObservationScript, action: string, outcome: string) =>
      script.commit(["worker/t1/w1", `audit.${action}`, { target: "w1", targetType: "worker", outcome, by: "ada" }]).read();
    const kicked = () =>
      new ObservationScript().exchange("kickWorker", { params: { workerId: "w1" } }, { status: 202, body: {} });
    const nowhere = () => commanded("rebind", 400, { error: "E.REQUEST.INVALID" });
    const away = () => commanded("pkg.install", 409, { error: "E.SESSION.UNKNOWN" });

    expect(passesChecker(audited(kicked(), "worker.kick", "ok"), "audit")).toBe(true);
    expect(violationOf(kicked().read(), "audit")).toContain("worker.kick w1 was answered with ok, and the audit says nothing");
    expect(passesChecker(audited(nowhere(), "worker.rebind", "E.REQUEST.INVALID"), "audit")).toBe(true);
    expect(violationOf(nowhere().read(), "audit")).toContain("worker.rebind w1 was answered with E.REQUEST.INVALID");
    expect(passesChecker(audited(commanded("rebind", 202, {}), "worker.rebind", "E.RUN.TERMINAL"), "audit")).toBe(true);
    expect(violationOf(audited(away(), "pkg.install", "ok"), "audit")).toContain(
      "answered with E.SESSION.UNKNOWN, and the audit says ok",
    );
  });

  it("[X77] the audit checker takes the rebind of a run as requested when its worker got a rebind command", () => {
    const leave = new ObservationScript().exchange(
      "commandWorker",
      { params: { workerName: "w1" }, body: JSON.stringify({ type: "rebind", queue: "worker.w2" }) },
      { status: 202, body: {} },
    );
    const rebound = (script: ObservationScript) =>
      script.commit(["run/r1", "audit.run.rebind", { target: "r1", targetType: "run", outcome: "ok", by: "ada" }]).read();

    expect(
      rebound(leave)
        .runChecker("audit")
        .violations.map(({ message }) => message),
    ).toEqual(["t1 worker.rebind w1 was answered with ok, and the audit says nothing"]);
    expect(violationOf(rebound(runStarted()), "audit")).toContain("asked 0 times");
  });
});
