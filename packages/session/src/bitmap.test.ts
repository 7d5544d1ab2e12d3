import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bitmapPositions, buildBitmap } from "./bitmap.ts";

describe("the bitmap of an ack", () => {
  it("[N2] the bitmap of an ack is a number up to 53 bits and lowercase hex above", () => {
    expect(buildBitmap(-1, new Set())).toBe(0);
    expect(buildBitmap(3, new Set([5, 6]))).toBe(0b110);
    expect(buildBitmap(-1, new Set([52]))).toBe(2 ** 52);
    expect(buildBitmap(-1, new Set(Array.from({ length: 53 }, (_, at) => at)))).toBe(Number.MAX_SAFE_INTEGER);
    expect(buildBitmap(-1, new Set([53]))).toBe("20000000000000");
    expect(buildBitmap(9, new Set([11, 13, 1_033]))).toMatch(/^8[0]{254}a$/);
  });

  it("[N2] the bitmap of an ack is read as the same bits from a number and from hex", () => {
    expect(bitmapPositions(undefined)).toEqual([]);
    expect(bitmapPositions(0)).toEqual([]);
    expect(bitmapPositions("0")).toEqual([]);
    expect(bitmapPositions("00a")).toEqual([1, 3]);
    expect(bitmapPositions(2 ** 52 + 2 ** 31 + 1)).toEqual([0, 31, 52]);
    expect(bitmapPositions((2 ** 52 + 2 ** 31 + 1).toString(16))).toEqual([0, 31, 52]);
  });

  it("[N2] the bitmap of an ack loses no bit at any window from 1 to 1024, at any base number", () => {
    fc.assert(
      fc.property(fc.integer({ min: -1, max: 2 ** 40 }), fc.uniqueArray(fc.nat(1_023), { maxLength: 200 }), (base, bits) => {
        const written = buildBitmap(base, new Set(bits.map((bit) => base + 1 + bit)));

        const exact = bits.reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);
        expect(BigInt(typeof written === "string" ? `0x${written}` : written)).toBe(exact);
        expect(bitmapPositions(written)).toEqual(bits.toSorted((a, b) => a - b));
      }),
      { numRuns: 500 },
    );
  });
});
