// The ports and widgets of a node and their bindings, as manifests and workflows share them.

import Type, { type Static } from "typebox";
import { anyJson, idString, listOf, nameString, oneOf, openObject, optional, textString } from "../schema/field-types.ts";

const PortBindingSchema = Type.Object({
  path: Type.String({
    minLength: 1,
    maxLength: 1_024,
    description: "JSON pointer or dotted path that begins with parameters or results.",
  }),
  mode: optional(oneOf(["read", "write", "two_way"])),
  prefix: optional(Type.String({ maxLength: 1_024, description: "@alias.alias.#node or #node." })),
  scope: optional(
    Type.Object({
      kind: oneOf(["local", "subgraph"]),
      subgraphAliases: optional(listOf(nameString(), 64)),
      nodeId: optional(idString()),
      prefix: optional(Type.String({ maxLength: 1_024 })),
    }),
  ),
});
export type PortBinding = Static<typeof PortBindingSchema>;

const NodePortSchema = Type.Object({
  key: idString(),
  label: nameString(),
  binding: PortBindingSchema,
  description: optional(textString()),
});
export type NodePort = Static<typeof NodePortSchema>;

const NodeWidgetSchema = Type.Object({
  key: idString(),
  label: nameString(),
  component: nameString(),
  binding: PortBindingSchema,
  options: optional(openObject("Belongs to the component.")),
  description: optional(textString()),
});
export type NodeWidget = Static<typeof NodeWidgetSchema>;

export const NodeUiSchema = Type.Object({
  inputPorts: optional(listOf(NodePortSchema, 1_000)),
  outputPorts: optional(listOf(NodePortSchema, 1_000)),
  widgets: optional(listOf(NodeWidgetSchema, 1_000)),
});
export type NodeUi = Static<typeof NodeUiSchema>;

/** JSON Schemas of a node's parameters and results; each may also be `true` or `false`. */
export const NodeSchemasSchema = Type.Object({ parameters: optional(anyJson()), results: optional(anyJson()) });

export const nodeRoles = ["node", "container", "middleware"] as const;
export const nodeStatuses = ["draft", "published", "deprecated"] as const;
