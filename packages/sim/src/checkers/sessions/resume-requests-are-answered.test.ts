import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const sessionAccepted = () => new ObservationScript().accepted("w1", "c1", "s-1");
const requestResume = (session = "s-1") =>
  sessionAccepted()
    .link("w1", "c1", "closed")
    .link("w1", "c2", "dialled")
    .link("w1", "c2")
    .sendToScheduler("w1", "c2", "control.resume", { session_id: session, session_token: "t", last_seen_seq: 0 });
const accept = (session: string, resumed: boolean) => ({ session_id: session, session_token: "u", resumed });
const reset = { code: "E.SESSION.UNKNOWN", reason: "no such session" };

describe("verdicts", () => {
  it("[X55] the verdicts checker finds a resume that is never answered by a live scheduler", () => {
    const later = (script: ObservationScript) => script.wait(60_000).read();

    expect(violationOf(later(requestResume()), "verdicts")).toContain("asked on c2 to resume s-1 and was never answered");
    expect(
      passesChecker(later(requestResume().sendToWorker("w1", "c2", "control.session.accept", accept("s-1", true))), "verdicts"),
    ).toBe(true);
    expect(passesChecker(later(requestResume().sendToWorker("w1", "c2", "control.reset", reset)), "verdicts")).toBe(true);
    expect(later(requestResume().link("w1", "c2", "closed")).runChecker("verdicts").violations).toEqual([]);
  });

  it("[X55] the verdicts checker finds that another session begins without a reset where one was to be resumed", () => {
    expect(
      violationOf(requestResume().sendToWorker("w1", "c2", "control.session.accept", accept("s-2", false)), "verdicts"),
    ).toContain("asked to resume s-1 and was let into s-2 without a reset");
    expect(violationOf(sessionAccepted().accepted("w1", "c2", "s-9", { resumed: true }), "verdicts")).toContain("had not asked");
  });

  it("[X55] the verdicts checker finds a session that continues after its reset", () => {
    const over = () => sessionAccepted().sendToWorker("w1", "c1", "control.reset", reset);

    expect(violationOf(over().resumed("w1", "c2", "s-1"), "verdicts")).toContain("let into s-1, which was reset on c1");
    expect(violationOf(over().sendToWorker("w1", "c1", "biz.exec.dispatch", {}, { seq: 0 }), "verdicts")).toContain(
      "which was reset on c1",
    );
  });

  it("[X55] the verdicts checker accepts that a session goes on after its older socket was told of the takeover", () => {
    const superseded = { code: "E.SESSION.SUPERSEDED", reason: "this session was resumed on another connection" };
    const taken = () =>
      sessionAccepted()
        .link("w1", "c2", "dialled")
        .link("w1", "c2")
        .sendToScheduler("w1", "c2", "control.resume", { session_id: "s-1", session_token: "t", last_seen_seq: 0 })
        .sendToWorker("w1", "c1", "control.reset", superseded)
        .sendToWorker("w1", "c2", "control.session.accept", accept("s-1", true));

    expect(passesChecker(taken(), "verdicts")).toBe(true);
    expect(
      violationOf(sessionAccepted().sendToWorker("w1", "c1", "control.reset", superseded).resumed("w1", "c2", "s-1"), "verdicts"),
    ).toContain("which was reset on c1");
  });
});
