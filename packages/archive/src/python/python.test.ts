import { describe, expect, it } from "vitest";
import { findDependencyProblem, findLockProblems, readRequirementsLock } from "./requirements-lock.ts";
import { comparePythonVersions, readPythonVersion, readVersionRange } from "./version.ts";

function includes(range: string, version: string): boolean | string {
  const read = readVersionRange(range);
  const parsed = readPythonVersion(version);
  if (typeof read === "string") return read;
  if (parsed === null) return "no version";
  return read.includes(parsed);
}

describe("a range of Python versions", () => {
  it.each([
    [">=3.10,<3.12", ["3.10", "3.10.0", "3.11.7"], ["3.9.18", "3.12", "3.12.0rc1", "4.0"]],
    ["==3.11.*", ["3.11", "3.11.7"], ["3.10.9", "3.12"]],
    ["!=3.11.*", ["3.10", "3.12"], ["3.11", "3.11.7"]],
    ["~=3.10", ["3.10", "3.13.1"], ["3.9", "4.0"]],
    ["~=1.4.2", ["1.4.2", "1.4.9"], ["1.4.1", "1.5"]],
    ["==1.47.2", ["1.47.2", "1.47.2.0"], ["1.47.3", "1.47.2rc1"]],
    ["!=1.5", ["1.4"], ["1.5", "1.5.0"]],
    [">1.0", ["1.0.1"], ["1.0", "1.0.post1"]],
    ["<=2", ["2.0", "1.9"], ["2.0.1"]],
    ["", ["0.1"], []],
  ])("[R754] %j includes and excludes what pip says", (range, inside, outside) => {
    expect(inside.filter((version) => includes(range, version) !== true)).toEqual([]);
    expect(outside.filter((version) => includes(range, version) !== false)).toEqual([]);
  });

  it.each([
    ["3.10", "must be one of"],
    [">=3.10,", "must be one of"],
    [">=", "does not name a version"],
    ["===3.10", "not supported"],
    [">=3.10.*", "must not end with"],
    ["~=3", "at least two numbers"],
    [">=three", "does not name a version"],
  ])("[R754] %j is refused with what is wrong", (range, reason) => {
    expect(readVersionRange(range)).toContain(reason);
  });

  it("[R754] versions are ordered as their stages are", () => {
    const ordered = ["1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.10", "2"].map((text) =>
      readPythonVersion(text),
    );

    const sorted = ordered.toReversed().sort((left, right) => (left && right ? comparePythonVersions(left, right) : 0));

    expect(sorted).toEqual(ordered);
    expect(["", "1.", "one", "1!2", "1.0+local"].filter((text) => readPythonVersion(text) !== null)).toEqual([]);
  });
});

const digest = `sha256:${"a".repeat(64)}`;

describe("requirements.txt as a lock", () => {
  it("[R755] lines of one distribution with its version and digests are read, with comments, markers, extras and continued lines", () => {
    const text = [
      "# made by astra packages build",
      `Play_Wright==1.47.2 --hash=${digest} --hash=sha512:${"b".repeat(128)}  # browser`,
      "greenlet[test]==3.0.3 ; python_version >= '3.10' \\",
      `    --hash=${digest} \\`,
      `    --hash=${digest}`,
      "",
    ].join("\n");

    const { requirements, problems } = readRequirementsLock(text);

    expect(problems).toEqual([]);
    expect(requirements).toEqual([
      { name: "play-wright", version: "1.47.2" },
      { name: "greenlet", version: "3.0.3" },
    ]);
  });

  it.each([
    ["playwright==1.47.2", "has no --hash"],
    [`playwright>=1.47.2 --hash=${digest}`, "must be NAME==VERSION"],
    [`playwright==1.47.* --hash=${digest}`, "must be NAME==VERSION"],
    [`playwright --hash=${digest}`, "must be NAME==VERSION"],
    ["playwright==1 --hash=md5:abc", "not a SHA-256"],
    ["--index-url https://evil.example/simple", "options such as --index-url"],
    ["-r other.txt", "options such as -r"],
    ["-e .", "options such as -e"],
    [`evil @ https://evil.example/evil.whl --hash=${digest}`, "addresses"],
    [`https://evil.example/evil.whl --hash=${digest}`, "addresses"],
    [`./evil.whl --hash=${digest}`, "addresses"],
    [`a==1 --hash=${digest} --no-binary a`, "must be NAME==VERSION"],
  ])("[R755] the line %j is refused with its number", (line, reason) => {
    const { problems } = readRequirementsLock(`\n${line}\n`);

    expect(problems).toMatchObject([{ code: "E.PKG.INVALID", message: expect.stringContaining("requirements.txt line 2: ") }]);
    expect(problems[0]?.message).toContain(reason);
  });

  it("[R755] a lock has to pin every dependency of the manifest to a version in its range", () => {
    const lock = `playwright==1.47.2 --hash=${digest}\n`;

    expect(findLockProblems(lock, ["playwright==1.47.2", "Playwright>=1.40"])).toEqual([]);
    expect(findLockProblems(lock, ["playwright>=1.48", "requests"]).map(({ message }) => message)).toEqual([
      "requirements.txt pins playwright 1.47.2, but the manifest asks for >=1.48",
      "requirements.txt does not pin requests, which the manifest depends on",
    ]);
    expect(findDependencyProblem("requests>=")).toContain("does not name a version");
    expect(findDependencyProblem("git+https://x")).toContain("must be one of");
    expect(findDependencyProblem("./local")).toContain("is not a name");
    expect(findDependencyProblem("requests[socks]>=2.0,<3; python_version > '3'")).toBeNull();
  });
});
