// The most alike of some known words, for sentences that refuse a word which is not known.

/** Null where none is alike: so many letters may differ, half of them where nothing else is said. */
export function closestMatch(
  word: string,
  candidates: Iterable<string>,
  distanceMax = Math.max(1, Math.floor(word.length / 2)),
): string | null {
  let best: string | null = null;
  let bestDistance = distanceMax;
  for (const candidate of new Set(candidates)) {
    const edits = editDistance(word.toLowerCase(), candidate.toLowerCase(), bestDistance);
    if (edits < bestDistance || (edits === bestDistance && best === null)) [best, bestDistance] = [candidate, edits];
  }
  return best;
}

/**
 * The end of such a sentence, where one word is a slip away: `; did you mean X?`. Names of settings share their beginnings, so a quarter is
 * much; of a word of two letters one must be right.
 */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const best = closestMatch(word, candidates, slipDistanceMax(word));
  return best === null ? "" : `; did you mean ${best}?`;
}

const slipDistanceMax = (word: string): number => Math.min(word.length - 1, Math.max(2, Math.floor(word.length / 4)));

/** Bounds on the search for a misspelt field, as the fields come from strangers. */
const misspellingLimits = { fieldsMax: 100, missingMax: 10, charsMax: 100 } as const;

/**
 * The end of a sentence that names missing fields of an object, where some of its unknown fields are a slip away from them:
 * `; it has tpye, did you mean type?`.
 */
export function describeMisspelling(missing: readonly string[], value: object, isKnown: (field: string) => boolean): string {
  const { fieldsMax, missingMax, charsMax } = misspellingLimits;
  const unknown: string[] = [];
  for (const field of Object.keys(value)) {
    if (unknown.length >= fieldsMax) break;
    if (field.length <= charsMax && !isKnown(field)) unknown.push(field);
  }
  const pairs = missing.slice(0, missingMax).flatMap((field) => {
    const written = closestMatch(field, unknown, slipDistanceMax(field));
    return written === null ? [] : [[JSON.stringify(written).slice(1, -1), field] as const];
  });
  if (pairs.length === 0) return "";
  return `; it has ${pairs.map(([written]) => written).join(" and ")}, did you mean ${pairs.map(([, field]) => field).join(" and ")}?`;
}

/** Characters to change, add or leave out; more than `most` is not counted exactly. */
function editDistance(a: string, b: string, distanceMax: number): number {
  if (Math.abs(a.length - b.length) > distanceMax) return distanceMax + 1;
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
