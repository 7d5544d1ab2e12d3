// Canonical JSON: keys sorted, no spaces, absent fields left out. Equal values have equal texts.

export function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null);
  if (Array.isArray(value)) {
    // The runtime writes flat lists and objects many times as fast.
    if (value.every(isLeaf)) return JSON.stringify(value);
    return `[${value.map((item) => canonicalJson(item)).join(",")}]`;
  }
  const fields = value as Record<string, unknown>;
  const keys = Object.keys(fields);
  if (isFlatAndSorted(keys, fields)) return JSON.stringify(value);
  keys.sort();
  let text = "";
  for (const key of keys) {
    const field = fields[key];
    if (field !== undefined) text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(field)}`;
  }
  return `{${text}}`;
}

const isLeaf = (value: unknown): boolean => typeof value !== "object" || value === null;

function isFlatAndSorted(keys: readonly string[], fields: Readonly<Record<string, unknown>>): boolean {
  let before = "";
  for (const key of keys) {
    if (key < before || !isLeaf(fields[key])) return false;
    before = key;
  }
  return true;
}

export const isEqualJson = (a: unknown, b: unknown): boolean => canonicalJson(a) === canonicalJson(b);

/** The same as `isEqualJson` for values that were read from JSON; ends at the first difference and builds no text. */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, at) => isSameJson(item, b[at]));
  const keys = Object.keys(a);
  const [first, second] = [a as Record<string, unknown>, b as Record<string, unknown>];
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(second, key) && isSameJson(first[key], second[key]));
}
