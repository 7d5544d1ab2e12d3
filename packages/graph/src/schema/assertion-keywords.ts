// Keywords about a value by itself: its type, its size, the values it may have. One row each.
// Messages never contain the value: it may be a secret.

import { isObject } from "../values/binding-path.ts";
import { isArray, type KeywordCheck, problemAt } from "./keyword.ts";
import type { SchemaValidator } from "./validator.ts";

const typePhrases: Record<string, string> = {
  null: "null",
  boolean: "true or false",
  object: "an object",
  array: "a list",
  number: "a number",
  integer: "a whole number",
  string: "a text",
};

function isOfJsonType(name: unknown, value: unknown): boolean {
  switch (name) {
    case "null":
      return value === null;
    case "object":
      return isObject(value);
    case "array":
      return isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "boolean":
    case "number":
    case "string":
      return typeof value === name;
    default:
      return true; // not a JSON type: no restriction
  }
}

/** A keyword that compares one measure of the value with a number. */
const limitKeyword =
  (
    measure: (validator: SchemaValidator, value: unknown) => number | null,
    isWithin: (found: number, limit: number) => boolean,
    message: string,
  ): KeywordCheck =>
  (validator, rule, value, at) => {
    const found = typeof rule === "number" ? measure(validator, value) : null;
    return found === null || isWithin(found, rule as number) ? null : problemAt(at, message.replace("#", String(rule)));
  };

const measureNumber = (_: SchemaValidator, value: unknown) => (typeof value === "number" ? value : null);
const countItems = (_: SchemaValidator, value: unknown) => (isArray(value) ? value.length : null);
const countKeys = (_: SchemaValidator, value: unknown) => (isObject(value) ? Object.keys(value).length : null);
function countCharacters(validator: SchemaValidator, value: unknown): number | null {
  if (typeof value !== "string") return null;
  validator.spendSteps(value.length / 100);
  return [...value].length;
}
const atLeast = (found: number, limit: number) => found >= limit;
const atMost = (found: number, limit: number) => found <= limit;

const minimumCheck = limitKeyword(measureNumber, atLeast, "must be at least #");
const maximumCheck = limitKeyword(measureNumber, atMost, "must be at most #");
const exclusiveMinimumCheck = limitKeyword(measureNumber, (found, limit) => found > limit, "must be above #");
const exclusiveMaximumCheck = limitKeyword(measureNumber, (found, limit) => found < limit, "must be below #");

export const assertionKeywords: readonly (readonly [string, KeywordCheck])[] = [
  [
    "type",
    (_, rule, value, at, schema) => {
      const names = isArray(rule) ? rule : [rule];
      if (names.some((name) => isOfJsonType(name, value)) || (value === null && schema["nullable"] === true)) return null;
      return problemAt(at, `must be ${names.map((name) => typePhrases[String(name)] ?? String(name)).join(" or ")}`);
    },
  ],
  [
    "enum",
    (validator, rule, value, at) => {
      if (!isArray(rule)) return null;
      validator.spendSteps(rule.length);
      const text = validator.canonicalTextOf(value);
      if (rule.some((allowed) => validator.canonicalTextOf(allowed) === text)) return null;
      const words = rule.map((allowed) => validator.canonicalTextOf(allowed)).join(", ");
      return problemAt(at, words.length > 200 ? `must be one of ${rule.length} values of its schema` : `must be one of ${words}`);
    },
  ],
  [
    "const",
    (validator, rule, value, at) =>
      validator.canonicalTextOf(rule) === validator.canonicalTextOf(value)
        ? null
        : problemAt(at, `must be ${validator.canonicalTextOf(rule).slice(0, 200)}`),
  ],
  [
    "$ref",
    (validator, rule, value, at) =>
      typeof rule === "string" ? validator.validateAt(validator.resolveRef(rule), value, at) : null,
  ],
  [
    "minimum",
    (validator, rule, value, at, schema) =>
      (schema["exclusiveMinimum"] === true ? exclusiveMinimumCheck : minimumCheck)(validator, rule, value, at, schema),
  ],
  [
    "maximum",
    (validator, rule, value, at, schema) =>
      (schema["exclusiveMaximum"] === true ? exclusiveMaximumCheck : maximumCheck)(validator, rule, value, at, schema),
  ],
  ["exclusiveMinimum", (...args) => exclusiveMinimumCheck(...args)],
  ["exclusiveMaximum", (...args) => exclusiveMaximumCheck(...args)],
  ["multipleOf", limitKeyword(measureNumber, isMultiple, "must be a multiple of #")],
  ["minLength", limitKeyword(countCharacters, atLeast, "must have at least # characters")],
  ["maxLength", limitKeyword(countCharacters, atMost, "must have at most # characters")],
  ["minItems", limitKeyword(countItems, atLeast, "must have at least # items")],
  ["maxItems", limitKeyword(countItems, atMost, "must have at most # items")],
  ["minProperties", limitKeyword(countKeys, atLeast, "must have at least # properties")],
  ["maxProperties", limitKeyword(countKeys, atMost, "must have at most # properties")],
  [
    "pattern",
    (validator, rule, value, at) =>
      typeof rule !== "string" || typeof value !== "string" || validator.matchesPattern(rule, value)
        ? null
        : problemAt(at, `must match the pattern ${rule.slice(0, 200)}`),
  ],
];

/** Decimal fractions are not exact in a double, so 0.1 must count as a multiple of 0.01: allow a small error. */
function isMultiple(found: number, of: number): boolean {
  if (of <= 0) return true;
  const times = found / of;
  return Math.abs(times - Math.round(times)) < 1e-9 * Math.max(1, Math.abs(times));
}
