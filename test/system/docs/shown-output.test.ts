import { describe, expect, it } from "vitest";
import { readCodeBlocks, readCommands, readConsole, readHttp } from "./code-blocks.ts";
import { compareJson, readShownJson } from "./shown-json.ts";
import { compareText, fillInNames, type KnownNames } from "./shown-output.ts";

const run = "01a1ec7a-c8e9-7000-b823-e7cb272d76e8";
const compare = (shown: string, actual: unknown, known: KnownNames = new Map()) => {
  const json = readShownJson(shown);
  if (json === undefined) throw new Error(`no JSON: ${shown}`);
  return compareJson(json, actual, known);
};

describe("what pages show", () => {
  it("[H723] code without fences or without a language is a problem that names its line", () => {
    const { blocks, problems } = readCodeBlocks("Text\n\n    npm start\n\n```\nls\n```\n\n```sh background\nls\n```\n");

    expect(problems).toEqual([expect.stringContaining("line 3"), expect.stringContaining("line 5")]);
    expect(blocks.map(({ line, language, text }) => [line, language, text])).toEqual([
      [5, "", "ls"],
      [9, "sh", "ls"],
    ]);
    expect(blocks[1]?.options.has("background")).toBe(true);
  });

  it("[H723] commands are read with their continued lines, open quotes and here-documents, and without comments", () => {
    expect(readCommands('a \\\n  b\n# no\ncat > f <<EOF\nx\nEOF\npsql "SELECT\n  1"\nlast')).toEqual([
      "a \\\n  b",
      "cat > f <<EOF\nx\nEOF",
      'psql "SELECT\n  1"',
      "last",
    ]);
    expect(readConsole("$ a \\\n  b\nout\n\nmore\n$ c")).toEqual([
      { command: "a \\\n  b", output: "out\n\nmore" },
      { command: "c", output: "" },
    ]);
  });

  it("[H723] a request is read with its headers, its body over several lines, and its answer", () => {
    const [first, second] = readHttp('PUT /a {"b":\n  1}\nIf-Match: "r1"\n412 {"c":2}\nGET /d\n{"e":3}');

    expect(first).toMatchObject({
      method: "PUT",
      path: "/a",
      body: '{"b": 1}',
      headers: { "If-Match": '"r1"' },
      status: 412,
      answer: '{"c":2}',
    });
    expect(second).toMatchObject({ method: "GET", path: "/d", status: undefined, answer: '{"e":3}' });
  });

  it("[H723] ids, times and durations may differ from what is shown, every other word may not", () => {
    const shown = "run 01a1dfb4-… took 0.5 s since 2026-11-15 12:16:11Z";

    expect(compareText(shown, `run ${run} took 1.25 s since 2027-01-01 00:00:00Z`, new Map())).toBeNull();
    expect(compareText(shown, `run ${run} had 1.25 s since 2027-01-01 00:00:00Z`, new Map())).toContain("had");
    expect(compareText("first\n…\nlast", "first\na\nb\nlast", new Map())).toBeNull();
    expect(compareText("first\n…\nlast", "first\na\nb", new Map())).not.toBeNull();
  });

  it("[H723] an id that was shown once is the same one wherever it is shown or used again", () => {
    const known: KnownNames = new Map();

    expect(compareText("01a1dfb4-1111-7000-8000-8b8131c92c12", run, known)).toBeNull();

    expect(fillInNames("astra why 8b8131c92c12; GET /runs/01a1dfb4-…/nodes", known)).toBe(
      `astra why e7cb272d76e8; GET /runs/${run}/nodes`,
    );
    expect(compareText("01a1dfb4-…", run.replace("e8", "e9"), known)).not.toBeNull();
  });

  it("[H723] shown JSON agrees field by field, and leaves out only where it says so", () => {
    expect(compare('{"a":1,…}', { a: 1, b: 2 })).toBeNull();
    expect(compare('{"a":1}', { a: 1, b: 2 })).toContain("also has b");
    expect(compare('{"a":1,"c":3,…}', { a: 1, b: 2 })).toContain("has no c");
    expect(compare('{"asOf":391}', { asOf: 5 })).toBeNull();
    expect(compare('[{"a":1}, …, {"a":3}]', [{ a: 1 }, { a: 2 }, { a: 3 }])).toBeNull();
    expect(compare('[{"a":1}, {"a":3}]', [{ a: 1 }, { a: 2 }, { a: 3 }])).toContain("/1/a");
    expect(compare('[{"a":1}]', [{ a: 1 }, { a: 2 }])).toContain("2 entries");
  });
});
