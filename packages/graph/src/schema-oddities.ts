// What a schema says that is not heeded when values are judged: patterns and references that cannot be followed. Worth a warning to its
// author, no more: the rest of the schema holds.

import { isObject, pointerOf } from "./path.ts";
import { readPattern } from "./pattern.ts";
import type { Budget } from "./schema-judge.ts";
import { atPointer } from "./schema-parts.ts";

export interface Oddity {
  /** JSON pointer into the schema. */
  readonly path: string;
  readonly message: string;
}

const inMaps = ["properties", "patternProperties", "$defs", "definitions"] as const;
const inPlace = [
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
const inLists = ["allOf", "anyOf", "oneOf", "prefixItems", "items"] as const;

/** At most ten of them, and no more than the budget lets see. */
export function odditiesOf(root: unknown, budget: Budget): Oddity[] {
  const found: Oddity[] = [];
  const open: { schema: unknown; at: readonly (string | number)[] }[] = [{ schema: root, at: [] }];
  for (let next = open.pop(); next !== undefined && found.length < 10; next = open.pop()) {
    const { schema, at } = next;
    budget.stepsLeft -= 1;
    if (budget.stepsLeft < 0) break;
    if (!isObject(schema)) continue;
    found.push(...ownOddities(root, schema, at));
    for (const key of inMaps)
      if (isObject(schema[key]))
        for (const [name, inner] of Object.entries(schema[key])) open.push({ schema: inner, at: [...at, key, name] });
    for (const key of inPlace) if (isObject(schema[key])) open.push({ schema: schema[key], at: [...at, key] });
    for (const key of inLists) {
      const list = schema[key];
      if (Array.isArray(list)) for (const [index, inner] of list.entries()) open.push({ schema: inner, at: [...at, key, index] });
    }
  }
  return found;
}

function ownOddities(root: unknown, schema: Record<string, unknown>, at: readonly (string | number)[]): Oddity[] {
  const found: Oddity[] = [];
  const patterns = isObject(schema["patternProperties"]) ? Object.keys(schema["patternProperties"]) : [];
  for (const pattern of typeof schema["pattern"] === "string" ? [schema["pattern"], ...patterns] : patterns) {
    const read = readPattern(pattern);
    if (typeof read === "string") found.push({ path: pointerOf(at), message: `has a pattern that is ${read} and is not heeded` });
  }
  const ref = schema["$ref"];
  if (typeof ref === "string" && atPointer(root, ref) === undefined)
    found.push({ path: pointerOf(at), message: "has a $ref that leads nowhere in the same schema and is not heeded" });
  return found;
}
