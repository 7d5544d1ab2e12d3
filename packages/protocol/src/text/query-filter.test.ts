import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fault } from "../faults/fault.ts";
import { closestMatch } from "./closest-match.ts";
import { formatQuery, parseQuery, type QueryableList, queryCharsMax, queryKeys, resolveInstant } from "./query-filter.ts";

const valuesOf = (line: string, page: QueryableList = "runs") => {
  const read = parseQuery(line, page);
  return read instanceof Fault ? read.message : read.values;
};

describe("a query line", () => {
  it("[L22] a query line consists of keys with values, quoted where they contain spaces; terms without a key are text", () => {
    expect(valuesOf('status:failed workflow:"Smoke test" worker:w-2 since:1h text:"timed out"')).toEqual({
      status: "failed",
      workflow: "Smoke test",
      worker: "w-2",
      since: "1h",
      text: "timed out",
    });
    expect(valuesOf('  timeout "on w-2"  STATUS:failed,queued status:running ')).toEqual({
      text: "timeout on w-2",
      status: "failed,queued,running",
    });
    expect(valuesOf('text:"a \\"quoted\\" back\\\\slash"')).toEqual({ text: 'a "quoted" back\\slash' });
    expect(valuesOf("")).toEqual({});
  });

  it("[L22] the query parser returns the position of each term", () => {
    const read = parseQuery('status:failed "a b"', "runs");

    expect(read).toMatchObject({
      terms: [
        { key: "status", from: 0, to: 13 },
        { key: "text", value: "a b", from: 14, to: 19 },
      ],
    });
  });

  it("[L22] the query parser refuses what it does not know, with the reason, and suggests the closest key or value", () => {
    expect(valuesOf("stauts:failed")).toMatch(/no filter "stauts" here.*Did you mean status\?/);
    expect(valuesOf("http://x")).toMatch(/write "http:\/\/x" in quotes/);
    expect(valuesOf("status:faild")).toMatch(/status is one of queued, .*"faild" is none of them. Did you mean failed\?/);
    expect(valuesOf("since:yesterday")).toMatch(/is not a time; write an age/);
    expect(valuesOf("status:")).toMatch(/status: has no value/);
    expect(valuesOf('text:"open')).toMatch(/quote that opens at character 6 is not closed/);
    expect(valuesOf("client:a client:b")).toMatch(/client: is given twice \(a and b\)/);
    expect(valuesOf("word", "events")).toMatch(/"word" has no key; use one of topic, run/);
    expect(valuesOf("constructor:x")).toMatch(/no filter "constructor"/);
    expect(valuesOf("x".repeat(queryCharsMax + 1))).toMatch(/at most 4096 characters/);
  });

  it("[L22] a query line that is formatted and parsed again has the same values, whatever they contain", () => {
    const value = fc.string({ minLength: 1, maxLength: 40, unit: "grapheme" });
    const values = fc.record({ workflow: value, client: value, worker: value, text: value }, { requiredKeys: [] });

    fc.assert(
      fc.property(values, (given) => {
        expect(valuesOf(formatQuery(given))).toEqual(given);
      }),
    );
  });

  it("[L22] the query parser reads any text for any list without throwing, and returns terms or E.REQUEST.INVALID", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), fc.constantFrom(...(Object.keys(queryKeys) as QueryableList[])), (line, page) => {
        const read = parseQuery(line, page);
        const isSound = read instanceof Fault ? read.code === "E.REQUEST.INVALID" : read.terms.every(({ from, to }) => to > from);
        expect(isSound).toBe(true);
      }),
    );
  });

  it("[L22] a time in a query line is an age, a day or an instant", () => {
    const now = Date.parse("2026-02-01T00:00:00Z");

    expect(resolveInstant("1h", now)).toBe(now - 3_600_000);
    expect(resolveInstant("2d", now)).toBe(now - 172_800_000);
    expect([resolveInstant("99999d", now), resolveInstant("999999999d", now)]).toEqual([0, 0]);
    expect(resolveInstant("2026-01-31", now)).toBe(now - 86_400_000);
    expect(resolveInstant("2026-01-31T12:00:00+12:00", now)).toBe(now - 86_400_000);
    expect(resolveInstant("soon", now)).toBeNull();
  });
});

it("[L22] closestMatch returns the candidate that is a typo away, or null", () => {
  expect(closestMatch("recipeint", ["subject", "recipient"])).toBe("recipient");
  expect(closestMatch("x", ["subject"])).toBeNull();
});
