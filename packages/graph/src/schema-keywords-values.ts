// Keywords about a value by itself: its type, its size, which values it may be. One row each.
// Values never enter a message: they may be secrets.

import { isObject } from "./path.ts";
import { isList, type Judging, type Keyword, wrong } from "./schema-words.ts";

const articles: Record<string, string> = {
  null: "null",
  boolean: "true or false",
  object: "an object",
  array: "a list",
  number: "a number",
  integer: "a whole number",
  string: "a text",
};

function isOfType(name: unknown, value: unknown): boolean {
  switch (name) {
    case "null":
      return value === null;
    case "object":
      return isObject(value);
    case "array":
      return isList(value);
    case "integer":
      return Number.isInteger(value);
    case "boolean":
    case "number":
    case "string":
      return typeof value === name;
    default:
      return true; // not a type of JSON: says nothing
  }
}

/** A rule about one kind of value that compares with a number. */
const bound =
  (
    measure: (judge: Judging, value: unknown) => number | null,
    isFine: (found: number, limit: number) => boolean,
    say: string,
  ): Keyword =>
  (judge, rule, value, at) => {
    const found = typeof rule === "number" ? measure(judge, value) : null;
    return found === null || isFine(found, rule as number) ? null : wrong(at, say.replace("#", String(rule)));
  };

const numberOf = (_: Judging, value: unknown) => (typeof value === "number" ? value : null);
const itemsIn = (_: Judging, value: unknown) => (isList(value) ? value.length : null);
const keysIn = (_: Judging, value: unknown) => (isObject(value) ? Object.keys(value).length : null);
function charsIn(judge: Judging, value: unknown): number | null {
  if (typeof value !== "string") return null;
  judge.spend(value.length / 100);
  return [...value].length;
}
const atLeast = (found: number, limit: number) => found >= limit;
const atMost = (found: number, limit: number) => found <= limit;

const least = bound(numberOf, atLeast, "must be at least #");
const most = bound(numberOf, atMost, "must be at most #");
const above = bound(numberOf, (found, limit) => found > limit, "must be above #");
const below = bound(numberOf, (found, limit) => found < limit, "must be below #");

export const valueKeywords: readonly (readonly [string, Keyword])[] = [
  [
    "type",
    (_, rule, value, at, schema) => {
      const names = isList(rule) ? rule : [rule];
      if (names.some((name) => isOfType(name, value)) || (value === null && schema["nullable"] === true)) return null;
      return wrong(at, `must be ${names.map((name) => articles[String(name)] ?? String(name)).join(" or ")}`);
    },
  ],
  [
    "enum",
    (judge, rule, value, at) => {
      if (!isList(rule)) return null;
      judge.spend(rule.length);
      const text = judge.text(value);
      if (rule.some((one) => judge.text(one) === text)) return null;
      const words = rule.map((one) => judge.text(one)).join(", ");
      return wrong(at, words.length > 200 ? `must be one of ${rule.length} values of its schema` : `must be one of ${words}`);
    },
  ],
  [
    "const",
    (judge, rule, value, at) =>
      judge.text(rule) === judge.text(value) ? null : wrong(at, `must be ${judge.text(rule).slice(0, 200)}`),
  ],
  ["$ref", (judge, rule, value, at) => (typeof rule === "string" ? judge.visit(judge.follow(rule), value, at) : null)],
  [
    "minimum",
    (judge, rule, value, at, schema) => (schema["exclusiveMinimum"] === true ? above : least)(judge, rule, value, at, schema),
  ],
  [
    "maximum",
    (judge, rule, value, at, schema) => (schema["exclusiveMaximum"] === true ? below : most)(judge, rule, value, at, schema),
  ],
  ["exclusiveMinimum", (...args) => above(...args)],
  ["exclusiveMaximum", (...args) => below(...args)],
  ["multipleOf", bound(numberOf, isMultiple, "must be a multiple of #")],
  ["minLength", bound(charsIn, atLeast, "must have at least # characters")],
  ["maxLength", bound(charsIn, atMost, "must have at most # characters")],
  ["minItems", bound(itemsIn, atLeast, "must have at least # items")],
  ["maxItems", bound(itemsIn, atMost, "must have at most # items")],
  ["minProperties", bound(keysIn, atLeast, "must have at least # properties")],
  ["maxProperties", bound(keysIn, atMost, "must have at most # properties")],
  [
    "pattern",
    (judge, rule, value, at) =>
      typeof rule !== "string" || typeof value !== "string" || judge.matches(rule, value)
        ? null
        : wrong(at, `must match the pattern ${rule.slice(0, 200)}`),
  ],
];

/** Decimal fractions are not exact in a double: a tenth counts as ten hundredths. */
function isMultiple(found: number, of: number): boolean {
  if (of <= 0) return true;
  const times = found / of;
  return Math.abs(times - Math.round(times)) < 1e-9 * Math.max(1, Math.abs(times));
}
