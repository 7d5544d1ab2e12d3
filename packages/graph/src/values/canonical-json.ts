// Canonical JSON: keys sorted, no spaces, absent fields left out. Equal values have equal texts.

export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const fields = Object.keys(value)
      .sort()
      .filter((key) => (value as Record<string, unknown>)[key] !== undefined)
      .map((key) => `${JSON.stringify(key)}:${canonicalJson((value as Record<string, unknown>)[key])}`);
    return `{${fields.join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}

export const isEqualJson = (a: unknown, b: unknown): boolean => canonicalJson(a) === canonicalJson(b);
