// The words a search finds things by: how a text is cut into words, which words a run has, and whether all that is looked for is
// there. Pure; the stores index by it and agree by it. What is kept as a document brings its own words.

import type { RunRow } from "./rows.ts";

/** Longer words are cut, on both sides of a comparison; an index takes none of any length. */
const wordLengthMax = 64;
/** So many words of one run are looked at: an endless error message must not become an endless index. */
const wordsMax = 96;

/**
 * Lower case, cut at everything in ASCII that is neither letter nor digit; all other characters belong to words, because an index must
 * cut alike wherever it runs, and knows no more of alphabets than that.
 */
export function searchWords(text: string): string[] {
  const words = text.toLowerCase().match(/[^\0-/:-@[-`{-\x7f]+/g) ?? [];
  return words.map((word) => (word.length <= wordLengthMax ? word : truncateWord(word)));
}

/** Never through the middle of a character: half of one is no text. */
function truncateWord(word: string): string {
  const head = word.slice(0, wordLengthMax);
  return head.isWellFormed() ? head : head.slice(0, -1);
}

/** Whether each word looked for begins a word that is there. */
export function matchesAllWords(there: readonly string[], wanted: readonly string[]): boolean {
  return wanted.every((word) => there.some((one) => one.startsWith(word)));
}

/**
 * What a run is found by: its id, the name of its workflow, its client, who started it, the values of its labels, and what it failed
 * of. Lower-case words, each once, blanks between them.
 */
export function runSearchTerms(run: RunRow): string {
  const about = parseObjectOrEmpty(run.about);
  const error = run.error === null ? {} : parseObjectOrEmpty(run.error);
  const texts = [run.id, run.label, run.client, about.by, ...valuesOf(about.labels), error.code, error.message];
  const words = new Set<string>();
  for (const text of texts)
    for (const word of typeof text === "string" || typeof text === "number" ? searchWords(String(text)) : []) {
      words.add(word);
      if (words.size === wordsMax) return [...words].join(" ");
    }
  return [...words].join(" ");
}

/** Whether two images of a run are found by the same words, without spelling them. */
export function hasSameSearchTerms(a: RunRow, b: RunRow): boolean {
  return a.error === b.error && a.about === b.about && a.label === b.label && a.client === b.client;
}

function valuesOf(labels: unknown): unknown[] {
  return typeof labels === "object" && labels !== null ? Object.values(labels) : [];
}

function parseObjectOrEmpty(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    // What cannot be read is not found by its words; a turn must not fail over an index for people.
    return {};
  }
}
