import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const skip = (script: Script, status = 202, body: object = { runId: "r1", tasks: [] }) =>
  script.exchange("skipNode", { params: { runId: "r1", nodeId: "n" } }, { status, body });
const entry = (script: Script, outcome = "ok", by: string | null = "ada") =>
  script.commit(["run/r1", "audit.run.skip", { target: "r1", targetType: "run", outcome, by }]);
const begun = () => new Script().start("r1").created("r1");

describe("audit", () => {
  it("[X66] finds an order that was answered and left no entry, or one with another outcome", () => {
    expect(passed(entry(skip(begun())).read(), "audit")).toBe(true);
    expect(caught(skip(begun()).read().read(), "audit")).toContain("was answered with ok, and the audit says nothing");
    const refused = () => skip(begun(), 409, { error: "E.TASK.ENDED" });
    expect(passed(entry(refused(), "E.TASK.ENDED").read(), "audit")).toBe(true);
    expect(caught(entry(refused()).read(), "audit")).toContain("answered with E.TASK.ENDED, and the audit says ok");
  });

  it("[X66] finds an entry that nobody asked for, or that names nobody", () => {
    expect(caught(entry(begun()).read(), "audit")).toContain("asked 0 times");
    expect(caught(entry(skip(begun()), "ok", null).read(), "audit")).toContain("nobody is named");
    const gone = () =>
      begun().exchange("skipNode", { params: { runId: "r2", nodeId: "n" } }, { status: 404, body: { error: "E.NOT_FOUND" } });
    expect(passed(entry(skip(gone())).read(), "audit")).toBe(true);
  });
});
