// The words by which a search finds runs: how a text is split into words, which words a run has, and whether all words searched for are
// among them. Pure, so that all stores index alike. Documents bring their own words.

import type { RunRow } from "./rows.ts";

/** Longer words are cut, on both sides of a comparison; indexes limit the length of a word. */
const wordLengthMax = 64;
/** Words indexed per run: an endless error message must not become an endless index. */
const wordsMax = 96;

/**
 * Lower case, split at every ASCII character that is neither letter nor digit; all other characters belong to words. Indexes of all stores
 * must split alike, and they know no more of alphabets than that.
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

/** Whether each word searched for begins a word that is present. */
export function matchesAllWords(there: readonly string[], wanted: readonly string[]): boolean {
  return wanted.every((word) => there.some((one) => one.startsWith(word)));
}

/**
 * The words of a run: its id, the name of its workflow, its client, its starter, the values of its labels, and its error. Lower-case
 * words, each once, separated by spaces.
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

/** Whether two images of a run have the same words, without computing them. */
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
    // Text that cannot be parsed has no words; a turn must not fail over an index.
    return {};
  }
}
