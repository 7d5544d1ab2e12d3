// Compares a parameter of a path or a query, which is always text, with the schema that the route table declares for it.

import type { TSchema } from "typebox";
import { findFirstViolation, type SchemaNode } from "./schema-violations.ts";

/** What was expected instead; undefined if the text is a value of the schema. */
export function findParameterViolation(schema: TSchema, text: string): string | undefined {
  const node = schema as SchemaNode;
  return findFirstViolation(node, toTypedValue(node, text))?.expected;
}

/** Text that is no number or flag stays text, which the schema then refuses. */
function toTypedValue({ type }: SchemaNode, text: string): unknown {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (type === "integer" && /^-?[0-9]{1,16}$/.test(text)) return Number(text);
  if (type === "number" && /^-?[0-9]{1,16}([.][0-9]{1,32})?([eE][+-]?[0-9]{1,3})?$/.test(text)) return Number(text);
  return text;
}
