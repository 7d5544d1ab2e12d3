import { describe, expect, it } from "vitest";
import { generateWorldPlan } from "../plan/world-plan.ts";
import { traceSeed } from "./campaign.ts";

describe("the story of a seed", () => {
  it("[X45] the trace of a seed shows faults, processes, dispatches, handlers, results and facts in the order of time", async () => {
    const story = await traceSeed({ seed: 3, profile: "default" });

    const text = story.map((line) => line.text).join("\n");
    expect(story.map(({ at }) => at)).toEqual(story.map(({ at }) => at).toSorted((a, b) => a - b));
    for (const word of [
      "world of seed 3",
      "phase storm",
      "process w1 is up",
      "dispatch ",
      "handler of",
      "result SUCCEEDED",
      "task.granted",
      "phase end",
    ])
      expect(text).toContain(word);
    for (const { kind } of generateWorldPlan(3, "default").faults) expect(text).toContain(`fault ${kind}`);
  });

  it("[X45] the trace of a seed for one id shows only what concerns it and the faults, phases and process events between", async () => {
    const whole = await traceSeed({ seed: 3, profile: "default" });
    const task = /handler of (\S+)#/.exec(whole.map(({ text }) => text).join("\n"))?.[1] ?? "";

    const part = await traceSeed({ seed: 3, profile: "default" }, [task]);

    expect(task).not.toBe("");
    expect(part.length).toBeLessThan(whole.length);
    for (const { text } of part) expect(/^(fault|phase|process)/.test(text) || text.includes(task)).toBe(true);
  });
});
