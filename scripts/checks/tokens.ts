/**
 * Cuts TypeScript into tokens, so that the checks read code and not the text of comments and strings. It is not a parser: it knows where
 * comments, strings, templates and regular expressions begin and end, and no grammar.
 */

export interface Token {
  kind: "word" | "number" | "string" | "template" | "regex" | "mark";
  /** The text of a word or mark; the unquoted value of a string; a template's text with `\0` in place of each `${}`. */
  text: string;
  line: number;
}

/** In the text of a template token: something computed stood here. */
export const computedPart = "\0";

// After these words a slash begins a regular expression; after any other word or a closing bracket it divides.
const keywordsBeforeRegex = new Set(
  "return typeof instanceof in of new delete void throw case do else await yield extends default".split(" "),
);
const punctuators = ["...", "?.", "=>", "===", "!==", "==", "!=", "&&", "||", "??"];
const wordStart = /[\p{ID_Start}$_#@]/u;
const wordPart = /[\p{ID_Continue}$\u200c\u200d]/u;
const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", 0: "\0" };

/** All tokens of a source text, comments left out; code inside `${}` follows the template it belongs to. */
export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  readCode(source, { at: source.startsWith("#!") ? endOfLine(source, 0) : 0, line: 1 }, tokens, false);
  return tokens;
}

interface SourcePosition {
  at: number;
  line: number;
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf("\n", from);
  return end < 0 ? source.length : end;
}

/** Reads until the end, or, within a template, until the brace that closes its hole. */
function readCode(source: string, position: SourcePosition, tokens: Token[], isHole: boolean): void {
  let depth = 0;
  while (position.at < source.length) {
    const start = source[position.at] ?? "";
    const next = source[position.at + 1];
    if (start === "\n") {
      position.line += 1;
      position.at += 1;
    } else if (/\s/.test(start)) position.at += 1;
    else if (start === "/" && next === "/") position.at = endOfLine(source, position.at);
    else if (start === "/" && next === "*") skipBlockComment(source, position);
    else if (start === '"' || start === "'") tokens.push(readString(source, position, start));
    else if (start === "`") readTemplate(source, position, tokens);
    else if (start === "/" && mayStartRegex(tokens.at(-1))) tokens.push(readRegex(source, position));
    else if (/[0-9]/.test(start)) tokens.push(readWhile(source, position, "number", /[\w.]/));
    else if (wordStart.test(start)) tokens.push(readWhile(source, position, "word", wordPart));
    else {
      const text = punctuators.find((mark) => source.startsWith(mark, position.at)) ?? start;
      if (text === "{") depth += 1;
      if (text === "}" && depth-- === 0 && isHole) {
        position.at += 1;
        return;
      }
      tokens.push({ kind: "mark", text, line: position.line });
      position.at += text.length;
    }
  }
}

function readWhile(source: string, position: SourcePosition, kind: Token["kind"], part: RegExp): Token {
  const from = position.at;
  position.at += 1;
  while (position.at < source.length && part.test(source[position.at] ?? "")) position.at += 1;
  return { kind, text: source.slice(from, position.at), line: position.line };
}

function skipBlockComment(source: string, position: SourcePosition): void {
  const close = source.indexOf("*/", position.at + 2);
  const end = close < 0 ? source.length : close + 2;
  position.line += countLines(source.slice(position.at, end));
  position.at = end;
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}

/** A string ends at its quote, or at the end of the line: an apostrophe in the text of JSX must not swallow the file. */
function readString(source: string, position: SourcePosition, quote: string): Token {
  const token: Token = { kind: "string", text: "", line: position.line };
  for (position.at += 1; position.at < source.length; position.at += 1) {
    const character = source[position.at] ?? "";
    if (character === quote || character === "\n") break;
    if (character !== "\\") token.text += character;
    else {
      position.at += 1;
      const escaped = source[position.at] ?? "";
      if (escaped === "\n") position.line += 1;
      else token.text += escapes[escaped] ?? escaped;
    }
  }
  if (source[position.at] === quote) position.at += 1;
  return token;
}

function readTemplate(source: string, position: SourcePosition, tokens: Token[]): void {
  const token: Token = { kind: "template", text: "", line: position.line };
  tokens.push(token);
  position.at += 1;
  while (position.at < source.length && source[position.at] !== "`") {
    const character = source[position.at] ?? "";
    if (character === "$" && source[position.at + 1] === "{") {
      position.at += 2;
      token.text += computedPart;
      readCode(source, position, tokens, true);
      continue;
    }
    if (character === "\n") position.line += 1;
    if (character === "\\") {
      position.at += 1;
      const escaped = source[position.at] ?? "";
      if (escaped === "\n") position.line += 1;
      token.text += escapes[escaped] ?? escaped;
    } else token.text += character;
    position.at += 1;
  }
  position.at += 1;
}

function mayStartRegex(before: Token | undefined): boolean {
  if (!before) return true;
  if (before.kind === "mark") return before.text !== ")" && before.text !== "]" && before.text !== "}";
  return before.kind === "word" && keywordsBeforeRegex.has(before.text);
}

function readRegex(source: string, position: SourcePosition): Token {
  const from = position.at;
  let isClass = false;
  for (position.at += 1; position.at < source.length; position.at += 1) {
    const character = source[position.at];
    if (character === "\n") break;
    if (character === "\\") position.at += 1;
    else if (character === "[") isClass = true;
    else if (character === "]") isClass = false;
    else if (character === "/" && !isClass) {
      position.at += 1;
      break;
    }
  }
  while (/[a-z]/.test(source[position.at] ?? "")) position.at += 1;
  return { kind: "regex", text: source.slice(from, position.at), line: position.line };
}
