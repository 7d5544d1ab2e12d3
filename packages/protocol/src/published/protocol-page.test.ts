// docs/protocol.md is a contract that strangers build workers from: the frames it names must be those that exist. Features and limits
// are compared in test/repository.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { frameDefinitions, v1FrameTypes } from "../frames/frame-definitions.ts";

const page = readFileSync(new URL("../../../../docs/protocol.md", import.meta.url), "utf8");

/** The text from a heading to the next one of the same depth. */
function section(heading: string): string {
  const from = page.indexOf(`\n## ${heading}`);
  if (from < 0) throw new Error(`docs/protocol.md has no section ${heading}`);
  const to = page.indexOf("\n## ", from + 4);
  return page.slice(from, to < 0 ? undefined : to);
}

const rowsOf = (text: string): string[][] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .map((line) => line.split("|").map((cell) => cell.trim()));

describe("the page of the protocol", () => {
  it("[C20] the protocol page names every v2 frame type and no other, and lists control frames as unnumbered", () => {
    const named = rowsOf(section("3. Frames")).flatMap(([, type = "", , numbered = ""]) => {
      const [first = "", ...rest] = [...type.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word);
      if (!/^(control|biz)\./.test(first)) return [];
      // `.response` beside a longer name shares its stem.
      const others = rest.map((word) => (word.startsWith(".") ? first.replace(/\.[a-z]+$/, word) : word));
      return [first, ...others].map((one) => ({ type: one, isNumbered: numbered === "yes" }));
    });

    expect(named.map(({ type }) => type).sort((a, b) => a.localeCompare(b))).toEqual(
      Object.keys(frameDefinitions.v2).sort((a, b) => a.localeCompare(b)),
    );
    for (const { type, isNumbered } of named) expect([type, isNumbered]).toEqual([type, type.startsWith("biz.")]);
  });

  it("[C20] the protocol page names every v1 frame type", () => {
    const text = section("9. v1 workers");
    for (const type of Object.keys(v1FrameTypes))
      expect(text).toContain(type.startsWith("middleware.next_") ? type.slice("middleware".length + 1) : `\`${type}\``);
  });
});
