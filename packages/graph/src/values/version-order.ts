// Versions of packages: which of two is the later. Numbers first, then the pre-release, as semantic versioning orders them.

/** Below zero: `a` is earlier. What follows `+` does not count. Texts that are no versions have an order too, so sorting never fails. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parseVersion(a), parseVersion(b)];
  for (let at = 0; at < Math.max(left.numbers.length, right.numbers.length); at += 1) {
    const order = compareVersionPart(left.numbers[at] ?? "0", right.numbers[at] ?? "0");
    if (order !== 0) return order;
  }
  if (left.pre === null || right.pre === null) return Number(left.pre === null) - Number(right.pre === null);
  for (let at = 0; at < Math.max(left.pre.length, right.pre.length); at += 1) {
    const [one, other] = [left.pre[at], right.pre[at]];
    if (one === undefined || other === undefined) return Number(other === undefined) - Number(one === undefined);
    const order = compareVersionPart(one, other);
    if (order !== 0) return order;
  }
  return 0;
}

function parseVersion(version: string): { numbers: string[]; pre: string[] | null } {
  const [main = ""] = version.split("+", 1);
  const dash = main.indexOf("-");
  return {
    numbers: (dash < 0 ? main : main.slice(0, dash)).split("."),
    pre: dash < 0 ? null : main.slice(dash + 1).split("."),
  };
}

/** Numbers by size and before words; words by code unit. */
function compareVersionPart(a: string, b: string): number {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber !== isOther) return isNumber ? -1 : 1;
  if (!isNumber) return a < b ? -1 : Number(a > b);
  const [one, other] = [a.replace(/^0+/, ""), b.replace(/^0+/, "")];
  return one.length - other.length || (one < other ? -1 : Number(one > other));
}
