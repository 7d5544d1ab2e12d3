// Keywords about what a value is made of: properties, items, and the forms it may or may not have. One row each.

import { isObject } from "../values/binding-path.ts";
import {
  isArray,
  type KeywordCheck,
  problemAt,
  type SchemaObject,
  type SchemaProblem,
  type ValidatorContext,
  type ValuePath,
} from "./keyword.ts";

/** A property that need not be there may as well be null: many workers write their absent values so. */
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
  [
    "dependentRequired",
    (validator, rule, value, at) => {
      if (!isObject(rule) || !isObject(value)) return null;
      for (const [key, dependents] of Object.entries(rule)) {
        if (!Object.hasOwn(value, key) || !isArray(dependents)) continue;
        validator.spendSteps(dependents.length);
        const missing = dependents.find((dependent) => typeof dependent === "string" && !Object.hasOwn(value, dependent));
        if (missing !== undefined) return problemAt([...at, String(missing)], `is required beside ${key}`);
      }
      return null;
    },
  ],
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
      return count >= least && count <= most ? null : problemAt(at, "does not hold the items that its schema asks for");
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
        : problemAt(at, "fits none of the forms that its schema allows");
    },
  ],
  [
    "oneOf",
    (validator, rule, value, at) => {
      if (!isArray(rule) || rule.length === 0) return null;
      const count = rule.filter((form) => validator.isValid(form, value)).length;
      return count === 1
        ? null
        : problemAt(at, `fits ${count === 0 ? "none" : "several"} of the forms of which its schema wants exactly one`);
    },
  ],
  [
    "not",
    (validator, rule, value, at) =>
      validator.isValid(rule, value) ? problemAt(at, "has the form that its schema rules out") : null,
  ],
  [
    "if",
    (validator, rule, value, at, schema) =>
      validator.validateAt(validator.isValid(rule, value) ? schema["then"] : schema["else"], value, at),
  ],
];

function validatePrefixItems(
  validator: ValidatorContext,
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
  validator: ValidatorContext,
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
