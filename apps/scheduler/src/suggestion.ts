// The nearest known word to one that is not known, for the sentence that refuses it.

/** `; did you mean X?` for a word that is a slip away from a known one. */
export function suggest(word: string, known: readonly string[]): string {
  const ranked = known.map((one) => ({ one, far: distance(word, one) })).sort((a, b) => a.far - b.far);
  const best = ranked[0];
  return best && best.far <= Math.max(2, Math.floor(word.length / 3)) ? `; did you mean ${best.one}?` : "";
}

/** Edits between two words (Levenshtein), one row of the table at a time. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
