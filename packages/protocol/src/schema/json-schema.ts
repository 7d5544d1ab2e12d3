// A TypeBox schema as a plain JSON Schema 2020-12 document, with references where a schema has a name.

import type { TSchema } from "typebox";

export type JsonSchemaObject = Record<string, unknown>;

export interface SchemaReferences {
  /** What a name is appended to, such as `#/components/schemas/`. */
  readonly root: string;
  readonly named: ReadonlyMap<TSchema, string>;
  /** The schema being written under its own name, which must not become a reference to itself. */
  readonly self?: TSchema;
}

export function toJsonSchema(schema: TSchema, refs?: SchemaReferences): JsonSchemaObject {
  const name = schema === refs?.self ? undefined : refs?.named.get(schema);
  if (refs && name !== undefined) return { $ref: refs.root + name };
  const node = schema as Record<string, unknown>;
  // A recursive schema is one definition that refers to itself by name; the document's root, or its component, is that name.
  if (typeof node["$ref"] === "string" && typeof node["$defs"] === "object") {
    const definition = (node["$defs"] as Record<string, TSchema>)[node["$ref"]];
    if (definition !== undefined) return printSchemaNode(definition, refs, `${node["$ref"]}`);
  }
  return printSchemaNode(schema, refs);
}

function printSchemaNode(node: unknown, refs: SchemaReferences | undefined, recursive?: string): JsonSchemaObject {
  const plain: JsonSchemaObject = {};
  for (const [key, value] of Object.entries(node as Record<string, unknown>)) {
    if (key === "$id" || key === "published") continue;
    if (key === "$ref") plain["$ref"] = refs ? refs.root + String(value) : value === recursive ? "#" : value;
    else if (key === "properties")
      plain[key] = Object.fromEntries(Object.entries(value as object).map(([name, child]) => [name, printChild(child)]));
    else if (key === "items" || (key === "additionalProperties" && typeof value === "object")) plain[key] = printChild(value);
    else if (key === "anyOf" || key === "allOf") plain[key] = (value as unknown[]).map(printChild);
    else plain[key] = value;
  }
  return { ...plain, ...(node as { readonly published?: JsonSchemaObject }).published };

  function printChild(child: unknown): JsonSchemaObject {
    const name = refs?.named.get(child as TSchema);
    if (refs && name !== undefined && child !== refs.self) return { $ref: refs.root + name };
    const inner = child as Record<string, unknown>;
    if (inner["$defs"]) return toJsonSchema(child as TSchema, refs);
    return printSchemaNode(child, refs, recursive);
  }
}
