import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseInstant } from "./instant.ts";

describe("parseInstant", () => {
  it("[C25] parseInstant reads an instant with its time zone as the same point in time that Date gives", () => {
    const years = { min: new Date("0001-01-01T00:00:00Z"), max: new Date("9999-12-31T23:59:59Z"), noInvalidDate: true };
    fc.assert(
      fc.property(fc.date(years), (date) => {
        expect(parseInstant(date.toISOString())).toBe(date.getTime());
      }),
    );
    expect(parseInstant("2026-01-31T12:00:00.5+02:30")).toBe(Date.parse("2026-01-31T09:30:00.500Z"));
    expect(parseInstant("2024-02-29T00:00:00-01:00")).toBe(Date.parse("2024-02-29T01:00:00Z"));
    expect(parseInstant("2026-06-30T21:15:07.25-03:30")).toBe(Date.parse("2026-07-01T00:45:07.250Z"));
  });

  it.each(["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z"])(
    "[C25] parseInstant returns null for %j",
    (text) => {
      expect(parseInstant(text)).toBeNull();
    },
  );
});
