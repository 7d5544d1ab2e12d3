import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, isEqualJson, isSameJson } from "./canonical-json.ts";

describe("canonical JSON", () => {
  it("[G3] equal values have one text, in whatever order their keys were written and whatever fields are absent", () => {
    expect(canonicalJson({ b: 1, a: 2 })).toBe('{"a":2,"b":1}');
    expect(canonicalJson({ b: 1, a: { d: [{ z: 1, y: undefined }], c: undefined } })).toBe('{"a":{"d":[{"z":1}]},"b":1}');
    expect(canonicalJson({ a: undefined, b: { c: 1 } })).toBe('{"b":{"c":1}}');
    expect(canonicalJson([undefined, { b: 1, a: 1 }])).toBe('[null,{"a":1,"b":1}]');
    expect(isEqualJson({ a: undefined }, {})).toBe(true);
  });

  it("[G3] the canonical text reads back as the value, its keys are sorted, and values that differ have different texts", () => {
    const shuffle = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(shuffle)
        : typeof value === "object" && value !== null
          ? Object.fromEntries(
              Object.entries(value)
                .reverse()
                .map(([key, one]) => [key, shuffle(one)]),
            )
          : value;
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.jsonValue({ maxDepth: 4 }), (one, other) => {
        const text = canonicalJson(one);
        expect(canonicalJson(shuffle(one))).toBe(text);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(canonicalJson(other) === text).toBe(isSameJson(JSON.parse(canonicalJson(other)), JSON.parse(text)));
      }),
    );
  });
});
