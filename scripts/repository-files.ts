/**
 * The files of the repository for the checks: which exist, which are tests, and how a check reports its problems.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const skippedFolders = new Set(["node_modules", ".git", "var", "coverage", "dist"]);
const sourceFileName = /\.(ts|tsx|mts|js|jsx|mjs|cjs)$/;
const testFilePath = /\.(test|bench)\.tsx?$|(^|\/)(test|bench|testing|contract)\/|(^|\/)src\/testing\.ts$/;

export const repositoryRoot = dirname(dirname(fileURLToPath(import.meta.url)));

/** Paths of all files below a folder, relative to the root, in a stable order; nothing when the folder does not exist. */
export function listFiles(root: string, folder = ""): string[] {
  const here = join(root, folder);
  if (!existsSync(here)) return [];
  const files: string[] = [];
  for (const entry of readdirSync(here, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isFile()) files.push(path);
    else if (entry.isDirectory() && !skippedFolders.has(entry.name)) files.push(...listFiles(root, path));
  }
  return files;
}

export function listSources(root: string, folder = ""): string[] {
  return listFiles(root, folder).filter((path) => sourceFileName.test(path));
}

export function listFolders(root: string, folder: string): string[] {
  const here = join(root, folder);
  if (!existsSync(here)) return [];
  const entries = readdirSync(here, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && !skippedFolders.has(entry.name))
    .map((entry) => `${folder}/${entry.name}`);
}

/** Tests, and what only tests may use: fakes, contract suites, measurements. */
export function isTestFile(path: string): boolean {
  return testFilePath.test(path);
}

export function readText(root: string, path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** The end of a check that was run as a program. */
export function reportProblems(check: string, problems: readonly string[]): void {
  for (const problem of problems) console.log(problem);
  console.log(problems.length === 0 ? `${check}: nothing found` : `${check}: ${problems.length} found`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
