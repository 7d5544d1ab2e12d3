/** The rules of docs/spec.md: their ids, where they stand, and whether each has a test. */
import type { TestTitle } from "./test-titles.ts";

export interface SpecRule {
  id: string;
  line: number;
  isPlanned: boolean;
}

/** A table row, list item, heading or bold word that begins with an id; or a plain line, if it begins a paragraph. */
const markedRule = /^\s*(?:\||[-*]\s|#{1,6}\s|(?=\*\*|`))\s*(?:\*\*|`)?([A-Z]{1,4}\d+[a-z]?)(?:\*\*|`)?(?=[\s.:,|)]|$)/;
const plainRule = /^([A-Z]{1,4}\d+[a-z]?)(?=[\s.:])/;

export function readSpecRules(text: string): SpecRule[] {
  const rules: SpecRule[] = [];
  let isFenced = false;
  let mayBegin = true; // a blank line or another rule came before
  text.split("\n").forEach((words, at) => {
    if (/^\s*(```|~~~)/.test(words)) isFenced = !isFenced;
    if (isFenced) return;
    const id = (markedRule.exec(words) ?? (mayBegin ? plainRule.exec(words) : null))?.[1];
    if (id) rules.push({ id, line: at + 1, isPlanned: words.includes("(planned)") });
    mayBegin = id !== undefined || words.trim() === "";
  });
  return rules;
}

/** Rules twice, rules without a test, tests of rules that do not exist. */
export function checkSpecRules(rules: readonly SpecRule[], titles: readonly TestTitle[]): string[] {
  const problems: string[] = [];
  const byId = new Map<string, SpecRule>();
  for (const rule of rules) {
    const first = byId.get(rule.id);
    if (first) problems.push(`docs/spec.md:${rule.line}: rule ${rule.id} is already on line ${first.line}`);
    else byId.set(rule.id, rule);
  }
  const cited = new Set<string>();
  for (const title of titles)
    for (const id of title.rules) {
      cited.add(id);
      if (!byId.has(id)) problems.push(`${title.file}:${title.line}: cites rule ${id}, which docs/spec.md does not have`);
    }
  for (const rule of byId.values()) {
    if (!rule.isPlanned && !cited.has(rule.id))
      problems.push(
        `docs/spec.md:${rule.line}: no test title begins with [${rule.id}]; write the test or mark the rule (planned)`,
      );
    if (rule.isPlanned && cited.has(rule.id))
      problems.push(`docs/spec.md:${rule.line}: rule ${rule.id} is marked (planned), but a test cites it; take the mark away`);
  }
  return problems;
}
