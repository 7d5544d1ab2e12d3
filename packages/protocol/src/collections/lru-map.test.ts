import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LruMap } from "./lru-map.ts";

describe("a map that forgets what was used least recently", () => {
  it("[C28] the LRU map evicts the entry that was read or written longest ago", () => {
    const map = new LruMap<string, number>({ entriesMax: 2 });
    map.set("a", 1);
    map.set("b", 2);
    map.get("a");

    map.set("c", 3);

    expect([...map.keys()]).toEqual(["a", "c"]);
  });

  it("[C28] the LRU map evicts by insertion order where reads do not count, and peek never counts as a read", () => {
    const byInsertion = new LruMap<string, number>({ entriesMax: 2, touchOnGet: false });
    const byUse = new LruMap<string, number>({ entriesMax: 2 });
    for (const map of [byInsertion, byUse]) {
      map.set("a", 1);
      map.set("b", 2);
    }
    byInsertion.get("a");
    byUse.peek("a");

    byInsertion.set("c", 3);
    byUse.set("c", 3);

    expect([...byInsertion.keys()]).toEqual(["b", "c"]);
    expect([...byUse.keys()]).toEqual(["b", "c"]);
  });

  it("[C28] the LRU map keeps the sum of weights within its limit and reports evicted entries, including one that is itself too heavy", () => {
    const evicted: string[] = [];
    const map = new LruMap<string, string>({
      entriesMax: 10,
      weightMax: 5,
      weightOf: (value) => value.length,
      onEvict: (key) => evicted.push(key),
    });
    map.set("a", "xx");
    map.set("b", "xxx");
    map.set("c", "x");
    map.set("huge", "xxxxxx");

    expect(evicted).toEqual(["a", "b", "c", "huge"]);
    expect(map.size).toBe(0);
  });

  it("[C28] the LRU map does not count the weight of a value that was replaced or deleted", () => {
    const map = new LruMap<string, number>({ entriesMax: 9, weightMax: 10, weightOf: (value) => value });

    for (const weight of [6, 5, 4]) map.set("a", weight);
    map.set("b", 6);
    expect([...map.keys()]).toEqual(["a", "b"]);
    map.delete("b");
    map.set("c", 6);

    expect([...map.keys()]).toEqual(["a", "c"]);
  });

  it("[C28] the LRU map behaves like a plain list in order of use under any sequence of operations", () => {
    const step = fc.record({
      key: fc.integer({ min: 0, max: 6 }),
      action: fc.constantFrom("set" as const, "get" as const, "delete" as const),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (steps, entriesMax) => {
        const map = new LruMap<number, number>({ entriesMax });
        let model: [number, number][] = [];
        const apply = {
          set: (key: number, at: number) => map.set(key, at),
          get: (key: number) => map.get(key),
          delete: (key: number) => map.delete(key),
        };
        steps.forEach(({ key, action }, at) => {
          const known = model.find(([name]) => name === key);
          const others = model.filter(([name]) => name !== key);
          if (action === "set") model = [...others, [key, at] as [number, number]].slice(-entriesMax);
          else model = action === "get" && known !== undefined ? [...others, known] : others;
          const expected = { set: undefined, get: known?.[1], delete: known !== undefined };

          expect(apply[action](key, at)).toBe(expected[action]);
          expect([...map.keys()]).toEqual(model.map(([name]) => name));
        });
      }),
    );
  });
});
