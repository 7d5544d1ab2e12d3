import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const begun = () => new Script().accepted("w1", "c1", "s-1");
const asks = (session = "s-1") =>
  begun()
    .link("w1", "c1", "closed")
    .link("w1", "c2", "dialled")
    .link("w1", "c2")
    .says("w1", "c2", "control.resume", { session_id: session, session_token: "t", last_seen_seq: 0 });
const accept = (session: string, resumed: boolean) => ({ session_id: session, session_token: "u", resumed });
const reset = { code: "E.SESSION.UNKNOWN", reason: "no such session" };

describe("verdicts", () => {
  it("[X55] finds a resume that is never answered by a scheduler that lives", () => {
    const later = (script: Script) => script.wait(60_000).read();

    expect(caught(later(asks()), "verdicts")).toContain("asked on c2 to resume s-1 and was never answered");
    expect(passed(later(asks().hears("w1", "c2", "control.session.accept", accept("s-1", true))), "verdicts")).toBe(true);
    expect(passed(later(asks().hears("w1", "c2", "control.reset", reset)), "verdicts")).toBe(true);
    expect(later(asks().link("w1", "c2", "closed")).judge("verdicts").violations).toEqual([]);
  });

  it("[X55] finds that another session begins without a reset where one was to be resumed", () => {
    expect(caught(asks().hears("w1", "c2", "control.session.accept", accept("s-2", false)), "verdicts")).toContain(
      "asked to resume s-1 and was let into s-2 without a reset",
    );
    expect(caught(begun().accepted("w1", "c2", "s-9", { resumed: true }), "verdicts")).toContain("had not asked");
  });

  it("[X55] finds a session that goes on after its reset", () => {
    const over = () => begun().hears("w1", "c1", "control.reset", reset);

    expect(caught(over().resumed("w1", "c2", "s-1"), "verdicts")).toContain("let into s-1, which was reset on c1");
    expect(caught(over().hears("w1", "c1", "biz.exec.dispatch", {}, { seq: 0 }), "verdicts")).toContain("which was reset on c1");
  });
});
