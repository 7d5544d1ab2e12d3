// Finds rules of a schema that validation ignores: unsupported keywords and patterns, references that do not resolve.

import { isObject, type JsonPath, type LocatedProblem } from "../values/binding-path.ts";
import { compilePattern } from "./linear-pattern.ts";
import { resolveLocalRef } from "./schema-lookup.ts";
import type { StepBudget } from "./validator.ts";

const unsupportedKeywords = ["unevaluatedProperties", "unevaluatedItems", "$dynamicRef"] as const;
/** Keywords that hold schemas by name, and those that hold one schema or a list of them. */
const mapKeywords = new Set(["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"]);
const propertyKeywords = ["additionalProperties", "propertyNames"];
const itemKeywords = ["items", "prefixItems", "additionalItems", "contains"];
const wholeValueKeywords = ["not", "if", "then", "else", "allOf", "anyOf", "oneOf"];
const schemaKeywords = [...mapKeywords, ...propertyKeywords, ...itemKeywords, ...wholeValueKeywords];

/** At most ten, and no more than the budget allows. */
export function findIgnoredRules(root: unknown, budget: StepBudget): LocatedProblem[] {
  const found: LocatedProblem[] = [];
  const open: { schema: unknown; at: JsonPath }[] = [{ schema: root, at: [] }];
  for (let next = open.pop(); next !== undefined && found.length < 10; next = open.pop()) {
    const { schema, at } = next;
    budget.stepsLeft -= 1;
    if (budget.stepsLeft < 0) break;
    if (!isObject(schema)) continue;
    found.push(...ignoredRulesIn(root, schema, at));
    for (const key of schemaKeywords) {
      const inner = schema[key];
      if (Array.isArray(inner)) open.push(...inner.map((one, index) => ({ schema: one, at: [...at, key, index] })));
      else if (isObject(inner) && mapKeywords.has(key))
        for (const [name, one] of Object.entries(inner)) open.push({ schema: one, at: [...at, key, name] });
      else if (isObject(inner)) open.push({ schema: inner, at: [...at, key] });
    }
  }
  return found;
}

function ignoredRulesIn(root: unknown, schema: Record<string, unknown>, at: JsonPath): LocatedProblem[] {
  const found: LocatedProblem[] = [];
  const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
  for (const pattern of typeof schema["pattern"] === "string" ? [schema["pattern"], ...patterns] : patterns) {
    const read = compilePattern(pattern);
    if (typeof read === "string") found.push({ at, message: `has a pattern that is ${read} and is ignored` });
  }
  for (const keyword of unsupportedKeywords)
    if (schema[keyword] !== undefined) found.push({ at, message: `uses ${keyword}, which is ignored` });
  const ref = schema["$ref"];
  if (typeof ref === "string" && resolveLocalRef(root, ref) === undefined)
    found.push({ at, message: "has a $ref that does not resolve inside the schema and is ignored" });
  return found;
}
