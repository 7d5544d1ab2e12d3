import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { presentValue, readValueAt, valueBytesMax } from "./run-values.ts";

const piece = (value: string, offset: number, length: number) => {
  const shown = presentValue(value, { offset, length });
  if ("value" in shown) throw new Error("a stretch was asked for");
  return shown;
};

describe("values of a node", () => {
  it("[A286] a node's value is returned whole, or as a byte range of its JSON text with the position of the range", () => {
    expect(presentValue({ a: 1 }, {})).toEqual({ value: { a: 1 } });
    expect(presentValue({ a: 1 }, { offset: 0 })).toEqual({ text: '{"a":1}', range: { from: 0, to: 7, total: 7 } });
    expect(presentValue("hello", { offset: 1, length: 4 })).toEqual({ text: "hell", range: { from: 1, to: 5, total: 7 } });
    expect(presentValue("hello", { offset: 99 })).toEqual({ text: "", range: { from: 7, to: 7, total: 7 } });
  });

  it("[A286] a byte range of a node's value never cuts a character: it belongs to the range in which it begins", () => {
    // "é€😀" is 2, 3 and 4 bytes, after a quotation mark.
    expect(piece("é€😀", 0, 2)).toEqual({ text: '"é', range: { from: 0, to: 3, total: 11 } });
    expect(piece("é€😀", 2, 2)).toEqual({ text: "€", range: { from: 3, to: 6, total: 11 } });
    expect(piece("é€😀", 4, 1)).toEqual({ text: "", range: { from: 6, to: 6, total: 11 } });
    expect(piece("é€😀", 6, 1)).toEqual({ text: "😀", range: { from: 6, to: 10, total: 11 } });
  });

  it("[A286] consecutive byte ranges of a node's value return every byte once, whatever the text and the lengths", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), fc.integer({ min: 1, max: 9 }), (text, length) => {
        const total = Buffer.byteLength(JSON.stringify(text));
        let whole = "";
        for (let at = 0; at < total; at += length) whole += piece(text, at, length).text;
        let followed = "";
        for (let at = 0; at < total; ) {
          const { text: part, range } = piece(text, at, length);
          expect(range.to).toBeGreaterThan(at);
          followed += part;
          at = range.to;
        }

        expect(JSON.parse(whole)).toBe(text);
        expect(JSON.parse(followed)).toBe(text);
      }),
    );
  });

  it("[A286] a node's value that is too large for one answer is returned from its beginning, with its total size", () => {
    const shown = presentValue("x".repeat(valueBytesMax), {});

    expect(shown).toMatchObject({ range: { from: 0, to: valueBytesMax, total: valueBytesMax + 2 } });
  });

  it("[A144] a node's values are found under results and parameters, and the error for a missing one names it", () => {
    const values = { results: { list: [1, 2] }, parameters: { a: null } };

    expect(readValueAt(values, "results.list.1", "n")).toBe(2);
    expect(readValueAt(values, "/parameters/a", "n")).toBe(null);
    expect(() => readValueAt(values, "results.none", "n")).toThrow("node n has no value at results.none");
    expect(() => readValueAt(values, "secrets", "n")).toThrow("secrets");
  });
});
