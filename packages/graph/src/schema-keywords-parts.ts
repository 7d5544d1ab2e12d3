// Keywords about what a value is made of: properties, items, and the forms it may or may not have. One row each.

import { isObject } from "./path.ts";
import { isList, type Judging, type Keyword, type Schema, type SchemaProblem, type Steps, wrong } from "./schema-words.ts";

/** A property that need not be there may as well be null: many workers write their absent values so. */
const isAbsent = (value: unknown, key: string, schema: Schema): boolean =>
  value === null && !(isList(schema["required"]) && schema["required"].includes(key));

export const partKeywords: readonly (readonly [string, Keyword])[] = [
  [
    "required",
    (judge, rule, value, at) => {
      if (!isList(rule) || !isObject(value)) return null;
      judge.spend(rule.length);
      const missing = rule.find((key) => typeof key === "string" && !Object.hasOwn(value, key));
      return missing === undefined ? null : wrong([...at, String(missing)], "is required");
    },
  ],
  [
    "properties",
    (judge, rule, value, at, schema) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const key of Object.keys(rule)) {
        judge.spend(1);
        if (!Object.hasOwn(value, key) || isAbsent(value[key], key, schema)) continue;
        const problem = judge.visit(rule[key], value[key], [...at, key]);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "patternProperties",
    (judge, rule, value, at, schema) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const [pattern, child] of Object.entries(rule))
        for (const key of Object.keys(value)) {
          if (isAbsent(value[key], key, schema) || !judge.matches(pattern, key)) continue;
          const problem = judge.visit(child, value[key], [...at, key]);
          if (problem !== null) return problem;
        }
      return null;
    },
  ],
  [
    "additionalProperties",
    (judge, rule, value, at, schema) => {
      if (!isObject(value) || rule === true) return null;
      const known = isObject(schema["properties"]) ? schema["properties"] : {};
      const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
      for (const key of Object.keys(value)) {
        judge.spend(1);
        if (Object.hasOwn(known, key) || value[key] === null || patterns.some((pattern) => judge.matches(pattern, key))) continue;
        const problem =
          rule === false ? wrong([...at, key], "is not known to the schema") : judge.visit(rule, value[key], [...at, key]);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "propertyNames",
    (judge, rule, value, at) => {
      if (!isObject(value)) return null;
      for (const key of Object.keys(value))
        if (!judge.fits(rule, key)) return wrong([...at, key], "has a name that the schema does not allow");
      return null;
    },
  ],
  [
    "dependentRequired",
    (judge, rule, value, at) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const [key, needs] of Object.entries(rule)) {
        if (!Object.hasOwn(value, key) || !isList(needs)) continue;
        judge.spend(needs.length);
        const missing = needs.find((need) => typeof need === "string" && !Object.hasOwn(value, need));
        if (missing !== undefined) return wrong([...at, String(missing)], `is required beside ${key}`);
      }
      return null;
    },
  ],
  [
    "items",
    (judge, rule, value, at, schema) => {
      if (!isList(value)) return null;
      if (isList(rule)) return eachOf(judge, rule, value, at); // the older spelling of prefixItems
      const first = isList(schema["prefixItems"]) ? schema["prefixItems"].length : 0;
      return restOf(judge, rule, value, first, at);
    },
  ],
  ["prefixItems", (judge, rule, value, at) => (isList(rule) && isList(value) ? eachOf(judge, rule, value, at) : null)],
  [
    "additionalItems",
    (judge, rule, value, at, schema) =>
      isList(value) && isList(schema["items"]) ? restOf(judge, rule, value, schema["items"].length, at) : null,
  ],
  [
    "uniqueItems",
    (judge, rule, value, at) => {
      if (rule !== true || !isList(value)) return null;
      const texts = new Set(value.map((item) => judge.text(item)));
      return texts.size === value.length ? null : wrong(at, "must not have the same item twice");
    },
  ],
  [
    "contains",
    (judge, rule, value, at, schema) => {
      if (!isList(value)) return null;
      const count = value.filter((item) => judge.fits(rule, item)).length;
      const least = typeof schema["minContains"] === "number" ? schema["minContains"] : 1;
      const most = typeof schema["maxContains"] === "number" ? schema["maxContains"] : Infinity;
      return count >= least && count <= most ? null : wrong(at, "does not hold the items that its schema asks for");
    },
  ],
  [
    "allOf",
    (judge, rule, value, at) => {
      for (const part of isList(rule) ? rule : []) {
        const problem = judge.visit(part, value, at);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "anyOf",
    (judge, rule, value, at) => {
      if (!isList(rule) || rule.length === 0) return null;
      const problems = [];
      for (const form of rule) {
        const problem = judge.visit(form, value, at);
        if (problem === null) return null;
        problems.push(problem);
      }
      return problems.length === 1 && problems[0] !== undefined
        ? problems[0]
        : wrong(at, "fits none of the forms that its schema allows");
    },
  ],
  [
    "oneOf",
    (judge, rule, value, at) => {
      if (!isList(rule) || rule.length === 0) return null;
      const count = rule.filter((form) => judge.fits(form, value)).length;
      return count === 1
        ? null
        : wrong(at, `fits ${count === 0 ? "none" : "several"} of the forms of which its schema wants exactly one`);
    },
  ],
  ["not", (judge, rule, value, at) => (judge.fits(rule, value) ? wrong(at, "has the form that its schema rules out") : null)],
  ["if", (judge, rule, value, at, schema) => judge.visit(judge.fits(rule, value) ? schema["then"] : schema["else"], value, at)],
];

function eachOf(judge: Judging, rules: readonly unknown[], value: readonly unknown[], at: Steps): SchemaProblem | null {
  for (const [index, rule] of rules.entries()) {
    if (index >= value.length) return null;
    const problem = judge.visit(rule, value[index], [...at, index]);
    if (problem !== null) return problem;
  }
  return null;
}

function restOf(judge: Judging, rule: unknown, value: readonly unknown[], first: number, at: Steps): SchemaProblem | null {
  if (rule === true) return null;
  for (let index = first; index < value.length; index += 1) {
    const problem = judge.visit(rule, value[index], [...at, index]);
    if (problem !== null) return problem;
  }
  return null;
}
