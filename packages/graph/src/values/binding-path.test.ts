import { describe, expect, it } from "vitest";
import { parseBindingPath, parseJsonPointer, parsePathSteps, toJsonPointer, valueAt, withValueAt } from "./binding-path.ts";

describe("binding paths", () => {
  it("[G2] a JSON pointer and the steps it stands for lead to each other, whatever characters a step has", () => {
    for (const step of ["a", "a/b", "a~b", "~1", "~0", "~01", "/~", "~~//", "a.b", "[0]"]) {
      const pointer = toJsonPointer(["results", step]);
      expect(parseJsonPointer(pointer)).toEqual(["results", step]);
      expect(parseBindingPath(pointer)).toEqual({ root: "results", steps: [step] });
    }
    expect(parsePathSteps("results.list[10].x")).toEqual(["results", "list", "10", "x"]);
    expect(toJsonPointer(["a~1"])).toBe("/a~01");
  });

  it("[G2] a path reads what a value has of its own, never what every object inherits", () => {
    for (const name of ["toString", "valueOf", "hasOwnProperty"]) expect(valueAt({ a: {} }, ["a", name])).toBeUndefined();
    expect(valueAt({ list: [1, 2] }, ["list", "length"])).toBeUndefined();
    expect(valueAt({ list: [1, 2] }, ["list", "01"])).toBeUndefined();
    expect(valueAt({ list: [1, 2] }, ["list", "2"])).toBeUndefined();
    expect(valueAt({ list: [1, 2] }, ["list", "1"])).toBe(2);
    expect(valueAt({ toString: 1 }, ["toString"])).toBe(1);
  });

  it("[G7] a star reads the rest of the path of every item of a list, in order, and null where an item does not have it", () => {
    const value = { items: [{ url: "a" }, {}, { url: "c" }, null] };

    expect(valueAt(value, ["items", "*", "url"])).toEqual(["a", null, "c", null]);
    expect(valueAt({ items: { "*": 1 } }, ["items", "*"])).toBe(1);
  });

  it("[G2] a value is written into a copy: lists and objects on the way stay as they were authored", () => {
    const authored = { list: [{ a: 1 }, { a: 2 }], deep: { b: { c: 3 } } };
    const text = JSON.stringify(authored);

    expect(withValueAt(authored, ["list", "1", "a"], 9)).toEqual({ ...authored, list: [{ a: 1 }, { a: 9 }] });
    expect(withValueAt(authored, ["deep", "b", "d"], 4)).toEqual({ ...authored, deep: { b: { c: 3, d: 4 } } });
    expect(JSON.stringify(authored)).toBe(text);
  });

  it("[G2] a value is written into a list at one of its places or right behind its end; anything else replaces the list", () => {
    expect(withValueAt([1, 2], ["2"], 3)).toEqual([1, 2, 3]);
    expect(withValueAt([1, 2], ["3"], 3)).toEqual({ 3: 3 });
    expect(withValueAt([1, 2], ["x"], 3)).toEqual({ x: 3 });
    expect(withValueAt("text", ["x", "y"], 3)).toEqual({ x: { y: 3 } });
  });
});
