// JSON Schema as TypeScript types: the words that our own schemas use, and no others. Which types a package gets is for whoever asks.

export interface SchemaNode {
  readonly $ref?: string;
  readonly type?: string;
  readonly title?: string;
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly SchemaNode[];
  readonly allOf?: readonly SchemaNode[];
  readonly items?: SchemaNode;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | SchemaNode;
}

/** The name of a type for the last part of a reference. */
export type TypeNameOf = (ref: string) => string;

/** A declaration that says what the schema says. */
export function declareType(name: string, schema: SchemaNode, nameOf: TypeNameOf): string {
  const type = typeOf(schema, nameOf);
  return `${docComment(schema.description, "")}export type ${name} = ${type};\n`;
}

export function typeOf(schema: SchemaNode, nameOf: TypeNameOf, indent = ""): string {
  const inner = (node: SchemaNode): string => typeOf(node, nameOf, indent);
  if (schema.$ref !== undefined) return nameOf(schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map((word) => JSON.stringify(word)));
  if (schema.anyOf !== undefined) return union(schema.anyOf.map(inner));
  if (schema.allOf !== undefined) return schema.allOf.map(inner).join(" & ");
  switch (schema.type) {
    case "object":
      return objectOf(schema, nameOf, indent);
    case "array":
      return `Array<${inner(schema.items ?? {})}>`;
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case undefined:
      return "JsonValue";
    default:
      throw new Error(`no TypeScript is known for the type ${schema.type}`);
  }
}

function objectOf(schema: SchemaNode, nameOf: TypeNameOf, indent: string): string {
  const { properties, additionalProperties: others, required = [] } = schema;
  if (properties === undefined)
    return typeof others === "object" ? `Record<string, ${typeOf(others, nameOf, indent)}>` : "JsonObject";
  const deeper = `${indent}  `;
  const lines = Object.entries(properties).map(([key, child]) => {
    const mark = required.includes(key) ? "" : "?";
    return `${docComment(child.description, deeper)}${deeper}${propertyKey(key)}${mark}: ${typeOf(child, nameOf, deeper)};\n`;
  });
  return lines.length === 0 ? "Record<never, never>" : `{\n${lines.join("")}${indent}}`;
}

const union = (members: readonly string[]): string => {
  const different = [...new Set(members)];
  return different.length === 1 ? (different[0] ?? "never") : `(${different.join(" | ")})`;
};

/** A key as it stands in a type: quoted only where it must be. */
export const propertyKey = (key: string): string => (/^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key));

export const docComment = (text: string | undefined, indent: string): string =>
  text === undefined ? "" : `${indent}/** ${text.replaceAll("*/", "* /").replaceAll("\n", " ")} */\n`;
