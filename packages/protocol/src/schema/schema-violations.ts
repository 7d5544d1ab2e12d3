// Explains why a value does not match a schema: which fields are wrong and what was expected.
// The validator's own report tests every pattern on every value: hostile input made it take hundreds of milliseconds and once overflow
// the stack. This one stops when its caller has seen enough, and checks lengths before patterns.

import Format from "typebox/format";
import { isRecord } from "../json/json-value.ts";
import { didYouMean } from "../text/closest-match.ts";

/** What of JSON Schema our own schemas use. */
export interface SchemaNode {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | SchemaNode;
  readonly items?: SchemaNode;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly SchemaNode[];
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, SchemaNode>>;
}

export interface SchemaViolation {
  readonly path: readonly string[];
  readonly expected: string;
  /** Of a text that is too short: how many characters it must have. */
  readonly minLength?: number;
  /** Of an object that lacks fields: which, and which it may have. */
  readonly missing?: { readonly fields: readonly string[]; readonly known: Readonly<Record<string, unknown>> };
}

type SchemaDefinitions = Readonly<Record<string, SchemaNode>>;

/** The first thing that is wrong, or undefined if nothing is. */
export function findFirstViolation(
  node: SchemaNode,
  value: unknown,
  path: readonly string[] = [],
  defs: SchemaDefinitions = {},
): SchemaViolation | undefined {
  for (const violation of findViolations(node, value, path, defs)) return violation;
  return undefined;
}

/** What is wrong, in the order of the schema, found as far as it is asked for. */
export function* findViolations(
  node: SchemaNode,
  value: unknown,
  path: readonly string[] = [],
  defs: SchemaDefinitions = {},
): Generator<SchemaViolation> {
  if (node.$defs || node.$ref !== undefined) {
    const known = node.$defs ?? defs;
    const target = known[node.$ref ?? ""];
    if (target) yield* findViolations(target, value, path, known);
  } else if (node.anyOf) {
    const violation = findUnionViolation(node.anyOf, value, path, defs);
    if (violation) yield violation;
  } else if (node.type === "object" && isRecord(value)) yield* findObjectViolations(node, value, path, defs);
  else if (node.type === "array" && Array.isArray(value)) yield* findArrayViolations(node, value, path, defs);
  else {
    const expected = describeConstOrEnumViolation(node, value) ?? describePrimitiveViolation(node, value);
    if (expected !== undefined) yield { path, expected, ...(isTooShort(node, value) && { minLength: node.minLength as number }) };
  }
}

const describeConstOrEnumViolation = (node: SchemaNode, value: unknown): string | undefined =>
  node.const !== undefined
    ? describeAllowedValuesViolation([node.const], value)
    : node.enum
      ? describeAllowedValuesViolation(node.enum, value)
      : undefined;

function describePrimitiveViolation(node: SchemaNode, value: unknown): string | undefined {
  switch (node.type) {
    case "object":
      return "must be an object";
    case "array":
      return "must be a list";
    case "string":
      return typeof value === "string" ? describeStringViolation(node, value) : "must be a string";
    case "integer":
    case "number":
      return describeNumberViolation(node, value);
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "null":
      return value === null ? undefined : "must be null";
    default:
      return undefined;
  }
}

function describeAllowedValuesViolation(allowed: readonly unknown[], value: unknown): string | undefined {
  if (allowed.includes(value)) return undefined;
  return allowed.length > 12 ? "must be one of the allowed values" : `must be one of ${allowed.map(String).join(", ")}`;
}

type ObjectValue = Record<string, unknown>;
function* findObjectViolations(
  node: SchemaNode,
  value: ObjectValue,
  path: readonly string[],
  defs: SchemaDefinitions,
): Generator<SchemaViolation> {
  const missing = node.required?.filter((key) => !Object.hasOwn(value, key)) ?? [];
  const properties = node.properties ?? {};
  if (missing.length > 0)
    yield { path, expected: `must have ${missing.join(", ")}`, missing: { fields: missing, known: properties } };
  for (const [key, child] of Object.entries(properties))
    if (Object.hasOwn(value, key)) yield* findViolations(child, value[key], [...path, key], defs);
  const others = node.additionalProperties;
  if (others === undefined || others === true) return;
  for (const key of Object.keys(value)) {
    if (Object.hasOwn(properties, key)) continue;
    if (others === false) yield { path: [...path, key], expected: `is not a known field${suggestField(key, properties)}` };
    else yield* findViolations(others, value[key], [...path, key], defs);
  }
}

/** Keys come from strangers: only the beginning of a long one is compared. */
const suggestField = (key: string, known: object): string => didYouMean(key.slice(0, 100), Object.keys(known));

function* findArrayViolations(
  node: SchemaNode,
  value: readonly unknown[],
  path: readonly string[],
  defs: SchemaDefinitions,
): Generator<SchemaViolation, void> {
  if (node.minItems !== undefined && value.length < node.minItems)
    yield { path, expected: `must have at least ${node.minItems} items` };
  // A list that is too long is not searched.
  if (node.maxItems !== undefined && value.length > node.maxItems)
    return yield { path, expected: `must have at most ${node.maxItems} items` };
  for (const [index, item] of node.items ? value.entries() : [])
    yield* findViolations(node.items as SchemaNode, item, [...path, String(index)], defs);
}

/** Counted in characters, of which each has one or two UTF-16 units. */
const isTooShort = ({ minLength = 0 }: SchemaNode, value: unknown): boolean =>
  typeof value === "string" && value.length < 2 * minLength && [...value].length < minLength;

function describeStringViolation(node: SchemaNode, value: string): string | undefined {
  if (isTooShort(node, value))
    return value === "" ? "must not be empty" : `is too short: it must have at least ${node.minLength} characters`;
  // Characters are at most as many as UTF-16 units and at least half as many; the patterns below never see more than that.
  if (node.maxLength !== undefined && value.length > 2 * node.maxLength) return `must have at most ${node.maxLength} characters`;
  if (node.maxLength !== undefined && value.length > node.maxLength && [...value].length > node.maxLength)
    return `must have at most ${node.maxLength} characters`;
  if (node.format !== undefined && !Format.Test(node.format, value)) return `must be a ${node.format}`;
  if (node.pattern !== undefined && !new RegExp(node.pattern, "u").test(value)) return `must match ${node.pattern}`;
  return undefined;
}

function describeNumberViolation(node: SchemaNode, value: unknown): string | undefined {
  if (typeof value !== "number" || !Number.isFinite(value))
    return node.type === "integer" ? "must be a whole number" : "must be a number";
  if (node.type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (node.minimum !== undefined && value < node.minimum) return `must be at least ${node.minimum}`;
  if (node.maximum !== undefined && value > node.maximum) return `must be at most ${node.maximum}`;
  return undefined;
}

/** Of the forms a value may have, the one that was meant is probably the one that goes wrong deepest inside. */
function findUnionViolation(
  forms: readonly SchemaNode[],
  value: unknown,
  path: readonly string[],
  defs: SchemaDefinitions,
): SchemaViolation | undefined {
  let deepest: SchemaViolation | undefined;
  let missing: SchemaViolation["missing"];
  const expectations = new Set<string>();
  for (const form of forms) {
    const violation = findFirstViolation(form, value, path, defs);
    if (violation === undefined) return undefined;
    if (violation.path.length === path.length) {
      expectations.add(violation.expected);
      missing ??= violation.missing;
    }
    if (deepest === undefined || violation.path.length > deepest.path.length) deepest = violation;
  }
  if (deepest === undefined || deepest.path.length > path.length) return deepest;
  return { path, expected: [...expectations].slice(0, 4).join(", or "), ...(missing && { missing }) };
}

/** Keys come from the peer: escape them so that they cannot break a log line. */
export function escapeForMessage(text: string): string {
  return JSON.stringify(text.slice(0, 100)).slice(1, -1);
}
