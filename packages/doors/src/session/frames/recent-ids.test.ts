import { describe, expect, it } from "vitest";
import { RecentIds } from "./recent-ids.ts";

describe("ids heard lately", () => {
  it("[D27] are known until so many others came after them", () => {
    const ids = new RecentIds();
    ids.add("first");
    for (let n = 1; n < 4_096; n += 1) ids.add(`id-${n}`);
    ids.add("id-1");
    expect(ids.has("first")).toBe(true);

    ids.add("one more");

    expect([ids.has("first"), ids.has("id-1"), ids.has("one more")]).toEqual([false, true, true]);
  });
});
