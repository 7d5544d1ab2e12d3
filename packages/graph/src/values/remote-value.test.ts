import { describe, expect, it } from "vitest";
import { findRemoteValuePart, valueOrRemoteRefAt } from "./remote-value.ts";

const remoteRef = { resourceRef: { resourceId: "r1", workerName: "w", type: "json" } };
const results = { big: remoteRef, list: [{ url: "a" }, {}], small: { url: "b" } };

describe("a value that stayed at its worker", () => {
  it("[A367] a value kept at its worker is carried as its reference, whole or with the path of a part; a missing value stays missing", () => {
    expect(valueOrRemoteRefAt(results, ["big"])).toEqual(remoteRef);
    expect(valueOrRemoteRefAt(results, ["big", "0", "url"])).toEqual({ ...remoteRef, inside: "0.url" });
    expect(valueOrRemoteRefAt(results, ["big", "*", "url"])).toEqual({ ...remoteRef, inside: "*.url" });
    expect(valueOrRemoteRefAt(results, ["big", "resourceRef", "resourceId"])).toBe("r1");
    expect(valueOrRemoteRefAt(results, ["small", "url"])).toBe("b");
    expect(valueOrRemoteRefAt(results, ["list", "*", "url"])).toEqual(["a", null]);
    for (const missing of [["none"], ["none", "url"], ["small", "none", "url"]])
      expect(valueOrRemoteRefAt(results, missing)).toBeUndefined();
  });

  it("[A367] a reference to a part of a value kept at its worker is found in parameters, however deep", () => {
    const part = { ...remoteRef, inside: "0.url" };
    expect(findRemoteValuePart(JSON.stringify({ a: { b: [1, part] } }))).toEqual({
      field: "parameters.a.b.1",
      inside: "0.url",
      resourceId: "r1",
    });
    for (const whole of [{}, { a: remoteRef }, { a: remoteRef, inside: "x" }, { inside: "x", resourceRef: "y" }])
      expect(findRemoteValuePart(JSON.stringify(whole))).toBeNull();
  });
});
