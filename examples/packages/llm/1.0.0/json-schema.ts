// Compares an answer with the part of JSON Schema that model servers accept for structured answers. A schema that uses more is refused before
// anything is asked, because nobody would notice that a part of it is not checked.

type Schema = Readonly<Record<string, unknown>>;

const annotations = ["title", "description", "default", "examples", "format", "$schema", "$id", "$comment"];
const known = new Set([
  ...["type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "allOf"],
  ...["minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  ...annotations,
]);
const depthMax = 32;

/** Null, or what is not supported, with where. */
export function checkSchema(schema: unknown, at = "schema", depth = 0): string | null {
  if (typeof schema === "boolean") return null;
  if (!isObject(schema)) return `${at} must be an object`;
  if (depth > depthMax) return `${at} is nested deeper than ${depthMax}`;
  const unknown = Object.keys(schema).find((key) => !known.has(key));
  if (unknown !== undefined) return `${at}.${unknown} is not supported`;
  if (typeof schema["pattern"] === "string" && compilePattern(schema["pattern"]) === null)
    return `${at}.pattern is no regular expression`;
  for (const [name, part] of subschemas(schema)) {
    const problem = checkSchema(part, `${at}.${name}`, depth + 1);
    if (problem !== null) return problem;
  }
  return null;
}

function* subschemas(schema: Schema): Generator<readonly [string, unknown]> {
  const { properties, items, additionalProperties } = schema;
  if (isObject(properties)) for (const [key, part] of Object.entries(properties)) yield [`properties.${key}`, part];
  if (items !== undefined) yield ["items", items];
  if (additionalProperties !== undefined) yield ["additionalProperties", additionalProperties];
  for (const key of ["anyOf", "allOf"])
    for (const [index, part] of listOf(schema[key]).entries()) yield [`${key}[${index}]`, part];
}

/** Null, or the first difference between the value and the schema, with where. */
export function findMismatch(schema: unknown, value: unknown, at = "the answer"): string | null {
  if (schema === true || !isObject(schema)) return schema === false ? `${at} is not allowed` : null;
  const types = listOf(schema["type"]);
  if (types.length > 0 && !types.some((type) => hasType(value, type))) return `${at} must be ${types.join(" or ")}`;
  if (Array.isArray(schema["enum"]) && !schema["enum"].some((one) => isEqual(one, value)))
    return `${at} must be one of ${JSON.stringify(schema["enum"])}`;
  if (schema["const"] !== undefined && !isEqual(schema["const"], value))
    return `${at} must be ${JSON.stringify(schema["const"])}`;
  return (
    findSizeMismatch(schema, value, at) ??
    (Array.isArray(value)
      ? firstProblem(value, (item, index) => findMismatch(schema["items"] ?? true, item, `${at}[${index}]`))
      : null) ??
    (isObject(value) ? findFieldMismatch(schema, value, at) : null) ??
    firstProblem(listOf(schema["allOf"]), (part) => findMismatch(part, value, at)) ??
    findAnyMismatch(listOf(schema["anyOf"]), value, at)
  );
}

function findAnyMismatch(parts: readonly unknown[], value: unknown, at: string): string | null {
  if (parts.length === 0 || parts.some((part) => findMismatch(part, value, at) === null)) return null;
  return `${at} matches none of the ${parts.length} schemas of anyOf`;
}

function findFieldMismatch(schema: Schema, value: Schema, at: string): string | null {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const missing = listOf(schema["required"]).find((key) => !Object.hasOwn(value, String(key)));
  if (missing !== undefined) return `${at} must have ${String(missing)}`;
  return firstProblem(Object.entries(value), ([key, one]) => {
    const part = Object.hasOwn(properties, key) ? properties[key] : (schema["additionalProperties"] ?? true);
    return findMismatch(part, one, `${at}.${key}`);
  });
}

function findSizeMismatch(schema: Schema, value: unknown, at: string): string | null {
  if (typeof value === "number")
    return (
      outside(schema, "minimum", (limit) => value < limit, `${at} must be at least`) ??
      outside(schema, "maximum", (limit) => value > limit, `${at} must be at most`) ??
      outside(schema, "exclusiveMinimum", (limit) => value <= limit, `${at} must be above`) ??
      outside(schema, "exclusiveMaximum", (limit) => value >= limit, `${at} must be below`)
    );
  const isText = typeof value === "string";
  if (!isText && !Array.isArray(value)) return null;
  const [length, unit, what] = isText ? [[...value].length, "Length", "characters"] : [value.length, "Items", "items"];
  const pattern = isText && typeof schema["pattern"] === "string" ? compilePattern(schema["pattern"]) : null;
  return (
    outside(schema, `min${unit}`, (limit) => length < limit, `${at} has too few ${what}, it needs`) ??
    outside(schema, `max${unit}`, (limit) => length > limit, `${at} has too many ${what}, it may have`) ??
    (pattern !== null && !pattern.test(value as string) ? `${at} must match ${String(schema["pattern"])}` : null)
  );
}

function outside(schema: Schema, key: string, isOutside: (limit: number) => boolean, message: string): string | null {
  const limit = schema[key];
  return typeof limit === "number" && isOutside(limit) ? `${message} ${limit}` : null;
}

function firstProblem<T>(items: readonly T[], find: (item: T, index: number) => string | null): string | null {
  for (const [index, item] of items.entries()) {
    const problem = find(item, index);
    if (problem !== null) return problem;
  }
  return null;
}

function compilePattern(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern, "u");
  } catch (cause) {
    if (cause instanceof SyntaxError) return null;
    throw cause;
  }
}

function hasType(value: unknown, type: unknown): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  return type === "object" ? isObject(value) : typeof value === type;
}

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const isObject = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);

const listOf = (value: unknown): readonly unknown[] => (value === undefined ? [] : Array.isArray(value) ? value : [value]);
