// The types of a node's ports: where a port's binding leads in the node's schemas, and what stands there.

import { parseBindingPath } from "@astraflow/graph";
import type { CatalogPort, JsonValue, ManifestNode, NodePort } from "@astraflow/protocol";

type Schema = Readonly<Record<string, JsonValue>>;

const isSchema = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);

export function portTypesOf(node: ManifestNode): { inputs: CatalogPort[]; outputs: CatalogPort[] } {
  const view = (ports: readonly NodePort[] = []) => ports.map((port) => portTypeOf(node, port));
  return { inputs: view(node.ui?.inputPorts), outputs: view(node.ui?.outputPorts) };
}

function portTypeOf(node: ManifestNode, { key, label, binding }: NodePort): CatalogPort {
  const path = parseBindingPath(binding.path);
  // A binding into another node or graph has its type there, not here.
  const isElsewhere = binding.prefix !== undefined || (binding.scope !== undefined && binding.scope.kind !== "local");
  if (typeof path === "string" || isElsewhere) return { key, label, path: binding.path, type: "any" };
  const found = schemaAt(node.schema[path.root], path.steps);
  return {
    key,
    label,
    path: binding.path,
    type: found === null ? "any" : jsonTypeOf(found.schema),
    ...(found?.isRequired === true && { isRequired: true }),
    ...(found?.schema["default"] !== undefined && { default: found.schema["default"] }),
  };
}

/** The schema at a path below another; null where it does not say. */
function schemaAt(root: unknown, steps: readonly string[]): { schema: Schema; isRequired: boolean } | null {
  if (!isSchema(root)) return null;
  let schema: Schema = root;
  let isRequired = false;
  for (const step of steps) {
    const { properties, items, required } = schema;
    const next =
      isSchema(properties) && Object.hasOwn(properties, step) ? properties[step] : /^[0-9]+$/.test(step) ? items : undefined;
    if (!isSchema(next)) return null;
    isRequired = Array.isArray(required) && required.includes(step);
    schema = next;
  }
  return { schema, isRequired };
}

/** Its JSON types, joined; read from its values where it lists them. */
function jsonTypeOf(schema: Schema): string {
  const { type, enum: values, const: value, anyOf, oneOf } = schema;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return joinTypes(type.map(String));
  if (Array.isArray(values)) return joinTypes(values.map(typeOfValue));
  if (value !== undefined) return typeOfValue(value);
  const forms = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : [];
  const types = forms.slice(0, 32).map((form) => (isSchema(form) && typeof form["type"] === "string" ? form["type"] : "any"));
  return types.includes("any") ? "any" : joinTypes(types);
}

const joinTypes = (types: readonly string[]): string => (types.length === 0 ? "any" : [...new Set(types)].join("|"));

function typeOfValue(value: JsonValue): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
