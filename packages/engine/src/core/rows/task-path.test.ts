import { describe, expect, it } from "vitest";
import { containerPath, enclosingPaths, lastStep, logicalPath, pathRangeInside, scopeOf, taskPathOf } from "./task-path.ts";

describe("task paths", () => {
  it.for([
    ["4", { ordinal: 4, call: null, iteration: null }, "", "4"],
    ["4*2", { ordinal: 4, call: null, iteration: 2 }, "", "4*2"],
    ["4*2/7", { ordinal: 7, call: null, iteration: null }, "4*2", "4*2/7"],
    ["5~3", { ordinal: 5, call: 3, iteration: null }, "", "5"],
    ["5~1*0", { ordinal: 5, call: 1, iteration: 0 }, "", "5"],
    ["4*2/5~11*20/8", { ordinal: 8, call: null, iteration: null }, "4*2/5~11*20", "4*2/5~11*20/8"],
  ] as const)("[E40] the task path %s is parsed into its last step, scope and logical path", ([slot, step, scope, logical]) => {
    expect(lastStep(slot)).toEqual(step);
    expect(scopeOf(slot)).toBe(scope);
    expect(logicalPath(slot)).toBe(logical);
    expect(taskPathOf({ run: "r-1", id: `r-1.${slot}` })).toBe(slot);
  });

  it("[E40] the iterations and containers around a task path are listed innermost first", () => {
    expect(enclosingPaths("4")).toEqual([]);
    expect(enclosingPaths("4*2")).toEqual(["4"]);
    expect(enclosingPaths("4*2/5~11*20/8")).toEqual(["4*2/5~11*20", "4*2/5~11", "4*2", "4"]);
    expect(containerPath("4*2/5~11*20")).toBe("4*2/5~11");
  });

  it("[E40] the tasks inside an iteration or a container form one range in the order of ids, with nothing else in it", () => {
    const slots = [
      "1",
      "1*0",
      "1*0/0",
      "1*0/9~2*0/1",
      "1*1",
      "1*10",
      "1*10/0",
      "1*2/3",
      "10",
      "10*0/1",
      "1~1",
      "1~1*0",
      "1~1*0/4",
    ];
    const inside = (path: string) =>
      slots.filter((one) => one > pathRangeInside(path).after && one <= pathRangeInside(path).last);

    expect(inside("1*0")).toEqual(["1*0/0", "1*0/9~2*0/1"]);
    expect(inside("1*1")).toEqual([]);
    expect(inside("1")).toEqual(["1*0", "1*0/0", "1*0/9~2*0/1", "1*1", "1*10", "1*10/0", "1*2/3"]);
    expect(inside("1~1")).toEqual(["1~1*0", "1~1*0/4"]);
  });
});
