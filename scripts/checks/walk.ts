/**
 * docs/walk.md leads a newcomer through the code. Each numbered step begins with a file and names symbols of that file, all in
 * backquotes; this check looks them up, so that the walk stays true.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readText } from "../repository-files.ts";
import { tokenize } from "./tokens.ts";

const page = "docs/walk.md";
const stepLine = /^\s*\d+\.\s+(.*)$/;
const quotedText = /`([^`]+)`/g;
/** `name`, `name()`, `Type.name` or `#name`. */
const symbolName = /^[#\w$]+(?:\.[#\w$]+)*(?:\(\))?$/;

/** Steps without a file or a symbol, files that do not exist, symbols that their file does not contain. */
export function checkWalk(root: string): string[] {
  if (!existsSync(join(root, page))) return [`${page} is missing; it leads a newcomer through the code`];
  const lines = readText(root, page).split("\n");
  const steps = lines.flatMap((line, at) => {
    const text = stepLine.exec(line)?.[1];
    return text === undefined ? [] : [{ text, line: at + 1 }];
  });
  if (steps.length === 0) return [`${page}: has no numbered steps`];
  return steps.flatMap(({ text, line }) => checkStep(root, text).map((problem) => `${page}:${line}: ${problem}`));
}

function checkStep(root: string, text: string): string[] {
  const [path = "", ...quoted] = [...text.matchAll(quotedText)].map(([, inside = ""]) => inside);
  if (!/^[\w./-]+\.(ts|mjs|sql)$/.test(path)) return [`a step begins with a file in backquotes, and this one with "${path}"`];
  if (!existsSync(join(root, path))) return [`${path} does not exist`];
  const source = readText(root, path);
  const words = new Set(path.endsWith(".sql") ? source.split(/\W+/) : tokenize(source).map((token) => token.text));
  const symbols = quoted.filter((one) => symbolName.test(one));
  if (symbols.length === 0) return [`names no symbol of ${path}`];
  return symbols.flatMap((symbol) =>
    symbol
      .replace("()", "")
      .split(".")
      .filter((part) => !words.has(part))
      .map((part) => `${path} has no ${part}`),
  );
}
