import { describe, expect, it } from "vitest";
import { mapFlow } from "./testing/flows.ts";
import { caught, passed, Script } from "./testing/script.ts";

const begun = (items: readonly unknown[] = [1, 2], loop = {}, box = {}) =>
  new Script()
    .startFlow("r1", mapFlow(items, loop, box))
    .created("r1")
    .tells("r1.0", "task.hosting");
const opened = (script: Script, number: number, index: number) => script.tells(`r1.0*${number}`, "frame.opened", { index });
const ended = (script: Script, number: number, index: number, status = "succeeded") =>
  script.tells(`r1.0*${number}`, "frame.ended", { index, status });
const done = (script: Script, frame: number, node: number) =>
  script.tells(`r1.0*${frame}/${node}`, "task.ready").tells(`r1.0*${frame}/${node}`, "task.succeeded", { worker: "t1/w1" });
const whole = (script: Script, number: number, index: number) =>
  ended(done(done(opened(script, number, index), number, 0), number, 1), number, index);

describe("frames", () => {
  it("[X63] finds a frame that ends while something inside is open, or with a node that was never run", () => {
    const inside = done(opened(begun(), 0, 0), 0, 0).tells("r1.0*0/1", "task.ready");

    expect(caught(ended(inside, 0, 0).read(), "frames")).toContain("ends as succeeded while r1.0*0/1 inside is open");
    expect(caught(ended(done(opened(begun(), 0, 0), 0, 1), 0, 0).read(), "frames")).toContain("node 0 inside is not done");
    expect(passed(whole(begun(), 0, 0).read(), "frames")).toBe(true);
  });

  it("[X63] finds frames out of their numbers, beyond what may be open at once, or tried more often than allowed", () => {
    expect(caught(opened(begun(), 1, 0).read(), "frames")).toContain("follows 0 frames");
    const two = opened(opened(begun([1, 2], { parallelism: 1 }), 0, 0), 1, 1);
    expect(caught(two.read(), "frames")).toContain("is the 2. open one, 1 allowed");
    const again = () => opened(ended(opened(begun([1], {}, { retry: { maxAttempts: 2 } }), 0, 0), 0, 0, "failed"), 1, 0);
    expect(passed(again().read(), "frames")).toBe(true);
    expect(caught(opened(ended(again(), 1, 0, "failed"), 2, 0).read(), "frames")).toContain("is try 3 of iteration 0, 2 allowed");
  });

  it("[X63] finds a container that ends without a good frame for each iteration, or with one open", () => {
    const over = (script: Script) => script.tells("r1.0", "task.succeeded", { worker: null }).read();

    expect(caught(over(whole(begun(), 0, 0)), "frames")).toContain("has 1 good frames of 2");
    expect(passed(over(whole(whole(begun(), 0, 0), 1, 1)), "frames")).toBe(true);
    expect(caught(over(opened(whole(begun(), 0, 0), 1, 1)), "frames")).toContain("while a frame of it is open");
  });

  it("[X63] finds a loop that does not go in order, and work inside a frame that is not open", () => {
    const loop = { mode: "forEach" };

    expect(caught(opened(begun([1, 2], loop), 0, 1).read(), "frames")).toContain("the one before it is not done");
    expect(caught(begun().tells("r1.0*0/0", "task.ready").read(), "frames")).toContain("around it is not opened");
    expect(caught(whole(begun(), 0, 0).tells("r1.0*0/0", "task.granted").read(), "frames")).toContain("is succeeded");
  });
});
