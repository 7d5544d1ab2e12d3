/**
 * Cuts TypeScript into tokens, so that the checks of the house see code and not the words of comments and strings. It is
 * no parser: it knows where comments, strings, templates and regular expressions begin and end, and nothing of grammar.
 */

export interface Token {
  kind: "word" | "number" | "string" | "template" | "regex" | "mark";
  /** The text of a word or mark; the unquoted value of a string; a template's text with `\0` in place of each `${}`. */
  text: string;
  line: number;
}

/** In the text of a template token: something computed stood here. */
export const hole = "\0";

// After these words a slash begins a regular expression; after any other word or a closing bracket it divides.
const wordsBeforeRegex = new Set(
  "return typeof instanceof in of new delete void throw case do else await yield extends default".split(" "),
);
const marks = ["...", "?.", "=>", "===", "!==", "==", "!=", "&&", "||", "??"];
const wordStart = /[\p{ID_Start}$_#@]/u;
const wordPart = /[\p{ID_Continue}$\u200c\u200d]/u;
const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", 0: "\0" };

/** All tokens of a source text, comments left out; code inside `${}` follows the template it belongs to. */
export function readTokens(source: string): Token[] {
  const tokens: Token[] = [];
  readCode(source, { at: source.startsWith("#!") ? endOfLine(source, 0) : 0, line: 1 }, tokens, false);
  return tokens;
}

interface Place {
  at: number;
  line: number;
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf("\n", from);
  return end < 0 ? source.length : end;
}

/** Reads until the end, or, within a template, until the brace that closes its hole. */
function readCode(source: string, place: Place, tokens: Token[], isHole: boolean): void {
  let depth = 0;
  while (place.at < source.length) {
    const start = source[place.at] ?? "";
    const next = source[place.at + 1];
    if (start === "\n") {
      place.line += 1;
      place.at += 1;
    } else if (/\s/.test(start)) place.at += 1;
    else if (start === "/" && next === "/") place.at = endOfLine(source, place.at);
    else if (start === "/" && next === "*") skipBlockComment(source, place);
    else if (start === '"' || start === "'") tokens.push(readString(source, place, start));
    else if (start === "`") readTemplate(source, place, tokens);
    else if (start === "/" && mayStartRegex(tokens.at(-1))) tokens.push(readRegex(source, place));
    else if (/[0-9]/.test(start)) tokens.push(readWhile(source, place, "number", /[\w.]/));
    else if (wordStart.test(start)) tokens.push(readWhile(source, place, "word", wordPart));
    else {
      const text = marks.find((mark) => source.startsWith(mark, place.at)) ?? start;
      if (text === "{") depth += 1;
      if (text === "}" && depth-- === 0 && isHole) {
        place.at += 1;
        return;
      }
      tokens.push({ kind: "mark", text, line: place.line });
      place.at += text.length;
    }
  }
}

function readWhile(source: string, place: Place, kind: Token["kind"], part: RegExp): Token {
  const from = place.at;
  place.at += 1;
  while (place.at < source.length && part.test(source[place.at] ?? "")) place.at += 1;
  return { kind, text: source.slice(from, place.at), line: place.line };
}

function skipBlockComment(source: string, place: Place): void {
  const close = source.indexOf("*/", place.at + 2);
  const end = close < 0 ? source.length : close + 2;
  place.line += countLines(source.slice(place.at, end));
  place.at = end;
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}

/** A string ends at its quote, or at the end of the line: an apostrophe in the text of JSX must not swallow the file. */
function readString(source: string, place: Place, quote: string): Token {
  const token: Token = { kind: "string", text: "", line: place.line };
  for (place.at += 1; place.at < source.length; place.at += 1) {
    const sign = source[place.at] ?? "";
    if (sign === quote || sign === "\n") break;
    if (sign !== "\\") token.text += sign;
    else {
      place.at += 1;
      const escaped = source[place.at] ?? "";
      if (escaped === "\n") place.line += 1;
      else token.text += escapes[escaped] ?? escaped;
    }
  }
  if (source[place.at] === quote) place.at += 1;
  return token;
}

function readTemplate(source: string, place: Place, tokens: Token[]): void {
  const token: Token = { kind: "template", text: "", line: place.line };
  tokens.push(token);
  place.at += 1;
  while (place.at < source.length && source[place.at] !== "`") {
    const sign = source[place.at] ?? "";
    if (sign === "$" && source[place.at + 1] === "{") {
      place.at += 2;
      token.text += hole;
      readCode(source, place, tokens, true);
      continue;
    }
    if (sign === "\n") place.line += 1;
    if (sign === "\\") {
      place.at += 1;
      const escaped = source[place.at] ?? "";
      if (escaped === "\n") place.line += 1;
      token.text += escapes[escaped] ?? escaped;
    } else token.text += sign;
    place.at += 1;
  }
  place.at += 1;
}

function mayStartRegex(before: Token | undefined): boolean {
  if (!before) return true;
  if (before.kind === "mark") return before.text !== ")" && before.text !== "]" && before.text !== "}";
  return before.kind === "word" && wordsBeforeRegex.has(before.text);
}

function readRegex(source: string, place: Place): Token {
  const from = place.at;
  let isClass = false;
  for (place.at += 1; place.at < source.length; place.at += 1) {
    const sign = source[place.at];
    if (sign === "\n") break;
    if (sign === "\\") place.at += 1;
    else if (sign === "[") isClass = true;
    else if (sign === "]") isClass = false;
    else if (sign === "/" && !isClass) {
      place.at += 1;
      break;
    }
  }
  while (/[a-z]/.test(source[place.at] ?? "")) place.at += 1;
  return { kind: "regex", text: source.slice(from, place.at), line: place.line };
}
