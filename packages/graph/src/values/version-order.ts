// Versions of packages: which of two is the later. Numbers first, then the pre-release, as semantic versioning orders them.

/** Below zero: `a` is earlier. What follows `+` does not count. Texts that are no versions have an order too, so sorting never fails. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parseVersion(a), parseVersion(b)];
  const order = compareParts(left.numbers, right.numbers, "0");
  if (order !== 0) return order;
  if (left.pre === null || right.pre === null) return Number(left.pre === null) - Number(right.pre === null);
  return compareParts(left.pre, right.pre, null);
}

/** `missing` stands for a part that the shorter one does not have; null comes before every part. */
function compareParts(left: readonly string[], right: readonly string[], missing: string | null): number {
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    const [one, other] = [left[at] ?? missing, right[at] ?? missing];
    const order = one === null || other === null ? Number(other === null) - Number(one === null) : compareVersionPart(one, other);
    if (order !== 0) return order;
  }
  return 0;
}

function parseVersion(version: string): { numbers: string[]; pre: string[] | null } {
  const [main = ""] = version.split("+", 1);
  const dash = main.indexOf("-");
  return { numbers: (dash < 0 ? main : main.slice(0, dash)).split("."), pre: dash < 0 ? null : main.slice(dash + 1).split(".") };
}

/** Numbers by size and before words; words by code unit. */
function compareVersionPart(a: string, b: string): number {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber !== isOther) return isNumber ? -1 : 1;
  if (!isNumber) return a < b ? -1 : Number(a > b);
  const [one, other] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  return one.length - other.length || (one < other ? -1 : Number(one > other));
}
