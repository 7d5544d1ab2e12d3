/**
 * Which package may import which: compares every manifest and every import with the table. Imports go one way, so that a change of a
 * package affects only those above it. The inside of packages is checked by folders.ts, purity.ts and the linter.
 */
import { existsSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, join, posix } from "node:path";
import { isTestFile, listFolders, listSources, readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { type Import, readImports } from "./imports.ts";
import { findProgramOnlyUses } from "./program-only-code.ts";
import { tokenize } from "./tokens.ts";

/** Every package and the packages it may import; `*` is all packages. An import that is not here is not allowed. */
export const allowedDependencies: Record<string, readonly string[]> = {
  "packages/protocol": [],
  "packages/session": ["protocol"],
  "packages/archive": ["protocol"],
  "packages/resp": [],
  "packages/sdk": ["protocol"],
  "packages/settings": ["protocol"],
  "packages/graph": ["protocol"],
  "packages/engine": ["protocol", "graph"],
  "packages/store": ["protocol", "engine"],
  "packages/services": ["protocol", "archive", "graph", "engine"],
  "packages/doors": ["protocol", "session", "graph", "engine", "services"],
  "packages/runtime": ["protocol", "session", "archive", "sdk"],
  "packages/client": ["protocol"],
  "packages/sim": ["*"],
  "apps/scheduler": ["protocol", "settings", "graph", "engine", "store", "services", "doors"],
  "apps/worker": ["protocol", "settings", "runtime"],
  "apps/cli": ["protocol", "archive", "settings", "graph", "client"],
  examples: ["sdk"],
};

/** The package that loads programs and the simulator by name, when their command is used. */
const lazyLoader = "apps/cli";
const simulatorPackage = "packages/sim";
const scope = "@astraflow/";

interface Manifest {
  name?: string;
  main?: string;
  bin?: unknown;
  exports?: Record<string, unknown>;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

interface WorkspacePackage {
  folder: string; // "" is the root: scripts, test and bench, which may import every package by its name
  manifest: Manifest | null;
  rootManifest: Manifest;
  problems: string[];
  usedBySources: Set<string>;
  usedByTests: Set<string>;
}

/** Every violation of the table below a root, one sentence each. */
export function checkLayers(root: string): string[] {
  const problems: string[] = [];
  const rootManifest = readManifest(root, "") ?? {};
  const folders = [
    ...listFolders(root, "packages").filter((folder) => !isOtherLanguage(root, folder)),
    ...listFolders(root, "apps"),
    ...(existsSync(join(root, "examples")) ? ["examples"] : []),
  ];
  for (const folder of folders) {
    if (!allowedDependencies[folder]) {
      problems.push(`${folder}: unknown package; give it a row in the table of scripts/checks/layers.ts`);
      continue;
    }
    const manifest = readManifest(root, folder);
    if (!manifest && folder !== "examples") {
      problems.push(`${folder}: a package without a package.json, which states what it may import`);
      continue;
    }
    const pkg: WorkspacePackage = { folder, manifest, rootManifest, problems, usedBySources: new Set(), usedByTests: new Set() };
    if (manifest) checkManifest(pkg, manifest);
    for (const file of listSources(root, folder)) checkFile(root, pkg, file);
    if (manifest) checkUnusedDependencies(pkg, manifest);
  }
  const outside: WorkspacePackage = {
    folder: "",
    manifest: rootManifest,
    rootManifest,
    problems,
    usedBySources: new Set(),
    usedByTests: new Set(),
  };
  for (const file of listSources(root)) if (!/^(packages|apps|examples)\//.test(file)) checkFile(root, outside, file);
  return problems;
}

/** A package of another language has no package.json and no imports to check. */
const isOtherLanguage = (root: string, folder: string): boolean =>
  existsSync(join(root, folder, "pyproject.toml")) && !existsSync(join(root, folder, "package.json"));

function readManifest(root: string, folder: string): Manifest | null {
  const path = posix.join(folder, "package.json");
  return existsSync(join(root, path)) ? (JSON.parse(readText(root, path)) as Manifest) : null;
}

function checkManifest(pkg: WorkspacePackage, manifest: Manifest): void {
  const { folder, problems } = pkg;
  const expected = scope + basename(folder);
  if (folder !== "examples" && manifest.name !== expected)
    problems.push(`${folder}/package.json: is named "${manifest.name}"; it must be ${expected}`);
  for (const entry of Object.keys(manifest.exports ?? {}))
    if (entry !== "." && entry !== "./testing")
      problems.push(`${folder}/package.json: exports "${entry}"; a package has the entry points "." and "./testing"`);
  if (folder.startsWith("packages/") && (manifest.main !== undefined || manifest.bin !== undefined))
    problems.push(`${folder}/package.json: has a main or bin; packages are libraries, programs live in apps`);
  for (const name of Object.keys(manifest.dependencies ?? {}))
    if (name.startsWith(scope) && !mayImport(folder, name) && !mayLoadLazily(folder, name))
      problems.push(`${folder}/package.json: declares ${describeDependency(folder, name)}`);
}

function checkFile(root: string, pkg: WorkspacePackage, file: string): void {
  const { folder, problems } = pkg;
  const tokens = tokenize(readText(root, file));
  const isTest = isTestFile(file);
  const report = (line: number, sentence: string) => problems.push(`${file}:${line}: ${sentence}`);
  for (const found of readImports(tokens)) {
    const { specifier, line } = found;
    if (specifier.startsWith(".")) {
      const target = posix.normalize(posix.join(posix.dirname(file), specifier));
      if (packageOf(target) !== folder)
        report(line, `"${specifier}" is a relative import into another package; import ${packageOf(target) || "it"} by its name`);
      else if (isTestFile(target) && !isTest) report(line, `"${specifier}" is for tests only, and this file is not a test`);
    } else if (/^(\/|file:)/.test(specifier)) report(line, `"${specifier}" is a path of one machine; import by name`);
    else if (specifier.startsWith(scope)) for (const sentence of checkWorkspaceImport(pkg, found, isTest)) report(line, sentence);
    else if (!isBuiltin(specifier) && !specifier.startsWith("#"))
      for (const sentence of checkExternalImport(pkg, specifier, isTest)) report(line, sentence);
  }
  if (/\/src\/(index|testing)\.ts$/.test(file))
    tokens.forEach((token, at) => {
      if (token.text === "export" && tokens[at + 1]?.text === "*" && tokens[at + 2]?.text !== "as")
        report(token.line, "an entry point lists every export by name, not with a star");
    });
  if (folder.startsWith("packages/") && !isTest)
    for (const habit of findProgramOnlyUses(tokens)) report(habit.line, habit.sentence);
}

function* checkWorkspaceImport(pkg: WorkspacePackage, { specifier, isLazy }: Import, isTest: boolean): Generator<string> {
  const { folder } = pkg;
  const [, short = "", ...rest] = specifier.split("/");
  const name = scope + short;
  const entry = rest.join("/");
  (isTest ? pkg.usedByTests : pkg.usedBySources).add(name);
  const isKnown = Object.keys(allowedDependencies).some((known) => basename(known) === short);
  if (!isKnown) return yield `"${specifier}" names a package that is not in the table`;
  if (entry !== "" && entry !== "testing") return yield `"${specifier}" is a deep import; import ${name}`;
  // The simulator enables known bugs to test its checkers: all of it is test support.
  if (entry === "testing" && !isTest && folder !== simulatorPackage)
    return yield `"${specifier}" is for tests only, and this file is not a test`;
  if (folder === "") return; // npm links every package into the node_modules of the root
  if (short === basename(folder)) {
    if (!isTest) yield `"${specifier}" is this package itself; import the file`;
    return;
  }
  if (entry === "" && !mayImport(folder, name)) {
    if (!mayLoadLazily(folder, name)) return yield `uses ${describeDependency(folder, name)}`;
    if (!isLazy)
      return yield `"${specifier}" is loaded at once; ${folder} loads other apps with import() when they are asked for`;
    return; // by name, so that the CLI works where that app is not installed
  }
  yield* checkDeclared(pkg, name, isTest);
}

function* checkExternalImport(pkg: WorkspacePackage, specifier: string, isTest: boolean): Generator<string> {
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  (isTest ? pkg.usedByTests : pkg.usedBySources).add(name);
  yield* checkDeclared(pkg, name, isTest);
}

function* checkDeclared({ folder, manifest, rootManifest }: WorkspacePackage, name: string, isTest: boolean): Generator<string> {
  if (!manifest) return;
  const { dependencies, devDependencies, optionalDependencies, peerDependencies } = manifest;
  const declared = { ...dependencies, ...optionalDependencies, ...peerDependencies };
  const forTests = { ...devDependencies, ...rootManifest.devDependencies }; // test tools are declared once, at the root
  if (name in declared || ((isTest || folder === "") && name in forTests)) return;
  yield `imports ${name}, which ${folder ? `${folder}/` : ""}package.json does not declare`;
}

function checkUnusedDependencies({ folder, problems, usedBySources, usedByTests }: WorkspacePackage, manifest: Manifest): void {
  const report = (sentence: string) => problems.push(`${folder}/package.json: ${sentence}`);
  for (const name of Object.keys(manifest.dependencies ?? {})) {
    if (usedBySources.has(name)) continue;
    if (usedByTests.has(name)) report(`${name} is used by tests only; declare it in devDependencies`);
    else report(`declares ${name}, which nothing in ${folder} imports`);
  }
  for (const name of Object.keys(manifest.devDependencies ?? {}))
    if (!name.startsWith("@types/") && !usedByTests.has(name) && !usedBySources.has(name))
      report(`declares ${name}, which nothing in ${folder} imports`);
}

function mayImport(folder: string, name: string): boolean {
  const short = name.slice(scope.length);
  const allowed = allowedDependencies[folder] ?? [];
  return allowed.includes(short) || (allowed.includes("*") && allowedDependencies[`packages/${short}`] !== undefined);
}

function mayLoadLazily(folder: string, name: string): boolean {
  const short = name.slice(scope.length);
  return (
    folder === lazyLoader && (allowedDependencies[`apps/${short}`] !== undefined || `packages/${short}` === simulatorPackage)
  );
}

function describeDependency(folder: string, name: string): string {
  const allowed = allowedDependencies[folder] ?? [];
  const may = allowed.length === 0 ? "no other package" : allowed.join(", ");
  return `${basename(folder)} -> ${name.slice(scope.length)}, which is not in the table (${basename(folder)} may import ${may})`;
}

function packageOf(path: string): string {
  const [parent = "", pkg = ""] = path.split("/");
  if (parent === "packages" || parent === "apps") return `${parent}/${pkg}`;
  return parent === "examples" ? parent : "";
}

if (import.meta.main) reportProblems("layers", checkLayers(repositoryRoot));
