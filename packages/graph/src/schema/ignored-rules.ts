// What a schema says that is not heeded when values are judged: patterns and references that cannot be followed. Worth a warning to its
// author, no more: the rest of the schema holds.

import { isObject, toJsonPointer } from "../values/binding-path.ts";
import { compilePattern } from "./linear-pattern.ts";
import { resolveLocalRef } from "./schema-lookup.ts";
import type { StepBudget } from "./validator.ts";

export interface IgnoredRule {
  /** JSON pointer into the schema. */
  readonly path: string;
  readonly message: string;
}

const mapKeywords = ["properties", "patternProperties", "$defs", "definitions"] as const;
const singleSchemaKeywords = [
  "items",
  "additionalProperties",
  "additionalItems",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
] as const;
const listKeywords = ["allOf", "anyOf", "oneOf", "prefixItems", "items"] as const;

/** At most ten of them, and no more than the budget lets see. */
export function findIgnoredRules(root: unknown, budget: StepBudget): IgnoredRule[] {
  const found: IgnoredRule[] = [];
  const open: { schema: unknown; at: readonly (string | number)[] }[] = [{ schema: root, at: [] }];
  for (let next = open.pop(); next !== undefined && found.length < 10; next = open.pop()) {
    const { schema, at } = next;
    budget.stepsLeft -= 1;
    if (budget.stepsLeft < 0) break;
    if (!isObject(schema)) continue;
    found.push(...ignoredRulesIn(root, schema, at));
    for (const key of mapKeywords)
      if (isObject(schema[key]))
        for (const [name, inner] of Object.entries(schema[key])) open.push({ schema: inner, at: [...at, key, name] });
    for (const key of singleSchemaKeywords) if (isObject(schema[key])) open.push({ schema: schema[key], at: [...at, key] });
    for (const key of listKeywords) {
      const list = schema[key];
      if (Array.isArray(list)) for (const [index, inner] of list.entries()) open.push({ schema: inner, at: [...at, key, index] });
    }
  }
  return found;
}

function ignoredRulesIn(root: unknown, schema: Record<string, unknown>, at: readonly (string | number)[]): IgnoredRule[] {
  const found: IgnoredRule[] = [];
  const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
  for (const pattern of typeof schema["pattern"] === "string" ? [schema["pattern"], ...patterns] : patterns) {
    const read = compilePattern(pattern);
    if (typeof read === "string")
      found.push({ path: toJsonPointer(at), message: `has a pattern that is ${read} and is not heeded` });
  }
  const ref = schema["$ref"];
  if (typeof ref === "string" && resolveLocalRef(root, ref) === undefined)
    found.push({ path: toJsonPointer(at), message: "has a $ref that leads nowhere in the same schema and is not heeded" });
  return found;
}
