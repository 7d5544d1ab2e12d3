import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isObject, parsePathSteps, withValueAt } from "./binding-path.ts";
import { listPatchChanges, mergeResults, type ResultPatchOperation } from "./result-merge.ts";

const wideLimits = { bytesMax: 1_000_000, depthMax: 64 };

/** What a follower of the event stream does with a change. */
function applyChange(value: unknown, change: ResultPatchOperation): unknown {
  const steps = change.path
    .slice(1)
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (change.op === "replace") return withValueAt(value, steps, change.value);
  const last = steps.at(-1) ?? "";
  const remove = (at: unknown, rest: readonly string[]): unknown => {
    if (!isObject(at)) return at;
    const [step = "", ...more] = rest;
    if (more.length > 0) return Object.hasOwn(at, step) ? { ...at, [step]: remove(at[step], more) } : at;
    return Object.fromEntries(Object.entries(at).filter(([key]) => key !== last));
  };
  return remove(value, steps);
}

describe("mergeResults", () => {
  it("[G10] mergeResults merges objects key by key, replaces other values, and removes what is null", () => {
    const merged = mergeResults({ a: { b: 1, c: [1] }, d: 4 }, { a: { b: 2, c: [] }, d: null, e: {} });

    expect(merged?.value).toEqual({ a: { b: 2, c: [] }, e: {} });
    expect(merged?.changes).toEqual([
      { op: "replace", path: "/a/b", value: 2 },
      { op: "replace", path: "/a/c", value: [] },
      { op: "remove", path: "/d" },
      { op: "replace", path: "/e", value: {} },
    ]);
  });

  it("[G10] mergeResults returns changes that lead from the old value to the new one, and modifies neither argument", () => {
    const key = fc.constantFrom("a", "b", "c/d", "e~f");
    const tree = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.constant(null),
        fc.integer(),
        fc.array(fc.integer(), { maxLength: 2 }),
        tie("object"),
      ),
      object: fc.dictionary(key, tie("value"), { maxKeys: 3 }),
    })).object;
    fc.assert(
      fc.property(tree, tree, (before, patch) => {
        const texts = JSON.stringify([before, patch]);
        const merged = mergeResults(before, patch, wideLimits);
        expect(merged?.changes.reduce(applyChange, before as unknown)).toEqual(merged?.value);
        expect(JSON.stringify([before, patch])).toBe(texts);
      }),
    );
  });

  it("[G10] mergeResults refuses a patch when the merged results would be too large or too deep", () => {
    expect(mergeResults({ a: 1 }, { b: "x".repeat(100) }, { bytesMax: 50, depthMax: 64 })).toBeNull();
    // {"b":"€€€"} has eleven characters and seventeen bytes.
    expect(mergeResults({}, { b: "\u20ac\u20ac\u20ac" }, { bytesMax: 17, depthMax: 64 })).not.toBeNull();
    expect(mergeResults({}, { b: "\u20ac\u20ac\u20ac" }, { bytesMax: 16, depthMax: 64 })).toBeNull();
    const deep = JSON.parse(`${'{"a":'.repeat(100)}1${"}".repeat(100)}`) as unknown;
    expect(mergeResults({}, deep)).toBeNull();
    expect(mergeResults({}, { list: [[[[1]]]] }, { bytesMax: 1_000, depthMax: 3 })).toBeNull();
  });

  it("[G10] mergeResults never reaches a prototype", () => {
    const patch = JSON.parse(
      '{"__proto__": {"polluted": 1}, "a": {"__proto__": {"polluted": 1}}, "l": [{"__proto__": {"x": 1}}]}',
    ) as unknown;

    const merged = mergeResults({}, patch);

    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(JSON.stringify(merged?.value)).toBe('{"a":{},"l":[{}]}');
  });

  it("[G10] mergeResults ignores a patch that is not an object", () => {
    expect(mergeResults({ a: 1 }, [1])).toEqual({ value: { a: 1 }, changes: [] });
    expect(mergeResults(null, "text")).toEqual({ value: {}, changes: [] });
  });
});

describe("listPatchChanges", () => {
  it("[G10] listPatchChanges lists the leaves of a patch without knowing the old value", () => {
    expect(listPatchChanges({ a: { b: 1, gone: null }, e: {}, l: [1] })).toEqual([
      { op: "replace", path: "/a/b", value: 1 },
      { op: "remove", path: "/a/gone" },
      { op: "replace", path: "/e", value: {} },
      { op: "replace", path: "/l", value: [1] },
    ]);
    expect(listPatchChanges("no patch")).toEqual([]);
    expect(parsePathSteps("/a~1b")).toEqual(["a/b"]);
  });
});
