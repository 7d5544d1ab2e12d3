/**
 * Compares the documents with the code: every rule has its test, every met requirement names one that exists, the table of packages is
 * complete, glossary and walk are true, and no file mentions a place outside the repository. Whether generated documents are up to date is checked by gen.ts.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { listFiles, readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { checkGlossary } from "./glossary.ts";
import { checkPackageTable } from "./package-table.ts";
import { checkRequirements } from "./requirements.ts";
import { checkSpecRules, readSpecRules } from "./spec-rules.ts";
import { listTestTitles } from "./test-titles.ts";
import { checkWalk } from "./walk.ts";

/** Written in pieces, because this file is read by its own check. */
const forbiddenMentions: readonly { pattern: RegExp; why: string }[] = [
  { pattern: new RegExp(["\\.\\.", "shared\\b"].join("/")), why: "a folder outside the repository" },
  { pattern: new RegExp(["(?<![\\w.~-])", "work", ""].join("/")), why: "an absolute path of one machine" },
  { pattern: new RegExp(["", "tmp", "bash"].join("/")), why: "an absolute path of one machine" },
  { pattern: new RegExp(["registry", "npmjs"].join("\\.")), why: "the host of a package registry" },
];
const textFileName = /\.(md|ts|tsx|mts|js|jsx|mjs|cjs|json|yaml|yml|py|sql|css|html|sh|toml)$|^\.ci\//;
/** npm writes the address of every package into it. */
const lockfile = "package-lock.json";

/** Every disagreement between documents and code below a root, one sentence each. */
export function checkDocs(root: string): string[] {
  const titles = listTestTitles(root);
  const problems: string[] = [];
  const spec = readDocument(root, "docs/spec.md", "it holds the numbered rules that test titles cite", problems);
  const requirements = readDocument(root, "docs/requirements.md", "it holds a row for everything that was asked for", problems);
  const rules = spec === null ? [] : readSpecRules(spec);
  // Without a spec every title would be wrong; one sentence about the missing file says it all.
  if (spec !== null) problems.push(...checkSpecRules(rules, titles));
  if (requirements !== null) problems.push(...checkRequirements(requirements, rules, titles));
  return [...problems, ...checkPackageTable(root), ...checkGlossary(root), ...checkWalk(root), ...findForbiddenMentions(root)];
}

function readDocument(root: string, path: string, why: string, problems: string[]): string | null {
  if (existsSync(join(root, path))) return readText(root, path);
  problems.push(`${path} is missing; ${why}`);
  return null;
}

function findForbiddenMentions(root: string): string[] {
  const files = listFiles(root).filter((path) => textFileName.test(path) && path !== lockfile);
  return files.flatMap((path) =>
    readText(root, path)
      .split("\n")
      .flatMap((words, at) => {
        const found = forbiddenMentions.find(({ pattern }) => pattern.test(words));
        return found ? [`${path}:${at + 1}: mentions ${found.why}: "${found.pattern.exec(words)?.[0]}"`] : [];
      }),
  );
}

if (import.meta.main) reportProblems("docs", checkDocs(repositoryRoot));
