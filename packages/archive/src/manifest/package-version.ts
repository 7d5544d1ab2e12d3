// The order of package versions: three numbers, then a preview (-rc.1) below its release. What follows a + does not count.

/** Below, at or above zero. Both are versions that a manifest may have. */
export function comparePackageVersions(left: string, right: string): number {
  const [leftParts, rightParts] = [splitVersion(left), splitVersion(right)];
  for (let index = 0; index < 3; index++) {
    const difference = compareNumbers(leftParts.numbers[index] ?? "0", rightParts.numbers[index] ?? "0");
    if (difference !== 0) return difference;
  }
  return comparePreviews(leftParts.preview, rightParts.preview);
}

function splitVersion(version: string): { readonly numbers: readonly string[]; readonly preview: readonly string[] } {
  const [core = "", ...preview] = (version.split("+")[0] ?? "").split("-");
  return { numbers: core.split("."), preview: preview.length === 0 ? [] : preview.join("-").split(".") };
}

function comparePreviews(left: readonly string[], right: readonly string[]): number {
  if (left.length === 0 || right.length === 0) return Number(left.length === 0) - Number(right.length === 0);
  for (let index = 0; index < Math.max(left.length, right.length); index++) {
    const [a, b] = [left[index], right[index]];
    if (a === undefined || b === undefined) return a === undefined ? -1 : 1;
    const areNumbers = [/^\d+$/.test(a), /^\d+$/.test(b)] as const;
    if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] ? -1 : 1;
    const difference = areNumbers[0] ? compareNumbers(a, b) : compareTexts(a, b);
    if (difference !== 0) return difference;
  }
  return 0;
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Of any length. */
function compareNumbers(a: string, b: string): number {
  const [left, right] = [a.replace(/^0+(?=\d)/, ""), b.replace(/^0+(?=\d)/, "")];
  return left.length - right.length || compareTexts(left, right);
}
