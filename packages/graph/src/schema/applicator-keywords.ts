// Keywords that apply other schemas: to properties, to items, or to the value as a whole. One row each.

import { isObject } from "../values/binding-path.ts";
import { isArray, type KeywordCheck, problemAt, type SchemaObject, type SchemaProblem, type ValuePath } from "./keyword.ts";
import type { SchemaValidator } from "./validator.ts";

/** Null in an optional property counts as absent: many workers write absent values that way. */
const isOptionalNull = (value: unknown, key: string, schema: SchemaObject): boolean =>
  value === null && !(isArray(schema["required"]) && schema["required"].includes(key));

export const applicatorKeywords: readonly (readonly [string, KeywordCheck])[] = [
  [
    "required",
    (validator, rule, value, at) => {
      if (!isArray(rule) || !isObject(value)) return null;
      validator.spendSteps(rule.length);
      const missing = rule.find((key) => typeof key === "string" && !Object.hasOwn(value, key));
      return missing === undefined ? null : problemAt([...at, String(missing)], "is required");
    },
  ],
  [
    "properties",
    (validator, rule, value, at, schema) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const key of Object.keys(rule)) {
        validator.spendSteps(1);
        if (!Object.hasOwn(value, key) || isOptionalNull(value[key], key, schema)) continue;
        const problem = validator.validateAt(rule[key], value[key], [...at, key]);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "patternProperties",
    (validator, rule, value, at, schema) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const [pattern, child] of Object.entries(rule))
        for (const key of Object.keys(value)) {
          if (isOptionalNull(value[key], key, schema) || !validator.matchesPattern(pattern, key)) continue;
          const problem = validator.validateAt(child, value[key], [...at, key]);
          if (problem !== null) return problem;
        }
      return null;
    },
  ],
  [
    "additionalProperties",
    (validator, rule, value, at, schema) => {
      if (!isObject(value) || rule === true) return null;
      const known = isObject(schema["properties"]) ? schema["properties"] : {};
      const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
      for (const key of Object.keys(value)) {
        validator.spendSteps(1);
        if (
          Object.hasOwn(known, key) ||
          value[key] === null ||
          patterns.some((pattern) => validator.matchesPattern(pattern, key))
        )
          continue;
        const problem =
          rule === false
            ? problemAt([...at, key], "is not known to the schema")
            : validator.validateAt(rule, value[key], [...at, key]);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "propertyNames",
    (validator, rule, value, at) => {
      if (!isObject(value)) return null;
      for (const key of Object.keys(value))
        if (!validator.isValid(rule, key)) return problemAt([...at, key], "has a name that the schema does not allow");
      return null;
    },
  ],
  ["dependentRequired", validateDependencies],
  ["dependentSchemas", validateDependencies],
  ["dependencies", validateDependencies], // draft 7: both of the above
  [
    "items",
    (validator, rule, value, at, schema) => {
      if (!isArray(value)) return null;
      if (isArray(rule)) return validatePrefixItems(validator, rule, value, at); // the older spelling of prefixItems
      const first = isArray(schema["prefixItems"]) ? schema["prefixItems"].length : 0;
      return validateRemainingItems(validator, rule, value, first, at);
    },
  ],
  [
    "prefixItems",
    (validator, rule, value, at) => (isArray(rule) && isArray(value) ? validatePrefixItems(validator, rule, value, at) : null),
  ],
  [
    "additionalItems",
    (validator, rule, value, at, schema) =>
      isArray(value) && isArray(schema["items"])
        ? validateRemainingItems(validator, rule, value, schema["items"].length, at)
        : null,
  ],
  [
    "uniqueItems",
    (validator, rule, value, at) => {
      if (rule !== true || !isArray(value)) return null;
      const texts = new Set(value.map((item) => validator.canonicalTextOf(item)));
      return texts.size === value.length ? null : problemAt(at, "must not have the same item twice");
    },
  ],
  [
    "contains",
    (validator, rule, value, at, schema) => {
      if (!isArray(value)) return null;
      const count = value.filter((item) => validator.isValid(rule, item)).length;
      const least = typeof schema["minContains"] === "number" ? schema["minContains"] : 1;
      const most = typeof schema["maxContains"] === "number" ? schema["maxContains"] : Infinity;
      return count >= least && count <= most ? null : problemAt(at, "does not contain the items its schema requires");
    },
  ],
  [
    "allOf",
    (validator, rule, value, at) => {
      for (const part of isArray(rule) ? rule : []) {
        const problem = validator.validateAt(part, value, at);
        if (problem !== null) return problem;
      }
      return null;
    },
  ],
  [
    "anyOf",
    (validator, rule, value, at) => {
      if (!isArray(rule) || rule.length === 0) return null;
      const problems = [];
      for (const form of rule) {
        const problem = validator.validateAt(form, value, at);
        if (problem === null) return null;
        problems.push(problem);
      }
      return problems.length === 1 && problems[0] !== undefined
        ? problems[0]
        : problemAt(at, "matches none of the schemas in anyOf");
    },
  ],
  [
    "oneOf",
    (validator, rule, value, at) => {
      if (!isArray(rule) || rule.length === 0) return null;
      const count = rule.filter((form) => validator.isValid(form, value)).length;
      return count === 1
        ? null
        : problemAt(at, `matches ${count === 0 ? "none" : "several"} of the schemas in oneOf; exactly one must match`);
    },
  ],
  ["not", (validator, rule, value, at) => (validator.isValid(rule, value) ? problemAt(at, "matches the schema in not") : null)],
  [
    "if",
    (validator, rule, value, at, schema) =>
      validator.validateAt(validator.isValid(rule, value) ? schema["then"] : schema["else"], value, at),
  ],
];

/** What a property demands while it is present: other properties (a list), or a schema for the whole object. */
function validateDependencies(validator: SchemaValidator, rule: unknown, value: unknown, at: ValuePath): SchemaProblem | null {
  if (!isObject(rule) || !isObject(value)) return null;
  for (const [key, demand] of Object.entries(rule)) {
    validator.spendSteps(isArray(demand) ? demand.length : 1);
    if (!Object.hasOwn(value, key)) continue;
    const missing = isArray(demand) ? demand.find((name) => typeof name === "string" && !Object.hasOwn(value, name)) : undefined;
    if (missing !== undefined) return problemAt([...at, String(missing)], `is required beside ${key}`);
    const problem = isArray(demand) ? null : validator.validateAt(demand, value, at);
    if (problem !== null) return problem;
  }
  return null;
}

function validatePrefixItems(
  validator: SchemaValidator,
  rules: readonly unknown[],
  value: readonly unknown[],
  at: ValuePath,
): SchemaProblem | null {
  for (const [index, rule] of rules.entries()) {
    if (index >= value.length) return null;
    const problem = validator.validateAt(rule, value[index], [...at, index]);
    if (problem !== null) return problem;
  }
  return null;
}

function validateRemainingItems(
  validator: SchemaValidator,
  rule: unknown,
  value: readonly unknown[],
  first: number,
  at: ValuePath,
): SchemaProblem | null {
  if (rule === true) return null;
  for (let index = first; index < value.length; index += 1) {
    const problem = validator.validateAt(rule, value[index], [...at, index]);
    if (problem !== null) return problem;
  }
  return null;
}
