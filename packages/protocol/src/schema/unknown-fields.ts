// Finds the fields of a value that its schema does not know, for documents that keep them: their author is warned.

import { isRecord } from "../json/json-value.ts";
import { didYouMean } from "../text/closest-match.ts";
import type { SchemaNode } from "./schema-violations.ts";

export interface UnknownField {
  readonly path: readonly (string | number)[];
  /** The nearest known name where one is a slip away, as the end of a sentence; or empty. */
  readonly hint: string;
}

type SchemaDefinitions = Readonly<Record<string, SchemaNode>>;

/** In the order of the value, found as far as it is asked for. A field that is null counts as left out. */
export function* findUnknownFields(
  node: SchemaNode,
  value: unknown,
  path: UnknownField["path"] = [],
  defs: SchemaDefinitions = {},
): Generator<UnknownField> {
  if (node.$defs || node.$ref !== undefined) {
    const known = node.$defs ?? defs;
    const target = known[node.$ref ?? ""];
    if (target) yield* findUnknownFields(target, value, path, known);
  } else if (node.properties && isRecord(value)) yield* findInObject(node.properties, node, value, path, defs);
  else if (node.items && Array.isArray(value))
    for (const [index, item] of value.entries()) yield* findUnknownFields(node.items, item, [...path, index], defs);
  else if (isRecord(node.additionalProperties) && isRecord(value))
    for (const [key, item] of Object.entries(value))
      yield* findUnknownFields(node.additionalProperties as SchemaNode, item, [...path, key], defs);
}

function* findInObject(
  properties: Readonly<Record<string, SchemaNode>>,
  { additionalProperties: others }: SchemaNode,
  value: Record<string, unknown>,
  path: UnknownField["path"],
  defs: SchemaDefinitions,
): Generator<UnknownField> {
  const isOpen = others === true || isRecord(others);
  for (const [key, item] of Object.entries(value)) {
    const child = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (child !== undefined) {
      // Only objects and lists have fields of their own.
      if (typeof item === "object" && item !== null) yield* findUnknownFields(child, item, [...path, key], defs);
    } else if (!isOpen && item !== null)
      yield { path: [...path, key], hint: didYouMean(key.slice(0, 100), Object.keys(properties)) };
  }
}
