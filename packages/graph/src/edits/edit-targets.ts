// What an edit is about, for everything that looks at edits without making them: the summary of a diff and the search for conflicts.

import type { Edge, Middleware, WorkflowNode } from "@astraflow/protocol";
import type { WorkflowEdit } from "./apply-edits.ts";
import type { Subgraph } from "./workflow-draft.ts";

export interface EditTarget {
  /** Subgraph it is in; null: the workflow itself. */
  readonly graph: string | null;
  readonly what: "node" | "middleware" | "edge" | "subgraph" | "workflow";
  readonly change: "added" | "removed" | "changed" | "reordered" | "replaced";
  /** Null for the workflow as a whole and for the order of a list. */
  readonly id: string | null;
}

type TargetKind = readonly [EditTarget["what"], EditTarget["change"]];

const targetKinds: Readonly<Record<Exclude<WorkflowEdit["op"], "order">, TargetKind>> = {
  addNode: ["node", "added"],
  removeNode: ["node", "removed"],
  setNode: ["node", "changed"],
  addMiddleware: ["middleware", "added"],
  removeMiddleware: ["middleware", "removed"],
  setMiddleware: ["middleware", "changed"],
  addEdge: ["edge", "added"],
  removeEdge: ["edge", "removed"],
  addSubgraph: ["subgraph", "added"],
  removeSubgraph: ["subgraph", "removed"],
  setSubgraph: ["subgraph", "changed"],
  emptyList: ["workflow", "changed"],
  setMeta: ["workflow", "changed"],
  setGraph: ["workflow", "replaced"],
};
const listItems = { nodes: "node", edges: "edge", middlewares: "middleware", subgraphs: "subgraph" } as const;

export function editTargetOf(edit: WorkflowEdit): EditTarget {
  const graph = "graph" in edit ? (edit.graph ?? null) : null;
  if (edit.op === "order") return { graph, what: listItems[edit.list], change: "reordered", id: null };
  const [what, change] = targetKinds[edit.op];
  return { graph, what, change, id: addedItemOf(edit)?.id ?? ("id" in edit ? edit.id : null) };
}

function addedItemOf(edit: WorkflowEdit): WorkflowNode | Middleware | Edge | Subgraph | null {
  if (edit.op === "addNode") return edit.node;
  if (edit.op === "addMiddleware") return edit.middleware;
  if (edit.op === "addEdge") return edit.edge;
  return edit.op === "addSubgraph" ? edit.subgraph : null;
}
