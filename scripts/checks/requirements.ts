/**
 * The rows of docs/requirements.md. A row that says `met` names a rule and a test, and both must exist.
 */
import type { SpecRule } from "./spec-rules.ts";
import { isTemplate, matchesTitle, type TestTitle } from "./test-titles.ts";

const columns = ["id", "section", "requirement", "rule", "test", "state"];
/** Seeds about the wire: what they ask for is proven only where two ends meet, or in what both ends run. */
const wireRow = /^R[01]-/;
const wireTestFile =
  /^(test\/system|test\/engine\/rest|packages\/doors\/src\/(session|rest)|packages\/session|packages\/protocol)\/|^packages\/runtime\/src\/worker[^/]*$/;
const decidedWithReason = /^decided otherwise: *\S/;

interface RequirementRow {
  line: number;
  cells: string[];
}

/** Cells of a table row; `\|` is a bar inside a cell. */
function splitRow(text: string): string[] {
  const inner = text
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** Rows of the tables with these columns; other tables are not checked. */
function readRows(text: string): { rows: RequirementRow[]; problems: string[] } {
  const rows: RequirementRow[] = [];
  const problems: string[] = [];
  let header: string[] | null = null;
  text.split("\n").forEach((words, at) => {
    if (!words.trim().startsWith("|")) {
      header = null;
      return;
    }
    const cells = splitRow(words);
    if (header === null) {
      header = cells.map((cell) => cell.toLowerCase());
      if (header[0] === "id" && header.join() !== columns.join())
        problems.push(`docs/requirements.md:${at + 1}: the columns are ${columns.join(" | ")}, not ${header.join(" | ")}`);
    } else if (header.join() === columns.join() && !cells.every((cell) => /^:?-+:?$/.test(cell)))
      rows.push({ line: at + 1, cells });
  });
  return { rows, problems };
}

export function checkRequirements(text: string, rules: readonly SpecRule[], titles: readonly TestTitle[]): string[] {
  const { rows, problems } = readRows(text);
  if (rows.length === 0) problems.push(`docs/requirements.md: no table with the columns ${columns.join(" | ")}`);
  const planned = new Map(rules.map((rule) => [rule.id, rule.isPlanned]));
  const seen = new Set<string>();
  for (const { line, cells } of rows) {
    const report = (sentence: string) => problems.push(`docs/requirements.md:${line}: ${sentence}`);
    if (cells.length !== columns.length) {
      report(`${cells.length} cells in place of ${columns.length}; a bar inside a cell is written \\|`);
      continue;
    }
    const [id = "", , requirement = "", ruleCell = "", testCell = "", state = ""] = cells;
    if (id === "" || requirement === "") report("a row needs an id and a requirement");
    if (seen.has(id)) report(`${id} is used twice`);
    seen.add(id);
    const ids = ruleCell.split(/[,\s]+/).filter((part) => part !== "");
    const tests = readTestNames(testCell);
    for (const rule of ids) {
      if (!planned.has(rule)) report(`${id} names rule ${rule}, which docs/spec.md does not have`);
      else if (state === "met" && planned.get(rule)) report(`${id} is met by rule ${rule}, which is only planned`);
    }
    for (const name of tests) {
      if (!titles.some((title) => matchesTitle(title.text, name))) report(`${id} names a test that does not exist: "${name}"`);
      else if (isTemplate(name) && !titles.some((title) => title.text === name))
        report(`${id} names the template of a title; write one that a run reports: "${name}"`);
    }
    if (state === "met" && (ids.length === 0 || tests.length === 0)) report(`${id} is met, so it needs a rule and a test`);
    else if (state === "met" && wireRow.test(id) && !tests.some((name) => isShownOnWire(name, titles)))
      report(`${id} is met, so one of its tests must go over a socket, through the API, or through what both ends run`);
    if (state.startsWith("decided otherwise") && !decidedWithReason.test(state))
      report(`${id} is decided otherwise without a reason`);
    else if (state !== "met" && state !== "not yet" && !decidedWithReason.test(state))
      report(`${id} has the state "${state}"; it is met, not yet, or decided otherwise: <reason>`);
  }
  return problems;
}

const isShownOnWire = (name: string, titles: readonly TestTitle[]): boolean =>
  titles.some(({ file, text }) => wireTestFile.test(file) && matchesTitle(text, name));

export interface CitedTest {
  line: number;
  /** Of the requirement. */
  id: string;
  title: string;
}

/** Every test that a row names, whatever the row's state. */
export const listCitedTests = (text: string): CitedTest[] =>
  readRows(text).rows.flatMap(({ line, cells: [id = "", , , , testCell = ""] }) =>
    readTestNames(testCell).map((title) => ({ line, id, title })),
  );

/** One or more titles in a cell, separated by <br>; quotes or backticks around a title are dropped. */
function readTestNames(cell: string): string[] {
  const names = cell.split(/<br\s*\/?>/).map((name) => name.trim().replace(/^(`|")(.*)\1$/s, "$2"));
  return names.filter((name) => name !== "");
}
