// Looks things up in a JSON Schema: the target of a reference, the schema of the value at a path, the types it allows.

import { isObject } from "../values/binding-path.ts";
import { isSameJson } from "../values/canonical-json.ts";

/** A longer one would take longer to follow than the whole check; it does not resolve. */
const refCharsMax = 4_096;

/** A reference inside the same document: `#`, `#/$defs/name`. Undefined: it does not resolve in this document. */
export function resolveLocalRef(root: unknown, ref: string): unknown {
  if (ref === "#") return root;
  if (!ref.startsWith("#/") || ref.length > refCharsMax) return undefined;
  let at = root;
  for (const part of ref.slice(2).split("/")) {
    const key = decodeUriOrKeep(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

function decodeUriOrKeep(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not an encoded text: use it as written
  }
}

/** The schema of the value at a path, through properties, items and references. Undefined: unknown. */
export function findSubschema(root: unknown, steps: readonly string[]): unknown {
  let at: unknown = root;
  for (const step of steps) {
    at = followRefs(root, at);
    if (!isObject(at)) return undefined;
    const properties = isObject(at["properties"]) ? at["properties"] : {};
    if (Object.hasOwn(properties, step)) at = properties[step];
    else if (/^\d+$/.test(step) && at["items"] !== undefined && !Array.isArray(at["items"])) at = at["items"];
    else return undefined;
  }
  return followRefs(root, at);
}

function followRefs(root: unknown, schema: unknown): unknown {
  let at = schema;
  for (let hops = 0; hops < 16 && isObject(at) && typeof at["$ref"] === "string"; hops += 1)
    at = resolveLocalRef(root, at["$ref"]);
  return at;
}

const typeNames = ["null", "boolean", "object", "array", "number", "string"] as const;
type TypeName = (typeof typeNames)[number];

/** The JSON types a schema allows, with `integer` as `number`; null: unknown. */
export function allowedTypesOf(root: unknown, schema: unknown, depthLeft = 2): ReadonlySet<TypeName> | null {
  const at = followRefs(root, schema);
  if (!isObject(at) || depthLeft <= 0) return null;
  if (at["type"] !== undefined) {
    const names = (Array.isArray(at["type"]) ? at["type"] : [at["type"]]) as unknown[];
    const types = new Set(names.map((name) => (name === "integer" ? "number" : name)) as TypeName[]);
    if (at["nullable"] === true) types.add("null");
    return [...types].every((name) => typeNames.includes(name)) ? types : null;
  }
  if (Array.isArray(at["enum"])) return enumTypesOf(at["enum"]);
  if (at["const"] !== undefined) return new Set([jsonTypeOf(at["const"])]);
  const forms = at["anyOf"] ?? at["oneOf"];
  if (!Array.isArray(forms) || forms.length === 0 || forms.length > 16) return null;
  const each = forms.map((form) => allowedTypesOf(root, form, depthLeft - 1));
  return each.includes(null) ? null : new Set(each.flatMap((types) => [...(types ?? [])]));
}

/** A long list is looked through once, however many edges lead to its port. */
const enumTypes = new WeakMap<readonly unknown[], ReadonlySet<TypeName>>();

function enumTypesOf(values: readonly unknown[]): ReadonlySet<TypeName> {
  const types = enumTypes.get(values) ?? new Set(values.map(jsonTypeOf));
  enumTypes.set(values, types);
  return types;
}

/** False where the schema names the types of the value at a path, and its own is none of them. */
export function hasAllowedType(root: unknown, steps: readonly string[], value: unknown): boolean {
  const schema = findSubschema(root, steps);
  if (isObject(schema) && schema["type"] === "integer" && typeof value === "number") return Number.isInteger(value);
  return allowedTypesOf(root, schema)?.has(jsonTypeOf(value)) ?? true;
}

/** Whether the value at a path, or one around it, is exactly the default that the schema has for it. */
export function isSchemaDefault(root: unknown, steps: readonly string[], value: unknown): boolean {
  let at = value;
  for (const [index, step] of steps.entries()) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, step)) return false;
    at = (at as Record<string, unknown>)[step];
    const schema = findSubschema(root, steps.slice(0, index + 1));
    const standard = isObject(schema) ? schema["default"] : undefined;
    if (standard !== undefined && isSameJson(standard, at)) return true;
  }
  return false;
}

function jsonTypeOf(value: unknown): TypeName {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : (typeof value as TypeName);
}
