import { describe, expect, it } from "vitest";
import { carriedAt, keptPartIn } from "./kept.ts";

const stayed = { resourceRef: { resourceId: "r1", workerName: "w", type: "json" } };
const results = { big: stayed, list: [{ url: "a" }, {}], small: { url: "b" } };

describe("a value that stayed at its worker", () => {
  it("[A367] is carried as its reference, whole or with the part that was meant; what is missing stays missing", () => {
    expect(carriedAt(results, ["big"])).toEqual(stayed);
    expect(carriedAt(results, ["big", "0", "url"])).toEqual({ ...stayed, inside: "0.url" });
    expect(carriedAt(results, ["big", "*", "url"])).toEqual({ ...stayed, inside: "*.url" });
    expect(carriedAt(results, ["big", "resourceRef", "resourceId"])).toBe("r1");
    expect(carriedAt(results, ["small", "url"])).toBe("b");
    expect(carriedAt(results, ["list", "*", "url"])).toEqual(["a", null]);
    for (const missing of [["none"], ["none", "url"], ["small", "none", "url"]])
      expect(carriedAt(results, missing)).toBeUndefined();
  });

  it("[A367] is found in parameters where only a part of it was meant, however deep", () => {
    const part = { ...stayed, inside: "0.url" };
    expect(keptPartIn(JSON.stringify({ a: { b: [1, part] } }))).toEqual({
      field: "parameters.a.b.1",
      inside: "0.url",
      resourceId: "r1",
    });
    for (const whole of [{}, { a: stayed }, { a: stayed, inside: "x" }, { inside: "x", resourceRef: "y" }])
      expect(keptPartIn(JSON.stringify(whole))).toBeNull();
  });
});
