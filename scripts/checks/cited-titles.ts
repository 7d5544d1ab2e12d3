/**
 * Compares the tests that docs/requirements.md cites with the titles that a run of all tests reported: a title made from a template must be cited as
 * it was reported. Without a run, docs.ts compares them with the sources, where a computed part may be anything.
 *
 *   node scripts/checks/cited-titles.ts TITLES-FILE
 */
import { readFileSync } from "node:fs";
import { readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { listCitedTests } from "./requirements.ts";

/** Every cited title that no test or group of tests reported, one sentence each. */
export const findUnreportedTitles = (requirements: string, reported: ReadonlySet<string>): string[] =>
  listCitedTests(requirements)
    .filter(({ title }) => !reported.has(title))
    .map(({ line, id, title }) => `docs/requirements.md:${line}: ${id} names a test that did not run: "${title}"`);

if (import.meta.main) {
  const titles = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as string[];
  reportProblems("cited tests", findUnreportedTitles(readText(repositoryRoot, "docs/requirements.md"), new Set(titles)));
}
