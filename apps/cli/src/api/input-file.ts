// Reading the values that a command line holds or names: files, JSON, pairs.

import { readFileSync } from "node:fs";
import { findJsonSyntaxError } from "@astraflow/protocol";
import { CliFailure, errorMessage, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

/** The text of a file; descriptor 0 is stdin. */
export function readTextFile(file: string | 0, name: string = String(file)): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw usageFailure(`${name} cannot be read (${errorMessage(cause)}).`);
  }
}

/** The value of a JSON file, and what messages call it; `-` is stdin. */
export function readJsonFile(file: string): { readonly value: unknown; readonly source: string } {
  const source = file === "-" ? "stdin" : file;
  return { value: parseJson(readTextFile(file === "-" ? 0 : file, source), source), source };
}

export function parseJson(text: string, source: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw describeSyntaxError(text, source) ?? usageFailure(`${source} is not JSON (${errorMessage(cause)}).`);
  }
}

const shownCharsMax = 72;

/** Where the mistake is, and the line with a mark below the place. */
function describeSyntaxError(text: string, source: string): CliFailure | null {
  const found = findJsonSyntaxError(text);
  if (!found) return null;
  const { line, column, problem, lineText } = found;
  const characters = [...stripControlCharacters(lineText)];
  const start = Math.max(0, Math.min(column - shownCharsMax / 2, characters.length - shownCharsMax));
  const shown = characters.slice(start, start + shownCharsMax).join("");
  const mark = `${" ".repeat(column - 1 - start)}^`;
  const place = `${source}:${line}:${column}`;
  return new CliFailure(exitCodes.usage, {
    error: "E.REQUEST.INVALID",
    message: `${place} is not JSON: ${problem}${shown.trim() === "" ? "" : `\n  ${shown}\n  ${mark}`}`,
    details: { file: source, line, column },
  });
}

/** `name=value`. */
export function parsePair(text: string, flag: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw usageFailure(`${flag} takes name=value; "${stripControlCharacters(text)}" has no name or no =.`);
  return [text.slice(0, at), text.slice(at + 1)];
}
