/** The titles of all tests, read from the sources, so that documents can name a test and rules can be traced to one. */

import { listSources, readText } from "../repository-files.ts";
import { computedPart, type Token, tokenize } from "./tokens.ts";

export interface TestTitle {
  file: string;
  line: number;
  /** As written; a computed part is the hole sign. */
  text: string;
  /** Rule ids in brackets at its start. */
  rules: string[];
}

const testFunctions = new Set(["it", "test", "describe"]);
/** `[L4]`, `[L4, L5]` or `[L4][L5]` at the start of a title. */
const citation = /^(?:\[[A-Z]{1,4}\d+[a-z]?(?:,\s*[A-Z]{1,4}\d+[a-z]?)*\]\s*)+/;
const ruleId = /[A-Z]{1,4}\d+[a-z]?/g;
/** Places that `it.each` fills: %s and the like, $name, $0. */
const eachPlaceholders = /%[sdifjoO#$c]|\$[\w.]+/g;

export function listTestTitles(root: string): TestTitle[] {
  return ["packages", "apps", "test", "scripts", "bench", "examples"]
    .flatMap((folder) => listSources(root, folder))
    .flatMap((file) => readTestTitles(readText(root, file)).map((title) => ({ ...title, file })));
}

function readTestTitles(source: string): Omit<TestTitle, "file">[] {
  const tokens = tokenize(source);
  return tokens.flatMap((token, at) => {
    // A case of a contract suite is a row with a title; the suite hands it to `it`.
    const row = token.kind === "word" && token.text === "title" && tokens[at + 1]?.text === ":" ? tokens[at + 2] : undefined;
    if (row?.kind === "string" && citation.test(row.text))
      return [{ line: row.line, text: row.text, rules: row.text.match(citation)?.[0].match(ruleId) ?? [] }];
    if (token.kind !== "word" || !testFunctions.has(token.text) || tokens[at - 1]?.text === ".") return [];
    const { open, isEach } = findCall(tokens, at + 1);
    const titleToken = tokens[open + 1];
    if (tokens[open]?.text !== "(" || !titleToken || (titleToken.kind !== "string" && titleToken.kind !== "template")) return [];
    let text = isEach ? titleToken.text.replace(eachPlaceholders, computedPart) : titleToken.text;
    if (titleToken.kind === "string" && tokens[open + 2]?.text === "+") text += computedPart; // the rest is computed
    if (text.replaceAll(computedPart, "").trim() === "") return []; // computed as a whole: it would stand for any title
    return [{ line: titleToken.line, text, rules: text.match(citation)?.[0].match(ruleId) ?? [] }];
  });
}

/** Skips what may stand between `it` and its title: `.concurrent`, `.each([...])`, a table in a template. */
function findCall(tokens: readonly Token[], from: number): { open: number; isEach: boolean } {
  let at = from;
  let isEach = false;
  while (tokens[at]?.text === "." && tokens[at + 1]?.kind === "word") {
    const takesTable = ["each", "for", "skipIf", "runIf", "extend"].includes(tokens[at + 1]?.text ?? "");
    isEach ||= ["each", "for"].includes(tokens[at + 1]?.text ?? "");
    at += 2;
    if (takesTable && tokens[at]?.kind === "template") while (at < tokens.length && tokens[at]?.text !== "(") at += 1;
    else if (takesTable && tokens[at]?.text === "(") at = skipArguments(tokens, at);
  }
  return { open: at, isEach };
}

function skipArguments(tokens: readonly Token[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (token?.kind !== "mark") continue;
    if ("([{".includes(token.text)) depth += 1;
    if (")]}".includes(token.text)) depth -= 1;
    if (depth === 0) return at + 1;
  }
  return tokens.length;
}

/** Whether a title is written as its template, which no run reports. */
export const isTemplate = (title: string): boolean => title.search(eachPlaceholders) >= 0 || title.includes("${");

/** Whether a document that writes `named` means this title; a computed part stands for anything. */
export function matchesTitle(title: string, named: string): boolean {
  const parts = title.split(computedPart).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".+")}$`, "s").test(named);
}
