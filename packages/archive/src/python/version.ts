// Versions and version ranges of Python and its packages, as far as manifests and locks use them (a subset of PEP 440: no epochs, no local
// versions, no ===).

export interface PythonVersion {
  readonly text: string;
  readonly release: readonly number[];
  /** Where it stands beside the release of the same numbers: dev < a < b < rc < final < post, then the number. */
  readonly stage: readonly [rank: number, number: number];
}

const stageRanks: Readonly<Record<string, number>> = { dev: 0, a: 1, alpha: 1, b: 2, beta: 2, c: 3, rc: 3, post: 5 };
const finalRank = 4;

export function readPythonVersion(text: string): PythonVersion | null {
  const match = /^v?(\d+(?:\.\d+)*)(?:[._-]?(dev|a|alpha|b|beta|c|rc|post)[._-]?(\d*))?$/.exec(text.trim().toLowerCase());
  if (match === null) return null;
  const [, release = "", stage, number] = match;
  return {
    text: text.trim(),
    release: release.split(".").map(Number),
    stage: stage === undefined ? [finalRank, 0] : [stageRanks[stage] ?? finalRank, Number(number ?? 0)],
  };
}

/** Below, at or above zero. Missing numbers count as 0: 3.11 is 3.11.0. */
export function comparePythonVersions(left: PythonVersion, right: PythonVersion): number {
  const length = Math.max(left.release.length, right.release.length);
  for (let index = 0; index < length; index++) {
    const difference = (left.release[index] ?? 0) - (right.release[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return left.stage[0] - right.stage[0] || left.stage[1] - right.stage[1];
}

type Clause = (version: PythonVersion) => boolean;

export interface VersionRange {
  readonly text: string;
  includes(version: PythonVersion): boolean;
}

/** Reads `>=3.10,<3.12`, `==1.4.*`, `~=2.1`; a string says what is wrong with it. The empty range includes everything. */
export function readVersionRange(text: string): VersionRange | string {
  const clauses: Clause[] = [];
  for (const part of text.split(",").map((one) => one.trim())) {
    if (part === "" && text.trim() === "") continue;
    const clause = readClause(part);
    if (typeof clause === "string") return clause;
    clauses.push(clause);
  }
  return { text, includes: (version: PythonVersion) => clauses.every((clause) => clause(version)) };
}

function readClause(part: string): Clause | string {
  const match = /^(===|~=|==|!=|<=|>=|<|>)\s*([^\s]+)$/.exec(part);
  if (match === null) return `"${part}" must be one of >= <= > < == != ~= with a version`;
  const [, operator = "", operand = ""] = match;
  if (operator === "===") return `"${part}" uses ===, which is not supported; use ==`;
  const isWildcard = operand.endsWith(".*");
  const bound = readPythonVersion(isWildcard ? operand.slice(0, -2) : operand);
  if (bound === null) return `"${part}" does not name a version`;
  const compare = (version: PythonVersion) => comparePythonVersions(version, bound);
  if (isWildcard) {
    if (operator === "==") return (version) => hasPrefix(version, bound.release);
    if (operator === "!=") return (version) => !hasPrefix(version, bound.release);
    return `"${part}" must not end with .*, which only == and != may`;
  }
  switch (operator) {
    case "==":
      return (version) => compare(version) === 0;
    case "!=":
      return (version) => compare(version) !== 0;
    case "<=":
      return (version) => compare(version) <= 0;
    case ">=":
      return (version) => compare(version) >= 0;
    case "<":
      // A preview of the bound is not below it, unless the bound is a preview itself.
      return (version) => compare(version) < 0 && !(isPreview(version) && !isPreview(bound) && hasSameRelease(version, bound));
    case ">":
      return (version) => compare(version) > 0 && !(version.stage[0] > finalRank && hasSameRelease(version, bound));
    default:
      if (bound.release.length < 2) return `"${part}" needs at least two numbers, as in ~=1.4`;
      return (version) => compare(version) >= 0 && hasPrefix(version, bound.release.slice(0, -1));
  }
}

const isPreview = ({ stage }: PythonVersion): boolean => stage[0] < finalRank;

function hasSameRelease(left: PythonVersion, right: PythonVersion): boolean {
  const length = Math.max(left.release.length, right.release.length);
  return Array.from({ length }, (_, index) => index).every((index) => (left.release[index] ?? 0) === (right.release[index] ?? 0));
}

function hasPrefix({ release }: PythonVersion, prefix: readonly number[]): boolean {
  return prefix.every((number, index) => (release[index] ?? 0) === number);
}
