import { describe, expect, it } from "vitest";
import { computedPart, tokenize } from "../../../scripts/checks/tokens.ts";

const tokenTexts = (source: string) =>
  tokenize(source)
    .filter((token) => token.kind === "word")
    .map((token) => token.text);

describe("tokens", () => {
  it("[H6] the tokenizer finds identifiers and keywords in code, but not in comments or strings", () => {
    const source = "// one Date\n/* two\n Date */ const a = \"Date\"; const b = 'it\\'s Date'; const c = `Date`; run(a);";

    expect(tokenTexts(source)).toEqual(["const", "a", "const", "b", "const", "c", "run", "a"]);
  });

  it("[H6] the tokenizer reads the code inside template placeholders at any depth", () => {
    const tokens = tokenize("const t = `a ${ f({ b: `x ${g} y` }) } z`; end;");

    expect(tokens.filter((token) => token.kind === "template").map((token) => token.text)).toEqual([
      `a ${computedPart} z`,
      `x ${computedPart} y`,
    ]);
    expect(tokens.filter((token) => token.kind === "word").map((token) => token.text)).toEqual([
      "const",
      "t",
      "f",
      "b",
      "g",
      "end",
    ]);
  });

  it("[H6] the tokenizer distinguishes a regular expression from a division", () => {
    const kinds = (source: string) => tokenize(source).map((token) => token.kind);

    expect(kinds("const r = /a'[/]b/u;")).toEqual(["word", "word", "mark", "regex", "mark"]);
    expect(kinds("const q = a / b / c;")).not.toContain("regex");
    expect(kinds("return /x/.test(y)")).toContain("regex");
    expect(kinds("(a + b) / c / d")).not.toContain("regex");
  });

  it("[H6] the tokenizer gives the right line for a token after comments and templates of several lines", () => {
    const tokens = tokenize("#!/usr/bin/env node\n/*\n\n*/\nconst a = `\n\n`;\nhere");

    expect(tokens.at(-1)).toEqual({ kind: "word", text: "here", line: 8 });
  });

  it("[H6] the tokenizer misreads at most one line after an apostrophe in JSX text", () => {
    expect(tokenTexts("const a = <p>don't</p>;\nimport b")).toEqual(expect.arrayContaining(["import", "b"]));
  });
});
