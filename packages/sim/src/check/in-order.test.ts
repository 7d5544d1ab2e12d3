import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const dispatch = (task: string, fence = 10) => ({ run_id: "r1", task_id: task, fence });
const result = (task: string) => ({ task_id: task, fence: 10, status: "SUCCEEDED", result: {} });
const feedback = (text: string) => ({ run_id: "r1", task_id: "r1.0", fence: 10, chunks: [{ channel: "log", text }] });
const begun = () => new Script().start("r1").created("r1").accepted("w1", "c1", "s-1");
const told = (script: Script) => script.tells("r1.0", "task.feedback", { fence: 10, chunks: { first: 0, count: 1 } }).read();
/** A reader finds these texts stored, one row each. */
const stored = (script: Script, ...texts: string[]) => {
  const items = texts.map((text, first) => ({ first, count: 1, chunks: [{ channel: "log", text }] }));
  return script.exchange("readChunks", { params: { task: "r1.0", fence: "10" } }, { status: 200, body: { items } });
};

describe("in order", () => {
  it("[X49] finds numbers that are left out, or that mean something else later", () => {
    const first = () => begun().hears("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0, lost: true });

    expect(caught(first().hears("w1", "c1", "biz.exec.dispatch", dispatch("r1.1"), { seq: 2 }), "in-order")).toContain(
      "2 was sent after 0",
    );
    const other = first().resumed("w1", "c2", "s-1").hears("w1", "c2", "biz.exec.dispatch", dispatch("r1.1"), { seq: 0 });
    expect(caught(other, "in-order")).toContain("0 was dispatch r1.0#10 and is now dispatch r1.1#10");
    const again = first().resumed("w1", "c2", "s-1").hears("w1", "c2", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0 });
    expect(passed(again, "in-order")).toBe(true);
    expect(passed(first().hears("w1", "c1", "ext.vendor.astraflow.void", {}, { seq: 0 }), "in-order")).toBe(true);
  });

  it("[X49] finds a handler that starts before all that was sent before it has come", () => {
    const hole = () =>
      begun()
        .hears("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0, lost: true })
        .hears("w1", "c1", "biz.exec.dispatch", dispatch("r1.1"), { seq: 1 });

    expect(caught(hole().handler("starts", "w1", "r1.1", 10), "in-order")).toContain("everything is there only up to -1");
    const filled = hole().hears("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0 });
    expect(passed(filled.handler("starts", "w1", "r1.1", 10), "in-order")).toBe(true);
    expect(caught(begun().handler("starts", "w1", "r1.1", 10), "in-order")).toContain("no frame that says so has arrived");
  });

  it("[X49] finds a result in the log that came over a hole, or by a socket that another had replaced", () => {
    const over = begun()
      .says("w1", "c1", "biz.exec.result", result("r1.1"), { seq: 0, lost: true })
      .says("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 1 })
      .tells("r1.0", "task.succeeded", { fence: 10 })
      .read();
    const old = begun()
      .resumed("w1", "c2", "s-1")
      .says("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 0 })
      .tells("r1.0", "task.succeeded", { fence: 10 })
      .read();

    expect(caught(over, "in-order")).toContain("SUCCEEDED r1.0#10 by frame 1");
    expect(caught(old, "in-order")).toContain("no frame that says so has arrived");
  });

  it("[X49] finds feedback that is stored twice however often it came, or that never came", () => {
    const once = () => begun().says("w1", "c1", "biz.exec.feedback", feedback("part 1"), { seq: 0 });
    const anew = () => once().accepted("w1", "c2", "s-2").says("w1", "c2", "biz.exec.feedback", feedback("part 1"), { seq: 0 });

    expect(passed(stored(once(), "part 1"), "in-order")).toBe(true);
    expect(passed(stored(anew(), "part 1"), "in-order")).toBe(true);
    expect(caught(stored(anew(), "part 1", "part 1"), "in-order")).toContain("for the 2. time");
    expect(caught(stored(once(), "part 2"), "in-order")).toContain("never came");
  });

  it("[X49] finds a word of feedback that the log tells more often than it came", () => {
    const once = () => begun().says("w1", "c1", "biz.exec.feedback", feedback("part 1"), { seq: 0 });
    const anew = once().accepted("w1", "c2", "s-2").says("w1", "c2", "biz.exec.feedback", feedback("part 1"), { seq: 0 });

    expect(passed(told(once()), "in-order")).toBe(true);
    expect(caught(told(told(once())), "in-order")).toContain("is the 2. word of feedback of r1.0#10, of which 1 came");
    expect(passed(told(told(anew)), "in-order")).toBe(true);
  });
});
