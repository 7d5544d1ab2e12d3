// Why a value does not have a schema's shape: the first field that is wrong and what was expected there.
// Ours rather than the validator's own report, which tests every pattern on every value to the end: on hostile input that took
// hundreds of milliseconds and once the whole stack. This one stops at the first fault and measures before it matches.

import Format from "typebox/format";

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

export interface Wrong {
  readonly path: readonly string[];
  readonly expected: string;
}

type Defs = Readonly<Record<string, SchemaNode>>;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The first thing that is wrong, or undefined if nothing is. */
export function findWrong(node: SchemaNode, value: unknown, path: readonly string[] = [], defs: Defs = {}): Wrong | undefined {
  if (node.$defs || node.$ref !== undefined) {
    const known = node.$defs ?? defs;
    const target = known[node.$ref ?? ""];
    return target && findWrong(target, value, path, known);
  }
  if (node.anyOf) return wrongInUnion(node.anyOf, value, path, defs);
  const expected =
    node.const !== undefined ? wrongWord([node.const], value) : node.enum ? wrongWord(node.enum, value) : undefined;
  if (expected) return { path, expected };
  switch (node.type) {
    case "object":
      return isRecord(value) ? wrongInObject(node, value, path, defs) : { path, expected: "must be an object" };
    case "array":
      return Array.isArray(value) ? wrongInArray(node, value, path, defs) : { path, expected: "must be a list" };
    case "string":
      return wrongIf(path, typeof value === "string" ? wrongString(node, value) : "must be a string");
    case "integer":
    case "number":
      return wrongIf(path, wrongNumber(node, value));
    case "boolean":
      return wrongIf(path, typeof value === "boolean" ? undefined : "must be true or false");
    case "null":
      return wrongIf(path, value === null ? undefined : "must be null");
    default:
      return undefined;
  }
}

const wrongIf = (path: readonly string[], expected: string | undefined) =>
  expected === undefined ? undefined : { path, expected };

function wrongWord(words: readonly unknown[], value: unknown): string | undefined {
  if (words.includes(value)) return undefined;
  return words.length > 12 ? "must be one of the words known there" : `must be one of ${words.map(String).join(", ")}`;
}

function wrongInObject(node: SchemaNode, value: Record<string, unknown>, path: readonly string[], defs: Defs): Wrong | undefined {
  const missing = node.required?.filter((key) => !Object.hasOwn(value, key)) ?? [];
  if (missing.length > 0) return { path, expected: `must have ${missing.join(", ")}` };
  const properties = node.properties ?? {};
  for (const [key, child] of Object.entries(properties)) {
    const wrong = Object.hasOwn(value, key) ? findWrong(child, value[key], [...path, key], defs) : undefined;
    if (wrong) return wrong;
  }
  const others = node.additionalProperties;
  if (others === undefined || others === true) return undefined;
  for (const key of Object.keys(value)) {
    if (Object.hasOwn(properties, key)) continue;
    if (others === false) return { path, expected: `must not have ${printable(key)}` };
    const wrong = findWrong(others, value[key], [...path, key], defs);
    if (wrong) return wrong;
  }
  return undefined;
}

function wrongInArray(node: SchemaNode, value: readonly unknown[], path: readonly string[], defs: Defs): Wrong | undefined {
  if (node.minItems !== undefined && value.length < node.minItems)
    return { path, expected: `must have at least ${node.minItems} items` };
  if (node.maxItems !== undefined && value.length > node.maxItems)
    return { path, expected: `must have at most ${node.maxItems} items` };
  for (const [index, item] of node.items ? value.entries() : []) {
    const wrong = findWrong(node.items as SchemaNode, item, [...path, String(index)], defs);
    if (wrong) return wrong;
  }
  return undefined;
}

function wrongString(node: SchemaNode, value: string): string | undefined {
  if (node.minLength !== undefined && value.length < node.minLength) return "must not be empty";
  // Characters are at most as many as UTF-16 units and at least half as many; the patterns below never see more than that.
  if (node.maxLength !== undefined && value.length > 2 * node.maxLength) return `must have at most ${node.maxLength} characters`;
  if (node.maxLength !== undefined && value.length > node.maxLength && [...value].length > node.maxLength)
    return `must have at most ${node.maxLength} characters`;
  if (node.format !== undefined && !Format.Test(node.format, value)) return `must be a ${node.format}`;
  if (node.pattern !== undefined && !new RegExp(node.pattern, "u").test(value)) return `must match ${node.pattern}`;
  return undefined;
}

function wrongNumber(node: SchemaNode, value: unknown): string | undefined {
  if (typeof value !== "number" || !Number.isFinite(value))
    return node.type === "integer" ? "must be a whole number" : "must be a number";
  if (node.type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (node.minimum !== undefined && value < node.minimum) return `must be at least ${node.minimum}`;
  if (node.maximum !== undefined && value > node.maximum) return `must be at most ${node.maximum}`;
  return undefined;
}

/** Of the forms a value may have, the one that was meant is probably the one that goes wrong deepest inside. */
function wrongInUnion(forms: readonly SchemaNode[], value: unknown, path: readonly string[], defs: Defs): Wrong | undefined {
  let deepest: Wrong | undefined;
  const said = new Set<string>();
  for (const form of forms) {
    const wrong = findWrong(form, value, path, defs);
    if (wrong === undefined) return undefined;
    if (wrong.path.length === path.length) said.add(wrong.expected);
    if (deepest === undefined || wrong.path.length > deepest.path.length) deepest = wrong;
  }
  if (deepest === undefined || deepest.path.length > path.length) return deepest;
  return { path, expected: [...said].slice(0, 4).join(", or ") };
}

/** Keys come from the peer, so a word may hold anything; nothing of it may break a log line. */
export function printable(word: string): string {
  return JSON.stringify(word.slice(0, 100)).slice(1, -1);
}
