// Reading the values that a command line holds or names: files, JSON, pairs.

import { readFileSync } from "node:fs";
import { errorMessage, usageFailure } from "../output/cli-failure.ts";
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
    throw usageFailure(`${source} is not JSON (${errorMessage(cause)}).`);
  }
}

/** `name=value`. */
export function parsePair(text: string, flag: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw usageFailure(`${flag} takes name=value; "${stripControlCharacters(text)}" has no name or no =.`);
  return [text.slice(0, at), text.slice(at + 1)];
}
