import { describe, expect, it } from "vitest";
import { chainFlow } from "./testing/flows.ts";
import { caught, passed, Script } from "./testing/script.ts";

const begun = () =>
  new Script()
    .startFlow("r1", chainFlow())
    .created("r1")
    .joined("w1")
    .tells("r1.0", "task.hosting")
    .tells("r1.1", "task.ready")
    .granted("r1.1", "w1", 5);
const asked = (script: Script, target: string, request = "q1", task = "r1.1") =>
  script.tells(task, "next.asked", { request, target });
const answered = (script: Script, target: string, code: string | null, request = "q1", task = "r1.1") =>
  script.tells(task, "next.answered", { request, target, code, ms: 1 });
const ended = (script: Script, task: string, how: string, worker: string | null = "t1/w1") =>
  script.tells(task, `task.${how}`, { worker, fence: 5 });
const request = { requestId: "q1", runId: "r1", nodeId: "outer", middlewareId: "outer" };

describe("chains", () => {
  it("[X64] finds a call that nobody may ask for, out of its numbers, or not the next of the chain", () => {
    expect(passed(asked(begun(), "r1.2~1").read(), "chains")).toBe(true);
    expect(caught(asked(begun(), "r1.0~1").read(), "chains")).toContain("is not the next of its chain");
    expect(caught(asked(begun(), "r1.2~2").read(), "chains")).toContain("as call 1 of it");
    expect(caught(asked(ended(begun(), "r1.1", "succeeded"), "r1.2~1").read(), "chains")).toContain("nobody holds it");
    expect(caught(asked(asked(begun(), "r1.2~1"), "r1.2~2").read(), "chains")).toContain("twice by request q1");
  });

  it("[X64] finds a request that is answered twice, otherwise than its call ended, or never", () => {
    const called = () => ended(asked(begun(), "r1.2~1").tells("r1.2~1", "task.ready"), "r1.2~1", "succeeded");

    expect(passed(answered(called(), "r1.2~1", null).read(), "chains")).toBe(true);
    expect(caught(answered(answered(called(), "r1.2~1", null), "r1.2~1", null).read(), "chains")).toContain("no such request");
    expect(caught(answered(called(), "r1.2~1", "next_failed").read(), "chains")).toContain("and it is succeeded");
    expect(caught(asked(begun(), "r1.2~1").granted("r1.1", "w1", 6, 2).read(), "chains")).toContain("is open");
    const left = ended(called(), "r1.1", "succeeded").commit(["run/r1", "run.succeeded"]);
    expect(caught(left.read(), "chains")).toContain("is open");
  });

  it("[X64] finds a host that ends otherwise than its chain, and a middleware that was never called and is not skipped", () => {
    const over = (inner: string, host: string) =>
      ended(ended(ended(begun(), "r1.1", "succeeded"), "r1.2", inner, null), "r1.0", host, null).read();

    expect(passed(over("skipped", "skipped"), "chains")).toBe(true);
    expect(caught(over("succeeded", "skipped"), "chains")).toContain("was never called and is succeeded");
    expect(caught(over("skipped", "succeeded"), "chains")).toContain("ends well and was never called");
    expect(caught(over("skipped", "failed"), "chains")).toContain("its outermost middleware is succeeded");
    expect(caught(ended(begun(), "r1.0", "skipped", null).read(), "chains")).toContain("before its outermost");
  });

  it("[X64] finds an answer on the wire that was sent twice for one question; after a reset or a resume it may come once more", () => {
    const talk = () => new Script().accepted("w1", "c1", "s-1").says("w1", "c1", "biz.exec.next.request", request, { seq: 0 });
    const say = (script: Script, connection: string, seq: number, result: object = {}) =>
      script.hears("w1", connection, "biz.exec.next.response", { ...request, result }, { seq });

    expect(passed(say(talk(), "c1", 0), "chains")).toBe(true);
    expect(caught(say(say(talk(), "c1", 0), "c1", 1), "chains")).toContain("asked 1 times in s-1 and answered 2 times");
    const resumed = () => say(talk(), "c1", 0).resumed("w1", "c2", "s-1");
    expect(passed(say(resumed(), "c2", 1), "chains")).toBe(true);
    expect(caught(say(say(resumed(), "c2", 1), "c2", 2), "chains")).toContain("answered 3 times");
    const anew = () => say(talk(), "c1", 0).accepted("w1", "c2", "s-2");
    expect(passed(say(anew(), "c2", 0), "chains")).toBe(true);
    expect(caught(say(anew(), "c2", 0, { other: 1 }), "chains")).toContain("and then");
  });
});
