// The keywords of JSON Schema that are checked, one row each. Messages never contain the value: it may be a secret.

import { isObject, type JsonPath, toJsonPointer } from "../values/binding-path.ts";
import type { SchemaValidator } from "./validator.ts";

export interface SchemaProblem {
  /** JSON pointer into the value; empty: the value itself. */
  readonly path: string;
  /** What it must be: a sentence without its subject. */
  readonly message: string;
  /** The value may match or not: checking it takes more steps than it may. */
  readonly isTooCostly?: true;
}

type SchemaObject = Readonly<Record<string, unknown>>;

export type KeywordCheck = (
  validator: SchemaValidator,
  rule: unknown,
  value: unknown,
  at: JsonPath,
  schema: SchemaObject,
) => SchemaProblem | null;

export const problemAt = (at: JsonPath, message: string): SchemaProblem => ({ path: toJsonPointer(at), message });

const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);

/** The JSON types, as a message calls them, and how they are recognised. */
const jsonTypes: ReadonlyMap<unknown, { readonly phrase: string; test(value: unknown): boolean }> = new Map([
  ["null", { phrase: "null", test: (value: unknown) => value === null }],
  ["boolean", { phrase: "true or false", test: (value: unknown) => typeof value === "boolean" }],
  ["object", { phrase: "an object", test: isObject }],
  ["array", { phrase: "a list", test: isArray }],
  ["number", { phrase: "a number", test: (value: unknown) => typeof value === "number" }],
  ["integer", { phrase: "a whole number", test: Number.isInteger }],
  ["string", { phrase: "a text", test: (value: unknown) => typeof value === "string" }],
]);

/** A keyword that compares one measure of the value with a number. */
const limitKeyword =
  (
    measure: (value: unknown, validator: SchemaValidator) => number | null,
    isWithin: (found: number, limit: number) => boolean,
    message: string,
  ): KeywordCheck =>
  (validator, rule, value, at) => {
    const found = typeof rule === "number" ? measure(value, validator) : null;
    return found === null || isWithin(found, rule as number) ? null : problemAt(at, message.replace("#", String(rule)));
  };

const measureNumber = (value: unknown) => (typeof value === "number" ? value : null);
const countItems = (value: unknown) => (isArray(value) ? value.length : null);
const countKeys = (value: unknown, validator: SchemaValidator) => (isObject(value) ? validator.keysOf(value).length : null);
/** Code points; a pair of surrogates is one of them. */
function countCharacters(value: unknown, validator: SchemaValidator): number | null {
  if (typeof value !== "string") return null;
  validator.spendSteps(value.length / 100);
  let count = value.length;
  for (let at = 0; at < value.length; at += 1) if ((value.codePointAt(at) ?? 0) > 0xffff) count -= 1;
  return count;
}
const atLeast = (found: number, limit: number) => found >= limit;
const atMost = (found: number, limit: number) => found <= limit;

const minimum = limitKeyword(measureNumber, atLeast, "must be at least #");
const maximum = limitKeyword(measureNumber, atMost, "must be at most #");
const exclusiveMinimum = limitKeyword(measureNumber, (found, limit) => found > limit, "must be above #");
const exclusiveMaximum = limitKeyword(measureNumber, (found, limit) => found < limit, "must be below #");

/** Longer lists of allowed values are only counted in the message. */
const enumCharsShown = 200;

/** Keywords about a value by itself: its type, its size, the values it may have. */
const assertions: Readonly<Record<string, KeywordCheck>> = {
  type(validator, rule, value, at, schema) {
    const names = isArray(rule) ? rule : [rule];
    validator.spendSteps(names.length);
    // A name that is not a JSON type restricts nothing.
    const isFitting = names.some((name) => jsonTypes.get(name)?.test(value) ?? true);
    if (isFitting || (value === null && schema["nullable"] === true)) return null;
    const phrases = new Set(names.map((name) => jsonTypes.get(name)?.phrase));
    return problemAt(at, `must be ${[...phrases].join(" or ")}`);
  },
  enum(validator, rule, value, at) {
    if (!isArray(rule)) return null;
    validator.spendSteps(rule.length);
    const text = validator.canonicalTextOf(value);
    let words = "";
    for (const allowed of rule) {
      const allowedText = validator.canonicalTextOf(allowed);
      if (allowedText === text) return null;
      if (words.length <= enumCharsShown) words += `${words === "" ? "" : ", "}${allowedText}`;
    }
    const isLong = words.length > enumCharsShown;
    return problemAt(at, isLong ? `must be one of ${rule.length} values of its schema` : `must be one of ${words}`);
  },
  const(validator, rule, value, at) {
    const text = validator.canonicalTextOf(rule);
    return text === validator.canonicalTextOf(value) ? null : problemAt(at, `must be ${text.slice(0, 200)}`);
  },
  $ref: (validator, rule, value, at) =>
    typeof rule === "string" ? validator.validateAt(validator.resolveRef(rule), value, at) : null,
  // In draft 4 the two exclusive keywords are booleans beside these.
  minimum: (validator, rule, value, at, schema) =>
    (schema["exclusiveMinimum"] === true ? exclusiveMinimum : minimum)(validator, rule, value, at, schema),
  maximum: (validator, rule, value, at, schema) =>
    (schema["exclusiveMaximum"] === true ? exclusiveMaximum : maximum)(validator, rule, value, at, schema),
  exclusiveMinimum,
  exclusiveMaximum,
  multipleOf: limitKeyword(measureNumber, isMultiple, "must be a multiple of #"),
  minLength: limitKeyword(countCharacters, atLeast, "must have at least # characters"),
  maxLength: limitKeyword(countCharacters, atMost, "must have at most # characters"),
  minItems: limitKeyword(countItems, atLeast, "must have at least # items"),
  maxItems: limitKeyword(countItems, atMost, "must have at most # items"),
  minProperties: limitKeyword(countKeys, atLeast, "must have at least # properties"),
  maxProperties: limitKeyword(countKeys, atMost, "must have at most # properties"),
  pattern: (validator, rule, value, at) =>
    typeof rule !== "string" || typeof value !== "string" || validator.matchesPattern(rule, value)
      ? null
      : problemAt(at, `must match the pattern ${rule.slice(0, 200)}`),
};

/** Decimal fractions are not exact in a double, so 0.1 must count as a multiple of 0.01: allow a small error. */
function isMultiple(found: number, of: number): boolean {
  if (of <= 0) return true;
  const times = found / of;
  return Math.abs(times - Math.round(times)) < 1e-9 * Math.max(1, Math.abs(times));
}

/** Keywords that apply other schemas: to properties, to items, or to the value as a whole. */
const applicators: Readonly<Record<string, KeywordCheck>> = {
  required(validator, rule, value, at) {
    if (!isArray(rule) || !isObject(value)) return null;
    validator.spendSteps(rule.length);
    const missing = findMissingKey(validator, rule, value);
    return missing === undefined ? null : problemAt([...at, String(missing)], "is required");
  },
  properties(validator, rule, value, at, schema) {
    if (!isObject(rule) || !isObject(value)) return null;
    // Whichever has fewer keys: authored parameters are checked one at a time against the schema of all.
    const [ruleKeys, valueKeys] = [Object.keys(rule), Object.keys(value)];
    validator.spendSteps(Math.min(ruleKeys.length, valueKeys.length) + Math.max(ruleKeys.length, valueKeys.length) / 4);
    if (valueKeys.length < ruleKeys.length)
      return findFirst(valueKeys, (key) => {
        if (!Object.hasOwn(rule, key) || isOptionalNull(validator, value[key], key, schema)) return null;
        return validator.validateAt(rule[key], value[key], [...at, key]);
      });
    return findFirst(ruleKeys, (key) => {
      const isAbsent = !Object.hasOwn(value, key) || isOptionalNull(validator, value[key], key, schema);
      return isAbsent ? null : validator.validateAt(rule[key], value[key], [...at, key]);
    });
  },
  patternProperties(validator, rule, value, at, schema) {
    if (!isObject(rule) || !isObject(value)) return null;
    return findFirst(validator.keysOf(rule), (pattern) =>
      findFirst(validator.keysOf(value), (key) => {
        if (isOptionalNull(validator, value[key], key, schema) || !validator.matchesPattern(pattern, key)) return null;
        return validator.validateAt(rule[pattern], value[key], [...at, key]);
      }),
    );
  },
  additionalProperties(validator, rule, value, at, { properties, patternProperties }) {
    if (!isObject(value) || rule === true) return null;
    const known = isObject(properties) ? properties : {};
    const patterns = isObject(patternProperties) ? validator.keysOf(patternProperties) : [];
    return findFirst(validator.keysOf(value), (key) => {
      const isKnown = Object.hasOwn(known, key) || value[key] === null;
      if (isKnown || patterns.some((pattern) => validator.matchesPattern(pattern, key))) return null;
      if (rule === false) return problemAt([...at, key], "is not known to the schema");
      return validator.validateAt(rule, value[key], [...at, key]);
    });
  },
  propertyNames: (validator, rule, value, at) =>
    findFirst(isObject(value) ? validator.keysOf(value) : [], (key) =>
      validator.isValid(rule, key) ? null : problemAt([...at, key], "has a name that the schema does not allow"),
    ),
  dependentRequired: validateDependencies,
  dependentSchemas: validateDependencies,
  dependencies: validateDependencies, // draft 7: both of the above
  items(validator, rule, value, at, { prefixItems }) {
    if (!isArray(value)) return null;
    if (isArray(rule)) return validatePrefixItems(validator, rule, value, at); // the older spelling of prefixItems
    return validateRemainingItems(validator, rule, value, isArray(prefixItems) ? prefixItems.length : 0, at);
  },
  prefixItems: (validator, rule, value, at) =>
    isArray(rule) && isArray(value) ? validatePrefixItems(validator, rule, value, at) : null,
  additionalItems: (validator, rule, value, at, { items }) =>
    isArray(value) && isArray(items) ? validateRemainingItems(validator, rule, value, items.length, at) : null,
  uniqueItems(validator, rule, value, at) {
    if (rule !== true || !isArray(value)) return null;
    validator.spendSteps(value.length);
    const texts = new Set(value.map((item) => validator.canonicalTextOf(item)));
    return texts.size === value.length ? null : problemAt(at, "must not have the same item twice");
  },
  contains(validator, rule, value, at, { minContains, maxContains }) {
    if (!isArray(value)) return null;
    const count = value.filter((item) => validator.isValid(rule, item)).length;
    const least = typeof minContains === "number" ? minContains : 1;
    const most = typeof maxContains === "number" ? maxContains : Infinity;
    return count >= least && count <= most ? null : problemAt(at, "does not contain the items its schema requires");
  },
  allOf: (validator, rule, value, at) => findFirst(isArray(rule) ? rule : [], (part) => validator.validateAt(part, value, at)),
  anyOf(validator, rule, value, at) {
    if (!isArray(rule) || rule.length === 0) return null;
    let problem: SchemaProblem | null = null;
    for (const form of rule) {
      problem = validator.validateAt(form, value, at);
      if (problem === null) return null;
    }
    return rule.length === 1 ? problem : problemAt(at, "matches none of the schemas in anyOf");
  },
  oneOf(validator, rule, value, at) {
    if (!isArray(rule) || rule.length === 0) return null;
    const count = rule.filter((form) => validator.isValid(form, value)).length;
    if (count === 1) return null;
    return problemAt(at, `matches ${count === 0 ? "none" : "several"} of the schemas in oneOf; exactly one must match`);
  },
  not: (validator, rule, value, at) => (validator.isValid(rule, value) ? problemAt(at, "matches the schema in not") : null),
  if: (validator, rule, value, at, schema) =>
    validator.validateAt(validator.isValid(rule, value) ? schema["then"] : schema["else"], value, at),
};

export const keywordChecks: ReadonlyMap<string, KeywordCheck> = new Map(Object.entries({ ...assertions, ...applicators }));

/** Null in an optional property counts as absent: many workers write absent values that way. */
function isOptionalNull(validator: SchemaValidator, value: unknown, key: string, { required }: SchemaObject): boolean {
  if (value !== null || !isArray(required)) return value === null;
  validator.spendSteps(required.length / 20);
  return !required.includes(key);
}

const findMissingKey = (validator: SchemaValidator, keys: readonly unknown[], value: object): unknown =>
  keys.find((key) => typeof key === "string" && !Object.hasOwn(value, key) && !validator.mayBeMissing(key));

function findFirst<T>(items: readonly T[], check: (item: T, index: number) => SchemaProblem | null): SchemaProblem | null {
  for (const [index, item] of items.entries()) {
    const problem = check(item, index);
    if (problem !== null) return problem;
  }
  return null;
}

/** What a property demands while it is present: other properties (a list), or a schema for the whole object. */
function validateDependencies(validator: SchemaValidator, rule: unknown, value: unknown, at: JsonPath): SchemaProblem | null {
  if (!isObject(rule) || !isObject(value)) return null;
  return findFirst(validator.keysOf(rule), (key) => {
    const demand = rule[key];
    if (isArray(demand)) validator.spendSteps(demand.length);
    if (!Object.hasOwn(value, key)) return null;
    if (!isArray(demand)) return validator.validateAt(demand, value, at);
    const missing = findMissingKey(validator, demand, value);
    return missing === undefined ? null : problemAt([...at, String(missing)], `is required beside ${key}`);
  });
}

type Items = readonly unknown[];

const validatePrefixItems = (validator: SchemaValidator, rules: Items, value: Items, at: JsonPath): SchemaProblem | null =>
  findFirst(rules.slice(0, value.length), (rule, index) => validator.validateAt(rule, value[index], [...at, index]));

function validateRemainingItems(validator: SchemaValidator, rule: unknown, value: Items, first: number, at: JsonPath) {
  if (rule === true) return null;
  return findFirst(value, (item, index) => (index < first ? null : validator.validateAt(rule, item, [...at, index])));
}
