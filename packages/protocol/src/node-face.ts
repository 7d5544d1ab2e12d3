// How a node looks: ports, widgets and their bindings, in the one form that manifests and workflows share.
// What a binding's path means while a run is under way belongs to the graph room.

import Type, { type Static } from "typebox";
import { bag, id, json, list, name, oneOf, optional, text } from "./words.ts";

const BindingSchema = Type.Object({
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
      subgraphAliases: optional(list(name(), 64)),
      nodeId: optional(id()),
      prefix: optional(Type.String({ maxLength: 1_024 })),
    }),
  ),
});
export type Binding = Static<typeof BindingSchema>;

const PortSchema = Type.Object({ key: id(), label: name(), binding: BindingSchema, description: optional(text()) });
export type Port = Static<typeof PortSchema>;

const WidgetSchema = Type.Object({
  key: id(),
  label: name(),
  component: name(),
  binding: BindingSchema,
  options: optional(bag("Belongs to the component.")),
  description: optional(text()),
});
export type Widget = Static<typeof WidgetSchema>;

export const NodeUiSchema = Type.Object({
  inputPorts: optional(list(PortSchema, 1_000)),
  outputPorts: optional(list(PortSchema, 1_000)),
  widgets: optional(list(WidgetSchema, 1_000)),
});
export type NodeUi = Static<typeof NodeUiSchema>;

/** JSON Schemas of a node's parameters and results; each may also be `true` or `false`. */
export const NodeSchemasSchema = Type.Object({ parameters: optional(json()), results: optional(json()) });

export const roles = ["node", "container", "middleware"] as const;
export const nodeStatuses = ["draft", "published", "deprecated"] as const;
