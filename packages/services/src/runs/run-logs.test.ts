import type { ChunkRow } from "@astraflow/engine";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLogPageBuilder, splitIntoPieces } from "./run-logs.ts";

/** The lines of one task, on one page. */
function linesOf(rows: readonly ChunkRow[], task: { readonly id: string }, nodeId: string) {
  const page = createLogPageBuilder({ cursor: null, from: 0, limit: 1_000 });
  for (const row of rows) page.addRow(row, splitIntoPieces(row, task, nodeId), 0);
  page.finishTask(0, false);
  return page.build(null).items;
}

/** Rows as the engine writes them: a line begins with the text, unless it goes on with one, and after every line end. */
function rowsOf(turns: readonly (readonly string[])[]): ChunkRow[] {
  let [first, line, isOpen] = [0, 0, false];
  return turns.map((texts, at) => {
    const from = line;
    for (const text of texts) {
      if (text === "") continue;
      const ends = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n").length;
      line += ends - (isOpen ? 1 : 0);
      isOpen = !text.endsWith("\n");
    }
    const body = JSON.stringify(texts.map((text) => ({ channel: "log", text })));
    const row = { task: "r.0", fence: 1, first, count: texts.length, at, line: from, lines: line - from, body };
    first += texts.length;
    return row;
  });
}

describe("the log lines of runs", () => {
  it("[A211] the log of a run joins output that was printed in pieces to its lines, numbered from 0, whatever the pieces", () => {
    const piece = fc.stringMatching(/^[ab\n]{0,6}$/);
    fc.assert(
      fc.property(fc.array(fc.array(piece, { maxLength: 4 }), { maxLength: 6 }), (turns) => {
        const whole = turns.flat().join("");
        const expected = whole === "" ? [] : (whole.endsWith("\n") ? whole.slice(0, -1) : whole).split("\n");
        const lines = linesOf(rowsOf(turns), { id: "r.0" }, "n");

        expect(lines.map((line) => line.text)).toEqual(expected);
        expect(lines.map((line) => line.line)).toEqual(expected.map((_, at) => at));
      }),
    );
  });

  it("[A211] the log of a run keeps binary output apart, with its MIME type", () => {
    const body = JSON.stringify([{ channel: "custom", data: "AAE=", mimeType: "image/png" }]);
    const [line] = linesOf([{ task: "r.0", fence: 1, first: 0, count: 1, at: 0, line: 0, lines: 0, body }], { id: "r.0" }, "n");

    expect(line).toMatchObject({ channel: "custom", text: "AAE=", mimeType: "image/png" });
  });

  it("[A346] a line in the log of a run names the fence of the attempt that printed it, as its node does", () => {
    const body = JSON.stringify([{ channel: "log", text: "x" }]);
    const [line] = linesOf([{ task: "r.0", fence: 7, first: 0, count: 1, at: 0, line: 0, lines: 1, body }], { id: "r.0" }, "n");

    expect(line).toMatchObject({ fence: 7 });
    expect(line).not.toHaveProperty("attempt");
  });
});
