// The edits of a draft as a client sends them, for the document. The graph package reads them, field by field, and names the wrong one.

import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";

const editId = { type: "string", minLength: 1, maxLength: limits.idCharsMax };
const place = { type: "integer", minimum: 0 };
const pointer = {
  type: "string",
  maxLength: limits.idCharsMax,
  // No step may be __proto__.
  pattern: "^(/(?!__proto__(/|$))[^/]*)+$",
  description: "JSON pointer into the thing that is changed.",
};
const item = { type: "object", required: ["id"], properties: { id: editId } };
const edgeEnd = { type: "object", required: ["node", "port"], properties: { node: editId, port: editId } };
const edge = {
  type: "object",
  required: ["id", "source", "target"],
  properties: { id: editId, source: edgeEnd, target: edgeEnd },
};
const graphValue = {
  type: "object",
  required: ["nodes", "edges"],
  properties: { nodes: { type: "array", items: item }, edges: { type: "array", items: item } },
};
const subgraph = { type: "object", required: ["id", "definition"], properties: { id: editId, definition: graphValue } };
const ids = { type: "array", items: editId, maxItems: limits.workflowEdgesMax };
const inGraph = { graph: { ...editId, description: "Id of the subgraph; absent: the workflow itself." } };
const value = { value: { description: "Absent: the field is removed." } };

const formOf = (op: string, required: object, optional: object = {}) => ({
  type: "object",
  required: ["op", ...Object.keys(required)],
  properties: { op: { const: op }, ...required, ...optional },
  additionalProperties: false,
});
const listOf = (...lists: string[]) => ({ list: { enum: lists } });

/** One form for each `op`; of `order` and `emptyList` one for each kind of list. */
const editForms = [
  formOf("addNode", { node: item }, { ...inGraph, at: place }),
  formOf("removeNode", { id: editId }, inGraph),
  formOf("setNode", { id: editId, path: pointer }, { ...inGraph, ...value }),
  formOf("addMiddleware", { host: editId, middleware: item }, { ...inGraph, at: place }),
  formOf("removeMiddleware", { host: editId, id: editId }, inGraph),
  formOf("setMiddleware", { host: editId, id: editId, path: pointer }, { ...inGraph, ...value }),
  formOf("addEdge", { edge }, { ...inGraph, at: place }),
  formOf("removeEdge", { id: editId }, inGraph),
  formOf("order", { ...listOf("nodes", "edges"), ids }, inGraph),
  formOf("order", { ...listOf("middlewares"), ids, host: editId }, inGraph),
  formOf("order", { ...listOf("subgraphs"), ids }),
  formOf("emptyList", { ...listOf("middlewares"), isWritten: { type: "boolean" }, host: editId }, inGraph),
  formOf("emptyList", { ...listOf("subgraphs"), isWritten: { type: "boolean" } }),
  formOf("setMeta", { path: pointer }, { ...inGraph, ...value }),
  formOf("addSubgraph", { subgraph }, { at: place }),
  formOf("removeSubgraph", { id: editId }),
  formOf("setSubgraph", { id: editId, path: pointer }, value),
  formOf("setGraph", { value: graphValue }, inGraph),
];

export const WorkflowEditSchema = t.openObject(
  "One change: `op` says which, the other fields what it needs.",
  t.published({ oneOf: editForms }),
);
