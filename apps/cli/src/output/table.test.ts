import { describe, expect, it } from "vitest";
import { formatCount, formatTimeSpan } from "./format.ts";
import { chooseColumns, fitTableToWidth, formatTable, truncate, truncateStart } from "./table.ts";

describe("tables on a screen", () => {
  it("[L32] the columns of a table line up as they are seen: wide letters take two places, joined emoji as many as one", () => {
    expect(
      formatTable([
        ["\u65e5\u672c\u8a9e", "x"],
        ["a", "y"],
        ["\u{1f469}\u200d\u{1f469}\u200d\u{1f467}", "z"],
      ]),
    ).toEqual(["\u65e5\u672c\u8a9e  x", "a       y", "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}      z"]);
  });

  it("[L85] a text is cut to the places it takes, never inside a letter, at either end", () => {
    expect(truncate("\u65e5\u672c\u8a9e\u6587", 6)).toBe("\u65e5\u672c\u2026");
    expect(truncate("\u65e5\u672c\u8a9e\u6587", 8)).toBe("\u65e5\u672c\u8a9e\u6587");
    expect(truncateStart("\u65e5\u672c\u8a9e\u6587", 5)).toBe("\u2026\u8a9e\u6587");
    expect(truncate("ab\u{1f469}\u200d\u{1f469}\u200d\u{1f467}cd", 4)).toBe("ab\u2026");
  });

  it("[L32] ids are cut to the shortest ends that still tell them apart, eight characters at least", () => {
    const rows = [
      ["ID", "NAME"],
      ["0190a000-0001-aaaaaaaa", "a".repeat(40)],
      ["0190a000-0002-aaaaaaaa", "b".repeat(40)],
    ];

    const ids = fitTableToWidth(rows, [{ kind: "id" }, { kind: "text" }], 40).map(([id]) => id);
    expect(ids).toEqual(["ID", "1-aaaaaaaa", "2-aaaaaaaa"]);

    const others = rows.map(([id = "", name = ""]) => [id.replace("2-aaaaaaaa", "2-aaaaaaab"), name]);
    expect(fitTableToWidth(others, [{ kind: "id" }, { kind: "text" }], 40).map(([id]) => id)).toEqual([
      "ID",
      "aaaaaaaa",
      "aaaaaaab",
    ]);
  });

  it("[L600] a narrow screen leaves out the last column first, and never one that is kept", () => {
    const columns = [{ isKept: true }, {}, {}, { isKept: true }] as const;
    const rows = [["IDENTIFIER", "FIRST-ONE", "OTHER-ONE", "STATUS-OF-IT"]];

    expect(chooseColumns(rows, columns, 80)).toEqual([0, 1, 2, 3]);
    expect(chooseColumns(rows, columns, 37)).toEqual([0, 1, 3]);
    expect(chooseColumns(rows, columns, 10)).toEqual([0, 3]);
  });

  it("[L912] one thing is counted in the singular", () => {
    expect([0, 1, 2].map((count) => formatCount(count, "file"))).toEqual(["0 files", "1 file", "2 files"]);
  });

  it("[L1] a time span is shown in the largest unit of which there is at least one, minutes and hours up to two of the next", () => {
    const spans = [-5, 0, 59_900, 60_000, 119 * 60_000, 120 * 60_000, 47 * 3_600_000, 48 * 3_600_000];

    expect(spans.map(formatTimeSpan)).toEqual(["0.0 s", "0.0 s", "59.9 s", "1 min", "119 min", "2 h", "47 h", "2 d"]);
  });
});
