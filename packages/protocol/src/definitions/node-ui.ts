// The ports and widgets of a node and their bindings, as manifests and workflows share them.

import type { Static } from "typebox";
import * as t from "../schema/field-types.ts";

const PortBindingSchema = t.object({
  path: t.string({
    minLength: 1,
    maxLength: 1_024,
    description: "JSON pointer or dotted path that begins with parameters or results.",
  }),
  mode: t.optional(t.oneOf(["read", "write", "two_way"])),
  prefix: t.optional(t.string({ maxLength: 1_024, description: "@alias.alias.#node or #node." })),
  scope: t.optionalObject({
    kind: t.oneOf(["local", "subgraph"]),
    subgraphAliases: t.optional(t.list(t.name(), 64)),
    nodeId: t.optional(t.id()),
    prefix: t.optional(t.string({ maxLength: 1_024 })),
  }),
});
export type PortBinding = Static<typeof PortBindingSchema>;

const NodePortSchema = t.object({ key: t.id(), label: t.name(), binding: PortBindingSchema, description: t.optional(t.text()) });
export type NodePort = Static<typeof NodePortSchema>;

const NodeWidgetSchema = t.object({
  key: t.id(),
  label: t.name(),
  component: t.name(),
  binding: PortBindingSchema,
  options: t.optional(t.openObject("Belongs to the component.")),
  description: t.optional(t.text()),
});
export type NodeWidget = Static<typeof NodeWidgetSchema>;

export const NodeUiSchema = t.object({
  inputPorts: t.optional(t.list(NodePortSchema, 1_000)),
  outputPorts: t.optional(t.list(NodePortSchema, 1_000)),
  widgets: t.optional(t.list(NodeWidgetSchema, 1_000)),
});
export type NodeUi = Static<typeof NodeUiSchema>;

/** JSON Schemas of a node's parameters and results; each may also be `true` or `false`. */
export const NodeSchemasSchema = t.object({ parameters: t.optional(t.anyJson()), results: t.optional(t.anyJson()) });

export const nodeRoles = ["node", "container", "middleware"] as const;
export const nodeStatuses = ["draft", "published", "deprecated"] as const;

/** What becomes of a value that does not match the schema of its node: it is reported, or the task fails. */
export const schemaModes = ["warn", "enforce"] as const;
export type SchemaMode = (typeof schemaModes)[number];
