import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault } from "../faults/fault.ts";
import type { JsonValue } from "./json-value.ts";
import { type JsonLimits, limits } from "./limits.ts";
import { readJson } from "./read-json.ts";
import { readJsonInSteps } from "./read-json-steps.ts";

function readAll(text: string, bounds: JsonLimits = limits.json.frame, stepChars?: number) {
  const steps = readJsonInSteps(text, bounds, stepChars);
  let pauses = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) pauses += 1;
  return { value: step.value, pauses };
}

/** What both readers have to agree on; where several things are wrong they may name different ones. */
const outcomeOf = (read: JsonValue | Fault) => (read instanceof Fault ? read.code : { value: read, text: JSON.stringify(read) });

const stepSizes = [1, 2, 7, 40, 10_000];

function expectSame(text: string, bounds: JsonLimits = limits.json.frame): void {
  const expected = outcomeOf(readJson(text, bounds));
  for (const stepChars of stepSizes)
    expect({ stepChars, outcome: outcomeOf(readAll(text, bounds, stepChars).value) }).toEqual({ stepChars, outcome: expected });
}

describe("reading JSON in steps", () => {
  it("[J890] readJsonInSteps reads every value as readJson does, however small its steps", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom("", " ", "\t", " \r\n"), (value, indent) =>
        expectSame(JSON.stringify(value, null, indent)),
      ),
      { numRuns: 300, seed: 890 },
    );
  });

  it("[J890] readJsonInSteps refuses whatever readJson refuses: texts that were changed at one place", () => {
    const pieces = [
      "",
      ",",
      ":",
      "]",
      "[",
      "}",
      "{",
      '"',
      "\\",
      "1",
      "null",
      " ",
      '"a":',
      "-0",
      "1e999",
      "\\ud800",
      '"__proto__":{}',
    ];
    const changed = fc.tuple(fc.jsonValue({ maxDepth: 4 }), fc.nat(), fc.nat(2), fc.constantFrom(...pieces));
    let refusals = 0;

    fc.assert(
      fc.property(changed, ([value, place, removed, piece]) => {
        const text = JSON.stringify(value);
        const at = place % (text.length + 1);
        const damaged = text.slice(0, at) + piece + text.slice(at + removed);
        if (readJson(damaged) instanceof Fault) refusals += 1;
        expectSame(damaged);
      }),
      { numRuns: 3_000, seed: 890 },
    );
    expect(refusals).toBeGreaterThan(1_000);
  });

  it.each([
    "",
    " ",
    "[",
    "]",
    "][",
    "[1,]",
    "[,1]",
    "[[1,2],]",
    "[,[1,2]]",
    "[1 [1,2]]",
    "[[1,2] 1]",
    "[[1,2][1,2]]",
    '{"a":1[1,2]}',
    '{"a":[1,2]"b":1}',
    '{"a":[1,2],}',
    '{,"a":[1,2]}',
    "{[1,2]}",
    '{"a":"b"[1,2]}',
    "[1,2}",
    "{]",
    "[1,2]x",
    "[1,2] [1,2]",
    '{"a":[1,2],"a":[3,4]}',
    '{"a":1,"b":[1,2],"\\u0061":1}',
    '{"__proto__":[1,2,3]}',
    '{"constructor":[1,2,3]}',
    '{"a\\u0000":[1,2,3]}',
    "[[],[ ],[\n]]",
    "[                    ]",
    "[-0,[-0,-0,-0],-0]",
    '{"10":[1,2],"9":[3,4],"b":{},"a":{"x":{}}}',
  ])("[J890] readJsonInSteps answers %s as readJson does", (text) => {
    expectSame(text);
  });

  it.each([
    ["bytes", { bytesMax: 20 }],
    ["levels", { depthMax: 2 }],
    ["members", { itemsMax: 5 }],
    ["keys", { keysMax: 3 }],
    ["different keys", { shapeKeysMax: 3 }],
    ["characters in a string", { stringCharsMax: 2 }],
    ["characters in a number", { numberCharsMax: 2 }],
  ])("[J890] readJsonInSteps keeps the limit of %s whatever its steps", (what, more) => {
    const text = '{"a":[1,{"b":{"c":123}}],"d":"text","e":4,"f":[5,6,7]}';
    const bounds = { ...limits.json.frame, ...more };

    const refusals = stepSizes.map((stepChars) => readAll(text, bounds, stepChars).value);

    expect(readJson(text, bounds)).toMatchObject({ code: "E.FRAME.TOO_LARGE", details: { what } });
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: "E.FRAME.TOO_LARGE", details: { what } });
  });

  it.each([
    ["one long list", { items: Array.from({ length: 20_000 }, (_, at) => ({ at, name: "item" })) }],
    ["one object with many keys", Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`name ${at}`, at]))],
    [
      "long lists in many levels",
      nest(
        Array.from({ length: 30_000 }, (_, at) => at),
        40,
      ),
    ],
  ])("[J890] readJsonInSteps pauses after every part of a text that is long: %s", (_, value) => {
    const text = JSON.stringify(value);
    const stepChars = 10_000;

    const read = readAll(text, limits.json.frame, stepChars);

    expect(read.value).toEqual(value);
    // Once while it is scanned and once while it is parsed, and twice for each level.
    expect(read.pauses).toBeGreaterThanOrEqual(2 * Math.floor(text.length / (stepChars + 100)));
    expect(read.pauses).toBeLessThan(3 * Math.ceil(text.length / stepChars) + 2 * 40);
  });
});

function nest(value: unknown, levels: number): unknown {
  return levels === 0 ? value : { inner: nest(value, levels - 1), after: levels };
}
