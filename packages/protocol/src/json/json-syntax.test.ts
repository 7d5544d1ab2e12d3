import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault } from "../faults/fault.ts";
import { findJsonSyntaxError } from "./json-syntax.ts";
import { limits } from "./limits.ts";
import { readJson } from "./read-json.ts";

const describeMistake = (text: string): string => {
  const found = findJsonSyntaxError(text);
  return found ? `${found.line}:${found.column} ${found.problem}` : "none";
};

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch (cause) {
    return !(cause instanceof SyntaxError);
  }
};

describe("mistakes in JSON", () => {
  it.each([
    ['{\n  "a": 1\n  "b": 2\n}', '3:3 expected "," or "}"'],
    ['{\n  "a": [1, 2,\n  ]\n}', '2:13 no "," may stand before "]"'],
    ['{"a": 1,}', '1:8 no "," may stand before "}"'],
    ["{a: 1}", '1:2 expected the name of a field in double quotes, or "}"'],
    ["{'a': 1}", '1:2 expected the name of a field in double quotes, or "}": texts are written in double quotes'],
    ['{"a" 1}', '1:6 expected ":" after the name of a field'],
    ['{"a": }', "1:7 expected a value"],
    ['{"a": hello}', "1:7 expected a value: texts are written in double quotes"],
    ['{"a": True}', "1:7 expected a value: texts are written in double quotes"],
    ['{"ü😀": 01}', "1:8 this is no number of JSON"],
    ["[1.]", "1:2 this is no number of JSON"],
    ["[1 2]", '1:4 expected "," or "]"'],
    ['["abc]\n', '1:2 the text that begins here has no closing " in its line'],
    ['"abc', '1:1 the text that begins here has no closing "'],
    ['["\\x"]', "1:3 this escape is unknown; a backslash is written \\\\"],
    ['["\t"]', "1:3 a control character in a text must be escaped (\\t, \\u0000)"],
    ['{\r\n"a": 1,\r\n// why\r\n"b": 2}', "3:1 JSON has no comments"],
    ["", "1:1 the text is empty"],
    [" \n ", "2:2 the text is empty"],
    ['{"a": [1', '1:9 the text ends here, where it needs "]" and "}"'],
    ["[[[[[", "1:6 the text ends here, where it needs 5 closing brackets"],
    ["{} {}", "1:4 expected nothing more after the value"],
    ["\ufeff{}", "1:1 the file begins with a byte order mark; save it as UTF-8 without one"],
  ])("[J910] the mistake in %j is found with its line and column", (text, expected) => {
    expect(describeMistake(text)).toBe(expected);
  });

  it("[J910] a mistake is found in exactly the texts that the parser refuses", () => {
    const marks = fc
      .array(
        fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", "1", "-", ".", "e", "0", "true", "null", " ", "\n", "a", "é"),
      )
      .map((parts) => parts.join(""));
    const damaged = fc
      .tuple(fc.jsonValue({ maxDepth: 4 }), fc.nat(), fc.constantFrom("", ",", '"', "}", "]", "x", "\n", "0"))
      .map(([value, at, put]) => {
        const text = JSON.stringify(value, null, 1);
        return text.slice(0, at % text.length) + put + text.slice((at % text.length) + 1);
      });
    fc.assert(
      fc.property(fc.oneof(marks, damaged, fc.string({ unit: "binary" })), (text) => {
        expect(findJsonSyntaxError(text) === null).toBe(isJson(text));
      }),
      { numRuns: 2_000 },
    );
  });

  it("[J910] a text nested deeper than the stack is searched too", () => {
    expect(describeMistake("[".repeat(200_000))).toBe("1:200001 the text ends here, where it needs 200000 closing brackets");
  });

  it("[J911] the refusal of a text names line, column and what was expected, without anything of the text", () => {
    const read = readJson('{\n  "password": "hunter2"\n  "b": 1\n}', limits.json.request);

    expect(read).toMatchObject({
      code: "E.REQUEST.INVALID",
      message: 'the body is not JSON: line 3, column 3: expected "," or "}"',
      details: { line: 3, column: 3 },
    });
    expect(JSON.stringify(read)).not.toContain("hunter2");
  });

  it("[J911] in a long text only the first mebicharacter is searched, and its cut is not taken for a mistake", () => {
    const long = `[${"1234567.5,".repeat(200_000)}`;

    expect(readJson(long, limits.json.request)).toMatchObject({ message: "the body is not JSON", code: "E.REQUEST.INVALID" });
    expect(findJsonSyntaxError(`["${"a".repeat(2_000)}", x]`, 1_000)).toBeUndefined();
    expect(findJsonSyntaxError(`[x, "${"a".repeat(2_000)}"]`, 1_000)).toMatchObject({ line: 1, column: 2 });
    expect(readJson(new TextEncoder().encode("[1,]"), limits.json.request)).toBeInstanceOf(Fault);
  });
});
