// requirements.txt as the lock of a package: every line pins one distribution and the digests of its files, so that pip can install nothing
// else. What would fetch something by another way (options, addresses, files) is refused.

import { type Fault, fault } from "@astraflow/protocol";
import { readPythonVersion, readVersionRange } from "./version.ts";

export const lockFileName = "requirements.txt";

export interface LockedRequirement {
  /** In the normal form of pip: lower case, dashes. */
  readonly name: string;
  readonly version: string;
}

export interface RequirementsLock {
  readonly requirements: readonly LockedRequirement[];
  readonly problems: readonly Fault[];
}

const namePattern = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";
const extrasPattern = "(?:\\s*\\[[A-Za-z0-9._,\\s-]*\\])?";
const lockedPin = new RegExp(`^(${namePattern})${extrasPattern}\\s*==\\s*([^\\s*]+)$`);
const dependencyLine = new RegExp(`^(${namePattern})${extrasPattern}\\s*(?:\\(?([^;()]*)\\)?)\\s*(?:;.*)?$`);
const hashOption = /--hash[= ](\S+)/g;

/** As pip compares names. */
export const normaliseName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

/** A requirement with the SHA-256 of every file that may be installed for it. */
export interface PinnedRequirement extends LockedRequirement {
  readonly sha256: readonly string[];
}

/** The text of a lock: the same requirements give the same bytes, in whatever order they were found. */
export function formatRequirementsLock(requirements: readonly PinnedRequirement[]): string {
  const byName = requirements.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  const lines = byName.map(({ name, version, sha256 }) =>
    [`${name}==${version}`, ...[...new Set(sha256)].sort().map((digest) => `    --hash=sha256:${digest}`)].join(" \\\n"),
  );
  return ["# The lock of python.dependencies, written by: astra packages build", ...lines, ""].join("\n");
}

const problemAt = (line: number, message: string) =>
  fault("E.PKG.INVALID", `${lockFileName} line ${line}: ${message}`, { path: lockFileName, line });

export function readRequirementsLock(text: string): RequirementsLock {
  const requirements: LockedRequirement[] = [];
  const problems: Fault[] = [];
  for (const { line, content } of joinContinuedLines(text)) {
    const locked = readLockedLine(content);
    if (typeof locked === "string") problems.push(problemAt(line, locked));
    else requirements.push(locked);
  }
  return { requirements, problems };
}

/** What keeps a lock from being the lock of these dependencies; `dependencies` are those of the manifest. */
export function findLockProblems(text: string, dependencies: readonly string[]): Fault[] {
  const { requirements, problems } = readRequirementsLock(text);
  if (problems.length > 0) return [...problems];
  return dependencies.flatMap((dependency) => {
    const problem = findMissingPin(dependency, requirements);
    return problem === null ? [] : [fault("E.PKG.INVALID", problem, { path: "manifest.python.dependencies" })];
  });
}

/** Why a dependency of a manifest cannot be read; null: it can. */
export function findDependencyProblem(dependency: string): string | null {
  const match = dependencyLine.exec(dependency.trim());
  if (match === null) return `"${dependency}" is not a name with a range of versions`;
  const range = readVersionRange(match[2] ?? "");
  return typeof range === "string" ? range : null;
}

function findMissingPin(dependency: string, requirements: readonly LockedRequirement[]): string | null {
  const [, name = "", rangeText = ""] = dependencyLine.exec(dependency.trim()) ?? [];
  const range = readVersionRange(rangeText);
  if (name === "" || typeof range === "string") return findDependencyProblem(dependency);
  const pins = requirements.filter((one) => one.name === normaliseName(name));
  if (pins.length === 0) return `${lockFileName} does not pin ${name}, which the manifest depends on`;
  const wrong = pins.find(({ version }) => {
    const parsed = readPythonVersion(version);
    return parsed === null || !range.includes(parsed);
  });
  return wrong === undefined
    ? null
    : `${lockFileName} pins ${name} ${wrong.version}, but the manifest asks for ${rangeText.trim()}`;
}

function* joinContinuedLines(text: string): Generator<{ line: number; content: string }> {
  let content = "";
  let first = 0;
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    if (content === "") first = index + 1;
    const withoutComment = raw.replace(/(^|\s)#.*$/, "").trimEnd();
    if (withoutComment.endsWith("\\")) {
      content += `${withoutComment.slice(0, -1)} `;
      continue;
    }
    content += withoutComment;
    if (content.trim() !== "") yield { line: first, content: content.trim() };
    content = "";
  }
  if (content.trim() !== "") yield { line: first, content: content.trim() };
}

function readLockedLine(content: string): LockedRequirement | string {
  if (content.startsWith("-")) return `options such as ${content.split(/[\s=]/)[0]} are not allowed in a lock`;
  const [pin = "", ...markers] = content.replaceAll(hashOption, "").split(";");
  if (/:\/\/|\s@\s|^[./]|\.whl\b/.test(pin)) return "addresses and files are not allowed in a lock";
  const match = lockedPin.exec(pin.trim());
  if (match === null || markers.some((marker) => marker.includes("--")))
    return `"${content.slice(0, 100)}" must be NAME==VERSION --hash=sha256:DIGEST`;
  const [, name = "", version = ""] = match;
  const digests = [...content.matchAll(hashOption)].map(([, digest = ""]) => digest);
  if (digests.length === 0) return `${name} has no --hash=sha256:DIGEST`;
  const weak = digests.find(
    (digest) => !/^sha256:[0-9a-f]{64}$/i.test(digest) && !/^sha(384:[0-9a-f]{96}|512:[0-9a-f]{128})$/i.test(digest),
  );
  if (weak !== undefined) return `${name} has the digest ${weak.slice(0, 40)}, which is not a SHA-256, SHA-384 or SHA-512`;
  return { name: normaliseName(name), version };
}
