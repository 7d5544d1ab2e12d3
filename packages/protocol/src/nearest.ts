// The most alike of some known words, for sentences that refuse a word which is not known.

/** Null where none is alike: so many letters may differ, half of them where nothing else is said. */
export function nearest(word: string, words: Iterable<string>, most = Math.max(1, Math.floor(word.length / 2))): string | null {
  let best: string | null = null;
  let least = most;
  for (const one of new Set(words)) {
    const changes = distance(word.toLowerCase(), one.toLowerCase(), least);
    if (changes < least || (changes === least && best === null)) [best, least] = [one, changes];
  }
  return best;
}

/** The end of such a sentence, where one word is a slip away: `; did you mean X?`. Names of settings share their beginnings, so a quarter is much. */
export function suggest(word: string, known: Iterable<string>): string {
  const best = nearest(word, known, Math.max(2, Math.floor(word.length / 4)));
  return best === null ? "" : `; did you mean ${best}?`;
}

/** Characters to change, add or leave out; more than `most` is not counted exactly. */
function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let at = 1; at <= a.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= b.length; to += 1) {
      const same = (row[to - 1] ?? 0) + (a[at - 1] === b[to - 1] ? 0 : 1);
      next.push(Math.min(same, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
