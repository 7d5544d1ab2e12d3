/**
 * The glossary of docs/architecture.md: short enough to read, and only words that the code uses. A word that needs no explanation does
 * not belong in it.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isTestFile, listSources, readText } from "../repository-files.ts";
import { tokenize } from "./tokens.ts";

const page = "docs/architecture.md";
const glossaryWordsMax = 35;

/** A glossary that is missing or too long, words twice, words that no identifier of the product contains. */
export function checkGlossary(root: string): string[] {
  if (!existsSync(join(root, page))) return [`${page} is missing; it opens with the glossary`];
  const entries = readGlossary(readText(root, page));
  if (entries.length === 0) return [`${page}: has no table under "## Glossary"`];
  const problems: string[] = [];
  if (entries.length > glossaryWordsMax)
    problems.push(
      `${page}: the glossary has ${entries.length} words, more than ${glossaryWordsMax}; give the others plainer names`,
    );
  const identifiers = readIdentifiers(root);
  const seen = new Set<string>();
  for (const { word, line } of entries) {
    const words = splitWords(word);
    if (seen.has(words)) problems.push(`${page}:${line}: "${word}" is in the glossary twice`);
    seen.add(words);
    if (!identifiers.includes(` ${words} `) && !identifiers.includes(` ${words}s `))
      problems.push(`${page}:${line}: no identifier of the code contains "${word}"`);
  }
  return problems;
}

function readGlossary(text: string): { word: string; line: number }[] {
  const lines = text.split("\n");
  const start = lines.indexOf("## Glossary");
  if (start < 0) return [];
  const end = lines.findIndex((line, at) => at > start && line.startsWith("## "));
  const rows = lines.slice(start, end < 0 ? undefined : end).flatMap((line, at) => {
    const word = /^\| ([^|]+?) \|/.exec(line)?.[1];
    return word === undefined ? [] : [{ word, line: start + at + 1 }];
  });
  return rows.slice(1); // without the head of the table
}

/** `DeadLetterList`, `dead-letter list` and `DEAD_LETTER_LIST` to `dead letter list`. */
const splitWords = (text: string): string =>
  text
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean)
    .join(" ");

/** Every identifier of the product's sources, split into words, in one text to search. */
function readIdentifiers(root: string): string {
  const identifiers = new Set<string>();
  for (const path of ["packages", "apps"].flatMap((folder) => listSources(root, folder)))
    if (!isTestFile(path))
      for (const token of tokenize(readText(root, path))) if (token.kind === "word") identifiers.add(token.text);
  return [...identifiers].map((identifier) => ` ${splitWords(identifier)} `).join("|");
}
