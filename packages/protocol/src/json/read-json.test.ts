import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault } from "../faults/fault.ts";
import { leastCpuMs } from "../testing/cpu-time.ts";
import type { JsonObject } from "./json-value.ts";
import { limits } from "./limits.ts";
import { checkWrittenJson, readJson } from "./read-json.ts";

const small = {
  ...limits.json.frame,
  bytesMax: 100,
  depthMax: 3,
  itemsMax: 5,
  keysMax: 3,
  stringCharsMax: 10,
  numberCharsMax: 8,
};
const code = (text: string | Uint8Array, bounds = limits.json.frame as typeof small) => {
  const read = readJson(text, bounds);
  return read instanceof Fault ? read.code : "ok";
};

const isJson = (text: string): boolean => {
  try {
    return JSON.parse(text) !== undefined;
  } catch (cause) {
    return !(cause instanceof SyntaxError);
  }
};

/** The same value as JSON carries it: no -0, halves of characters replaced. */
const roundTripped = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (_, item: unknown) =>
    typeof item === "string" ? item.toWellFormed() : item === 0 ? 0 : item,
  );

describe("reading JSON", () => {
  it("[J1] readJson reads every value that JSON can carry", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!/"(__proto__|constructor|prototype|[^"]*\\u(d|0000)[^"]*)":/.test(text));
        expect(readJson(text)).toEqual(roundTripped(value));
      }),
    );
  });

  it("[J1] readJson gives the same value from bytes as from text", () => {
    const text = '{"a":"grün 🌊","b":[1,2.5,-3e2,true,null]}';

    expect(readJson(new TextEncoder().encode(text))).toEqual(JSON.parse(text));
  });

  it("[J1] readJson never throws, whatever the text", () => {
    const anything = fc.oneof(
      fc.string({ unit: "binary" }),
      fc
        .array(fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", "1", "-", "e", "\\u0000", " ", "a"))
        .map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(anything, (text) => {
        const read = readJson(text);
        expect(isJson(text) || read instanceof Fault).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it.each(["", "{", '{"a":}', "[1,]", "nul", "NaN", "Infinity", "'a'", '"a', "01", "1 2", '"\u0000"', '{"a":1}x', '"\\x"'])(
    "[J1] readJson refuses the invalid text %j and does not quote it",
    (text) => {
      const read = readJson(text);

      expect(read).toMatchObject({
        code: "E.FRAME.INVALID",
        message: expect.stringMatching(/^the message is not JSON: line 1, column/),
      });
    },
  );
});

describe("limits before parsing", () => {
  it.each([
    ["bytes", `"${"a".repeat(99)}"`],
    ["bytes in UTF-8", `"${"ü".repeat(5)}"${" ".repeat(89)}`],
    ["levels", "[[[[1]]]]"],
    ["members", "[1,2,3,4,5,6,7]"],
    ["members, each list being one too", "[[],[],[]]"],
    ["keys", '{"a":1,"b":2,"c":3,"d":4}'],
    ["characters in a string", '"12345678901"'],
    ["characters in a number", "123456789"],
  ])("[J2] readJson refuses more %s than its limits allow", (_, text) => {
    expect(code(text, small)).toBe("E.FRAME.TOO_LARGE");
  });

  it.each([["[[[1]]]"], ["[1,2,3,4]"], ['{"a":1,"b":2,"c":3}'], ['"1234567890"'], ["12345678"], ['"[[[[{{,,::"']])(
    "[J2] readJson accepts %s, which is just within its limits",
    (text) => {
      expect(code(text, small)).toBe("ok");
    },
  );

  it("[J2] readJson counts its byte limit in bytes for text and for bytes alike", () => {
    const four = '"🌊🌊"';
    const bounds = { ...limits.json.frame, bytesMax: 10 };

    expect(code('"€€€"', { ...bounds, bytesMax: 11 } as never)).toBe("ok");
    expect(code('"€€€"', bounds as never)).toBe("E.FRAME.TOO_LARGE");
    expect(code(four, bounds as never)).toBe("ok");
    expect(code(new TextEncoder().encode(four), bounds as never)).toBe("ok");
    expect(code(four, { ...bounds, bytesMax: 9 } as never)).toBe("E.FRAME.TOO_LARGE");
    expect(code(new TextEncoder().encode(four), { ...bounds, bytesMax: 9 } as never)).toBe("E.FRAME.TOO_LARGE");
  });

  it.each([
    ["long strings with escaped quotes", `"${'a\\"'.repeat(50)}"`],
    ["long strings that end in backslashes", `["${"a".repeat(80)}\\\\",{"b":"${"\\\\".repeat(60)}"}]`],
    ["long strings with a backslash before an escaped quote", `["${"a".repeat(80)}\\\\\\"[[[[{{","x"]`],
    ["long strings with brackets", `["${"[{".repeat(60)}"]`],
    ["long strings with a quote and brackets after it", `["${"a".repeat(100)}\\":[[[[{{","x"]`],
    ["lists beside each other", "[[1],[2],[3],[4],[5]]"],
    ["an escape across the place where the search changes", `["${"a".repeat(63)}\\"]]]]","x"]`],
    ["a backslash across the place where the search changes", `["${"a".repeat(63)}\\\\",["x"]]`],
    ["an escaped quote there, with brackets after it", `["${"a".repeat(63)}\\"[[[[","x"]`],
  ])("[J2] the limit check of readJson sees the end of %s where the parser does", (_, text) => {
    expect(readJson(text, { ...limits.json.frame, depthMax: 2 })).toEqual(JSON.parse(text));
  });

  it.each([
    ["a frame of 8 MiB in one string", `"${"a".repeat(8 * 1024 * 1024 - 2)}"`, "ok"],
    ["a million keys", `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":1`).join(",")}}`, "E.FRAME.TOO_LARGE"],
    ["a depth of a hundred thousand", "[".repeat(100_000), "E.FRAME.TOO_LARGE"],
    ["8 MiB of digits", "1".repeat(8 * 1024 * 1024), "E.FRAME.TOO_LARGE"],
    ["a million empty objects", `[${"{},".repeat(1_000_000)}{}]`, "E.FRAME.TOO_LARGE"],
    ["7 MiB of backslashes", `"${"\\\\".repeat(3.5 * 1024 * 1024)}`, "E.FRAME.INVALID"],
  ])("[J3] readJson answers %s in about the time that parsing as much JSON takes", (_, text, expected) => {
    text.charCodeAt(0); // joins the pieces that the repetition left apart
    const numbers = `[${"1234567,".repeat(text.length / 8)}0]`;
    numbers.charCodeAt(0);

    expect(code(text)).toBe(expected);
    // At most 1 here; a search that begins again at every place takes thousands of times as long.
    expect(leastCpuMs(() => code(text)) / leastCpuMs(() => JSON.parse(numbers))).toBeLessThan(10);
  });

  it("[J3] readJson accepts at most 64 KiB and a shallow message from an unauthenticated peer", () => {
    expect(code(`"${"a".repeat(65_536)}"`, limits.json.unauthenticated as never)).toBe("E.FRAME.TOO_LARGE");
    expect(code("[".repeat(17), limits.json.unauthenticated as never)).toBe("E.FRAME.TOO_LARGE");
    expect(limits.json.frame.bytesMax).toBe(8 * 1024 * 1024);
    expect(limits.json.frameToWorker.bytesMax).toBe(16 * 1024 * 1024);
    expect(limits.legacyFrameBytesMax).toBe(1024 * 1024);
  });

  it("[J3] readJson answers with the fault codes that belong to the limits it was given", () => {
    expect(code("[".repeat(100), limits.json.request as never)).toBe("E.REQUEST.TOO_LARGE");
    expect(code("[", limits.json.request as never)).toBe("E.REQUEST.INVALID");
  });
});

describe("keys that differ", () => {
  const bounds = { ...limits.json.frame, shapeKeysMax: 6 };
  const read = (value: unknown) => readJson(JSON.stringify(value), bounds);

  it.each([
    ["one object with too many keys", Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`k${at}`, at]))],
    ["objects with different keys", [{ a: 1, b: 1 }, { c: 1, d: 1 }, { e: 1, f: 1 }, { g: 1 }]],
    [
      "objects with the same keys in another order",
      [
        { a: 1, b: 1, c: 1 },
        { b: 1, a: 1, c: 1 },
        { c: 1, a: 1, b: 1 },
      ],
    ],
    ["objects inside each other", { a: { b: { c: { d: { e: { f: { g: 1 } } } } } } }],
    ["keys that differ in an escape", [{ 'a"1': 1, 'a"2': 1 }, { 'a"3': 1, 'a"4': 1 }, { 'a"5': 1, 'a"6': 1 }, { 'a"7': 1 }]],
  ])("[J500] readJson refuses more different keys than its limits allow: %s", (_, value) => {
    expect(read(value)).toMatchObject({ code: "E.FRAME.TOO_LARGE", details: { what: "different keys", limit: 6 } });
    expect(checkWrittenJson(JSON.stringify(value), bounds)).toMatchObject({ code: "E.FRAME.TOO_LARGE" });
  });

  it("[J500] readJson counts the keys of objects of one kind once, whatever their values", () => {
    const nodes = Array.from({ length: 100 }, (_, at) => ({ id: `:{"${at}`, at: { x: at, y: 2 * at }, on: [{ id: "x" }, {}] }));

    expect(read(nodes)).toEqual(nodes);
    expect(checkWrittenJson(JSON.stringify(nodes), bounds)).toBeNull();
  });

  it("[J500] readJson accepts a workflow with as many nodes as it may have and refuses half a million names of a parameter", () => {
    const node = (at: number) => ({
      id: at,
      type: "t",
      package: { name: "p", version: "1" },
      position: { x: at, y: 0 },
      label: "n",
    });
    const nodes = JSON.stringify(Array.from({ length: limits.workflowNodesMax }, (_, at) => node(at)));
    const keys = JSON.stringify(Object.fromEntries(Array.from({ length: 200_000 }, (_, at) => [`k${at}`, 1])));

    expect(readJson(nodes, limits.json.request)).toHaveLength(limits.workflowNodesMax);
    expect(readJson(keys, limits.json.request)).toMatchObject({ code: "E.REQUEST.TOO_LARGE" });
  });
});

describe("what two parsers would disagree on", () => {
  it.each(['{"a":1,"a":2}', '{"b":[{"a":1,"\\u0061":2}]}', '{"":1,"":1}'])(
    "[J4] readJson refuses the duplicate key in %s",
    (text) => {
      expect(readJson(text)).toMatchObject({ code: "E.FRAME.INVALID", message: expect.stringContaining("twice") });
    },
  );

  it("[J4] readJson accepts the same key in different objects", () => {
    expect(code('{"a":{"a":1},"b":[{"a":1},{"a":":,{"}]}')).toBe("ok");
  });

  it.each(["\ufeff{}", "\ufeff"])("[J4] readJson refuses a byte order mark", (text) => {
    expect(code(text)).toBe("E.FRAME.INVALID");
    expect(code(new TextEncoder().encode(text))).toBe("E.FRAME.INVALID");
  });

  it("[J4] readJson refuses bytes that are not UTF-8", () => {
    expect(code(new Uint8Array([0x22, 0xff, 0x22]))).toBe("E.FRAME.INVALID");
    expect(code(new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]))).toBe("E.FRAME.INVALID");
  });

  it.each(["1e999", "-1e999", '{"a":[1e400]}'])("[J4] readJson refuses %s, which no double can represent", (text) => {
    expect(code(text)).toBe("E.FRAME.INVALID");
  });

  it("[J4] readJson reads -0 as 0 at any depth", () => {
    expect(Object.is(readJson("-0"), 0)).toBe(true);
    expect(readJson('{"a":[-0.0]}')).toEqual({ a: [0] });
    expect(readJson('[{"a":-0,"b":-0e5}]')).toEqual([{ a: 0, b: 0 }]);
  });

  it("[J4] readJson replaces a lone surrogate in a value, and refuses it in a key", () => {
    expect(readJson('["\\ud83c", "\\ud83c\\udf0a"]')).toEqual(["\ufffd", "🌊"]);
    expect(code('{"\\ud800":1}')).toBe("E.FRAME.INVALID");
  });

  it("[J4] readJson keeps an escaped NUL in a value, and refuses it in a key", () => {
    expect(readJson('"a\\u0000b"')).toBe("a\u0000b");
    expect(code('{"a\\u0000":1}')).toBe("E.FRAME.INVALID");
  });
});

describe("text that JSON.stringify wrote", () => {
  it.each(["\ud800", "\udbff", "\udc00", "\udfff", "a\u0000", "__proto__"])("[J6] checkWrittenJson refuses the key %j", (key) => {
    const text = JSON.stringify({ a: [Object.fromEntries([[key, 1]])] });

    expect(checkWrittenJson(text)).toMatchObject({ code: "E.FRAME.INVALID" });
    expect(readJson(text)).toMatchObject({ code: "E.FRAME.INVALID" });
  });

  it("[J6] checkWrittenJson refuses exactly the written values that readJson refuses, for the same reason", () => {
    const bounds = { ...limits.json.frame, bytesMax: 120, depthMax: 4, itemsMax: 12, keysMax: 5, stringCharsMax: 20 };
    const key = fc.oneof(
      fc.constantFrom("__proto__", "constructor", "prototype", "a\u0000", "\ud800", "e1000"),
      fc.string({ unit: "binary" }),
    );
    const leaf = fc.oneof(fc.double(), fc.string({ unit: "binary" }), fc.boolean(), fc.constant(null), fc.constant("1e+999"));
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof({ depthSize: "small", withCrossShrink: true }, leaf, tie("list"), tie("object")),
      list: fc.array(tie("value"), { maxLength: 8 }),
      object: fc.array(fc.tuple(key, tie("value")), { maxLength: 6 }).map((entries) => Object.fromEntries(entries)),
    }));

    const outcomes = new Set<boolean>();
    fc.assert(
      fc.property(value, (written) => {
        const text = JSON.stringify(written);
        const read = readJson(text, bounds);
        const problem = checkWrittenJson(text, bounds);
        outcomes.add(problem === null);
        expect(problem?.message).toBe(read instanceof Fault ? read.message : undefined);
      }),
      { numRuns: 2_000, seed: 14 },
    );
    expect(outcomes).toEqual(new Set([false, true]));
    expect(checkWrittenJson("[1e999]", bounds)?.code).toBe("E.FRAME.INVALID");
    expect(checkWrittenJson("[1E999]", bounds)?.code).toBe("E.FRAME.INVALID");
  });
});

describe("keys that reach prototypes", () => {
  const poisons = [
    '"__proto__":{"polluted":1}',
    '"\\u005f_proto__":{"polluted":1}',
    '"__proto__":1',
    '"constructor":{"prototype":{"polluted":1}}',
  ];
  const places = (poison: string) => [`{${poison}}`, `{"a":{${poison}}}`, `[[{"b":[{${poison}}]}]]`];

  it.each([...poisons, '"con\\u0073tructor":{"a":1}', '"prototype":{"a":1}', '"constructor":[1]'].flatMap(places))(
    "[J5] readJson refuses %s, which has a key that reaches a prototype",
    (text) => {
      expect(code(text)).toBe("E.FRAME.INVALID");
      expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    },
  );

  it("[J5] readJson keeps the keys constructor and prototype where they are plain data", () => {
    const read = readJson('{"constructor":"McLaren","prototype":3}') as JsonObject;

    expect(read["constructor"]).toBe("McLaren");
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  });
});
