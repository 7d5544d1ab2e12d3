import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compilePattern } from "../schema/linear-pattern.ts";
import { fillResults, findParamsProblem, findResultsProblem, findSchemaProblem, withDefaults } from "./node-schemas.ts";
import type { PlanNode } from "./plan-types.ts";

const objectSchema = (properties: Record<string, unknown>, rest: object = {}) => ({ type: "object", properties, ...rest });

const node = (schema: { parameters?: unknown; results?: unknown }, results?: Record<string, unknown>) =>
  ({
    id: "n1",
    label: "Resize",
    schema: { parameters: schema.parameters ?? true, results: schema.results ?? true },
    ...(results && { results }),
  }) as unknown as PlanNode;

describe("findSchemaProblem", () => {
  it.each([
    ["type", { type: "string" }, "a", 1],
    ["type list", { type: ["string", "null"] }, null, 1],
    ["nullable", { type: "string", nullable: true }, null, 1],
    ["integer", { type: "integer" }, 2, 2.5],
    ["enum", { enum: ["a", { b: 1 }] }, { b: 1 }, "b"],
    ["const", { const: [1] }, [1], [2]],
    ["minimum", { minimum: 1 }, 1, 0],
    ["exclusive minimum, older", { minimum: 1, exclusiveMinimum: true }, 2, 1],
    ["exclusive maximum", { exclusiveMaximum: 1 }, 0, 1],
    ["multipleOf", { multipleOf: 0.01 }, 0.07, 0.075],
    ["maxLength in characters", { maxLength: 1 }, "😀", "ab"],
    ["pattern", { pattern: "^a+$" }, "aa", "ab"],
    ["required", { required: ["a"] }, { a: null }, {}],
    ["properties", objectSchema({ a: { type: "string" } }), { a: "x", b: 1 }, { a: 1 }],
    ["additionalProperties", objectSchema({ a: true }, { additionalProperties: false }), { a: 1 }, { b: 1 }],
    ["patternProperties", { patternProperties: { "^x": { type: "number" } } }, { x1: 1, y: "" }, { x1: "" }],
    ["propertyNames", { propertyNames: { maxLength: 1 } }, { a: 1 }, { ab: 1 }],
    ["dependentRequired", { dependentRequired: { a: ["b"] } }, { a: 1, b: 1 }, { a: 1 }],
    ["items", { items: { type: "number" } }, [1, 2], [1, "2"]],
    ["prefixItems", { prefixItems: [{ type: "string" }], items: false }, ["a"], ["a", 1]],
    ["tuple, older", { items: [{ type: "string" }], additionalItems: false }, ["a"], [1]],
    [
      "uniqueItems",
      { uniqueItems: true },
      [{ a: 1 }, { a: 2 }],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
    ["contains", { contains: { const: 1 } }, [0, 1], [0]],
    ["allOf", { allOf: [{ minimum: 1 }, { maximum: 2 }] }, 1, 3],
    ["anyOf", { anyOf: [{ type: "string" }, { minimum: 5 }] }, 6, 4],
    ["oneOf", { oneOf: [{ minimum: 1 }, { minimum: 5 }] }, 2, 6],
    ["not", { not: { type: "string" } }, 1, "a"],
    ["if", JSON.parse('{"if":{"type":"string"},"then":{"minLength":1},"else":{"minimum":0}}'), "a", -1],
    [
      "$ref",
      { $ref: "#/$defs/tree", $defs: { tree: objectSchema({ next: { $ref: "#/$defs/tree" }, n: { type: "number" } }) } },
      { next: { n: 1 } },
      { next: { n: "" } },
    ],
    ["false", objectSchema({ a: false }), {}, { a: 1 }],
  ] as [string, unknown, unknown, unknown][])(
    "[G12] findSchemaProblem accepts a valid value and refuses an invalid one for: %s",
    (_, schema, good, bad) => {
      expect(findSchemaProblem(schema, good)).toBeNull();
      expect(findSchemaProblem(schema, bad)).not.toBeNull();
    },
  );

  it("[G12] findSchemaProblem names the field and what it must be, and keeps the value out of the message", () => {
    const schema = objectSchema({ list: { items: objectSchema({ "a/b": { type: "string" } }) } });

    expect(findSchemaProblem(schema, { list: [{ "a/b": "x" }, { "a/b": 4711 }] })).toEqual({
      path: "/list/1/a~1b",
      message: "must be a text",
    });
    expect(findSchemaProblem(objectSchema({ a: true }, { required: ["a"] }), {})).toEqual({ path: "/a", message: "is required" });
  });

  it("[G13] findSchemaProblem finishes on schemas and patterns built to take exponential time", () => {
    const bomb = {
      $ref: "#/$defs/a0",
      $defs: Object.fromEntries(
        Array.from({ length: 60 }, (_, at) => [
          `a${at}`,
          { allOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] },
        ]),
      ),
    };
    expect(findSchemaProblem(bomb, 1)?.message).toContain("too many steps");
    expect(findSchemaProblem({ $ref: "#" }, 1)?.message).toContain("too many steps");
    expect(findSchemaProblem({ pattern: "^(a+)+$" }, `${"a".repeat(5_000)}!`)).not.toBeNull();
    expect(findSchemaProblem({ pattern: "a*a*a*a*a*a*b" }, "a".repeat(5_000))).not.toBeNull();
  });

  const repeat = (count: number, schema: object) => ({ allOf: Array.from({ length: count }, () => ({ ...schema })) });
  const manyKeys = (count: number, value: unknown = 1) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, value]));
  const names = (count: number) => Array.from({ length: count }, (_, at) => `k${at}`);

  it.each([
    ["counts the keys of a large object again and again", repeat(1_000, { minProperties: 1 }), manyKeys(1_000)],
    [
      "finds the first of many unknown keys again and again",
      { anyOf: repeat(1_000, { additionalProperties: false }).allOf },
      manyKeys(1_000),
    ],
    [
      "looks for many nulls among many required names",
      { properties: manyKeys(2_000, true), required: names(5_000) },
      manyKeys(5_000, null),
    ],
    [
      "compares the numbers of a list again and again",
      repeat(1_000, { uniqueItems: true }),
      Array.from({ length: 1_000 }, (_, at) => at),
    ],
    ["lists the same type again and again", repeat(100, { type: Array.from({ length: 10_000 }, () => "number") }), 1],
    ["compares a large value with a constant", { const: 1 }, Array.from({ length: 100_000 }, () => [])],
    ["compares with a list of many objects", { enum: Array.from({ length: 100_000 }, (_, v) => ({ v })) }, { v: -1 }],
    ["has many long references", repeat(2_000, { $ref: `#/${"a/".repeat(1_900)}` }), 1],
    ["has an object of many rules that nobody knows", { items: manyKeys(1_000) }, Array.from({ length: 1_000 }, () => 1)],
  ])("[G500] findSchemaProblem pays for what it does, so a schema is too costly that %s", (_, schema, value) => {
    expect(findSchemaProblem(schema, value)).toMatchObject({ isTooCostly: true });
  });

  it("[G500] findSchemaProblem compares one parameter with a schema of a thousand for a few steps", () => {
    const budget = { stepsLeft: 1_000 };

    expect(findSchemaProblem({ properties: manyKeys(1_000, { type: "number" }) }, { k7: "x" }, { budget })).toMatchObject({
      path: "/k7",
    });
    expect(budget.stepsLeft).toBeGreaterThan(700);
  });

  it("[G12] findSchemaProblem accepts a resource reference for a value of any type, but nothing that only looks like one", () => {
    const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    const ref = { resourceId: "r1", workerName: "w", type: "json" };

    expect(findSchemaProblem(schema, { text: { resourceRef: ref } })).toBeNull();
    for (const odd of [{ resourceRef: {} }, { resourceRef: "r1" }, { resourceRef: ref, more: 1 }])
      expect(findSchemaProblem(schema, { text: odd })).toMatchObject({ path: "/text" });
  });

  it("[G12] findSchemaProblem accepts any value where the schema is not a schema", () => {
    for (const schema of [true, undefined, null, "text", 4, { type: "strange" }, { $ref: "http://elsewhere" }])
      expect(findSchemaProblem(schema, { a: 1 })).toBeNull();
  });
});

describe("patterns", () => {
  it("[G13] a compiled pattern matches exactly what JavaScript's RegExp matches", () => {
    const atom = fc.constantFrom(
      "a",
      "b",
      ".",
      "[ab]",
      "[^a]",
      "\\d",
      "\\w",
      "(a|b)",
      "(?:ab)",
      "(a|)",
      "\\.",
      "\\b",
      "\\u0061",
      "(b(a))",
    );
    const piece = fc
      .tuple(atom, fc.constantFrom("", "*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"))
      .map(([one, more]) => (one === "\\b" ? one : one + more));
    const body = fc.array(piece, { maxLength: 4 }).map((parts) => parts.join(""));
    const source = fc
      .tuple(fc.constantFrom("", "^"), body, fc.constantFrom("", "|a"), fc.constantFrom("", "$"))
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(source, fc.string({ unit: fc.constantFrom("a", "b", "1", ".", " ", "😀"), maxLength: 6 }), (pattern, text) => {
        const read = compilePattern(pattern);
        if (typeof read === "string") throw new Error(`${pattern} is ${read}`);
        expect(read.test(text)).toBe(new RegExp(pattern, "u").test(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it("[G13] compilePattern reports a pattern that is unsupported, invalid or too large", () => {
    expect(compilePattern("(?=a)b")).toBe("unsupported");
    expect(compilePattern("(a)\\1")).toBe("unsupported");
    expect(compilePattern("(")).toBe("invalid");
    expect(compilePattern("(a{1000}){1000}")).toBe("too large");
    expect(compilePattern("x".repeat(2_000))).toBe("too large");
    expect(compilePattern("^a*b{100000}$")).toBe("too large");
  });
});

describe("withDefaults", () => {
  it("[G11] withDefaults fills in defaults, also in nested objects, and changes no existing value", () => {
    const schema = objectSchema({
      a: { default: 1 },
      b: objectSchema({ c: { default: [2] }, d: {} }),
      e: objectSchema({ f: { default: 3 } }),
      g: objectSchema({ h: { default: 4 }, i: {} }, { required: ["h", "i"] }),
      n: { default: 5 },
    });

    expect(withDefaults(schema, { b: { d: 0 }, n: null })).toEqual({ a: 1, b: { c: [2], d: 0 }, e: { f: 3 }, n: null });
  });

  it("[G11] withDefaults follows references and allOf, and stops where a schema refers to itself", () => {
    const schema = {
      $defs: { t: objectSchema({ v: { default: 1 }, next: { $ref: "#/$defs/t" } }) },
      ...objectSchema({ t: { $ref: "#/$defs/t" } }),
      allOf: [objectSchema({ z: { default: 9 } })],
    };

    expect(withDefaults(schema, { t: { next: { next: {} } } })).toEqual({ t: { v: 1, next: { v: 1, next: { v: 1 } } }, z: 9 });
    expect(withDefaults(schema, {})).toEqual({ t: { v: 1 }, z: 9 });
  });

  it("[G11] withDefaults keeps every authored value, whatever the schema", () => {
    fc.assert(
      fc.property(fc.object(), fc.dictionary(fc.string(), fc.jsonValue()), (properties, value) => {
        const filled = withDefaults({ properties }, value) as Record<string, unknown>;
        for (const [key, item] of Object.entries(value)) expect(Object.hasOwn(filled, key) && filled[key]).toEqual(item);
      }),
    );
  });
});

describe("problems of a node", () => {
  it("[G12] a schema problem of a node's parameters names the node and the field, and no name that begins with two underscores", () => {
    const strict = node({ parameters: objectSchema({ size: objectSchema({ width: { type: "integer" } }) }) });

    expect(findParamsProblem(strict, { size: { width: "wide" } })).toEqual({
      path: "/parameters/size/width",
      message: "node n1 (Resize): parameters.size.width must be a whole number",
    });
    expect(findParamsProblem(strict, { size: { width: 3 } })).toBeNull();
    const closed = node({ parameters: objectSchema({}, { additionalProperties: false }) });
    expect(findParamsProblem(closed, { __next: {} })).toBeNull();
    const container = objectSchema({}, { required: ["__container"], additionalProperties: false });
    expect(findParamsProblem(node({ parameters: container }), {})).toBeNull();
    expect(findResultsProblem(node({ results: container }), { __trace: 1 })).toBeNull();
    expect(findParamsProblem(closed, { next: {} })?.message).toContain("parameters.next is not known to the schema");
  });

  it("[G12] the check of a node's results counts authored results and defaults as returned, and null of an optional property as absent", () => {
    const schema = {
      results: objectSchema(
        { a: { type: "string" }, b: { type: "number", default: 2 }, c: { type: "string" } },
        { required: ["a", "b"] },
      ),
    };

    expect(findResultsProblem(node(schema, { a: "authored" }), { c: null })).toBeNull();
    expect(fillResults(node(schema, { a: "authored" }), { c: null })).toEqual({ a: "authored", b: 2, c: null });
    expect(findResultsProblem(node(schema), {})?.path).toBe("/results/a");
    expect(findResultsProblem(node(schema), { a: null })?.message).toContain("results.a must be a text");
    expect(findResultsProblem(node({ results: { type: "object" } }), "text")?.message).toContain("results must be an object");
    expect(findResultsProblem(node({}), "anything")).toBeNull();
  });
});
