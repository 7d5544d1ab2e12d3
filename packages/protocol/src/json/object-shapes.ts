// Bounds what a JSON text costs beyond its length: an object with keys that no object before it had, in this order, takes the parser and
// everything after it several times as long as one more object of the same kind. A list of ten thousand nodes has few kinds of objects.

const QUOTE = 34;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** Whether the keys of all kinds of objects in the text together are more than `keysMax`. Wrong syntax is left to the parser. */
export function exceedsShapeKeys(text: string, keysMax: number): boolean {
  return countShapeKeys(text, keysMax, text.length).next().value === true;
}

/** The same in steps of so many characters. */
export function* countShapeKeys(text: string, keysMax: number, stepChars: number): Generator<void, boolean> {
  const shapes = new Set<number>();
  /** Of the objects around the current place: a hash of their keys so far, and how many. */
  const hashes: number[] = [];
  const counts: number[] = [];
  let level = -1;
  let keysOfShapes = 0;
  let stringHash = 0;
  let stepEnd = stepChars;
  for (let at = 0; at < text.length; at += 1) {
    if (at > stepEnd) {
      stepEnd = at + stepChars;
      yield;
    }
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      let hash = 7;
      at += 1;
      for (let inner = text.charCodeAt(at); inner !== QUOTE && at < text.length; inner = text.charCodeAt(at)) {
        hash = Math.imul(hash ^ inner, 0x01000193) ^ (hash >>> 15);
        at += inner === BACKSLASH ? 2 : 1;
      }
      stringHash = hash;
    } else if (unit === COLON && level >= 0) {
      hashes[level] = Math.imul((hashes[level] ?? 0) ^ stringHash, 0x9e3779b1) ^ ((hashes[level] ?? 0) >>> 13);
      counts[level] = (counts[level] ?? 0) + 1;
    } else if (unit === OPEN_BRACE) {
      level += 1;
      hashes[level] = 1;
      counts[level] = 0;
    } else if (unit === CLOSE_BRACE && level >= 0) {
      const count = counts[level] ?? 0;
      const shape = ((hashes[level] ?? 0) >>> 0) * 4_096 + (count % 4_096);
      level -= 1;
      if (shapes.has(shape)) continue;
      shapes.add(shape);
      keysOfShapes += count;
      if (keysOfShapes > keysMax) return true;
    }
  }
  return false;
}
