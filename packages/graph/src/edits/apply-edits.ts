// Edits of a workflow as data: each names the node, edge or subgraph it changes, so that the edits of several people can be merged.

import type { Edge, Middleware, Workflow, WorkflowNode } from "@astraflow/protocol";
import {
  checkReservedField,
  type FieldEdit,
  type GraphDraft,
  KeyedList,
  type Refusal,
  type Subgraph,
  WorkflowDraft,
  withField,
} from "./workflow-draft.ts";

/** The graph an edit is about: a subgraph by id; absent: the workflow itself. */
interface GraphTarget {
  readonly graph?: string;
}

/** `at` is the place in its list; absent: the end. */
export type WorkflowEdit =
  | (GraphTarget & { readonly op: "addNode"; readonly node: WorkflowNode; readonly at?: number })
  /** Its edges go with it. */
  | (GraphTarget & { readonly op: "removeNode"; readonly id: string })
  | (GraphTarget & { readonly op: "setNode"; readonly id: string } & FieldEdit)
  | (GraphTarget & { readonly op: "addMiddleware"; readonly host: string; readonly middleware: Middleware; readonly at?: number })
  | (GraphTarget & { readonly op: "removeMiddleware"; readonly host: string; readonly id: string })
  | (GraphTarget & { readonly op: "setMiddleware"; readonly host: string; readonly id: string } & FieldEdit)
  | (GraphTarget & { readonly op: "addEdge"; readonly edge: Edge; readonly at?: number })
  | (GraphTarget & { readonly op: "removeEdge"; readonly id: string })
  /** The order of a list, by ids; what it does not name comes after. */
  | (GraphTarget & { readonly op: "order"; readonly list: "nodes" | "edges"; readonly ids: readonly string[] })
  | (GraphTarget & { readonly op: "order"; readonly list: "middlewares"; readonly host: string; readonly ids: readonly string[] })
  | { readonly op: "order"; readonly list: "subgraphs"; readonly ids: readonly string[] }
  /** Whether an empty list is written down or left out; a list that is not empty stays as it is. */
  | (GraphTarget & { readonly op: "emptyList"; readonly list: "middlewares"; readonly host: string; readonly isWritten: boolean })
  | { readonly op: "emptyList"; readonly list: "subgraphs"; readonly isWritten: boolean }
  /** Any field of the graph beside its nodes, edges and subgraphs. */
  | (GraphTarget & { readonly op: "setMeta" } & FieldEdit)
  | { readonly op: "addSubgraph"; readonly subgraph: Subgraph; readonly at?: number }
  | { readonly op: "removeSubgraph"; readonly id: string }
  /** A field of the entry beside its definition. */
  | ({ readonly op: "setSubgraph"; readonly id: string } & FieldEdit)
  | (GraphTarget & { readonly op: "setGraph"; readonly value: Workflow });

/** The workflow after the edits, or a sentence that names the first edit that cannot be made. The arguments stay as they were. */
export function applyEdits(workflow: Workflow, edits: readonly WorkflowEdit[]): Workflow | string {
  const draft = new WorkflowDraft(workflow);
  for (const [index, edit] of edits.entries()) {
    const refusal = applyEdit(draft, edit);
    if (refusal !== null) return `edit ${index} (${edit.op}): ${refusal}`;
  }
  return draft.finish();
}

/** Null: done. */
function applyEdit(draft: WorkflowDraft, edit: WorkflowEdit): Refusal {
  switch (edit.op) {
    case "addSubgraph":
      return draft.addSubgraph(edit.subgraph, edit.at);
    case "removeSubgraph":
      return draft.removeSubgraph(edit.id);
    case "setSubgraph":
      return (draft.subgraphs ?? new KeyedList<Subgraph>("subgraph", [])).setField(edit.id, edit, ["id", "definition"]);
    case "setGraph":
      return draft.replaceGraph(edit.graph, edit.value);
    case "order":
      return edit.list === "subgraphs" ? (draft.subgraphs?.order(edit.ids) ?? null) : applyGraphEdit(draft, edit);
    case "emptyList":
      return edit.list === "subgraphs" ? draft.writeEmptySubgraphs(edit.isWritten) : applyGraphEdit(draft, edit);
    default:
      return applyGraphEdit(draft, edit);
  }
}

type GraphEdit = Exclude<
  WorkflowEdit,
  { op: "addSubgraph" | "removeSubgraph" | "setSubgraph" | "setGraph" } | { list: "subgraphs" }
>;

function applyGraphEdit(draft: WorkflowDraft, edit: GraphEdit): Refusal {
  const graph = draft.graph(edit.graph);
  if (graph === null) return `there is no subgraph ${edit.graph}`;
  switch (edit.op) {
    case "addNode":
      return graph.nodes.add(edit.node, edit.at);
    case "removeNode":
      return graph.removeNode(edit.id);
    case "setNode":
      return graph.nodes.setField(edit.id, edit, ["id", "middlewares"]);
    case "addEdge":
      return graph.addEdge(edit.edge, edit.at);
    case "removeEdge":
      return graph.removeEdge(edit.id);
    case "order":
      return edit.list === "middlewares" ? applyMiddlewareEdit(graph, edit) : graph[edit.list].order(edit.ids);
    case "setMeta": {
      const refusal = checkReservedField(edit.path, ["nodes", "edges", ...(edit.graph === undefined ? ["subgraphs"] : [])]);
      if (refusal === null) graph.meta = withField(graph.meta, edit);
      return refusal;
    }
    default:
      return applyMiddlewareEdit(graph, edit);
  }
}

/** Of the middlewares around one node. */
type MiddlewareEdit = Extract<GraphEdit, { host: string }>;

function applyMiddlewareEdit(graph: GraphDraft, edit: MiddlewareEdit): Refusal {
  const host = graph.nodes.get(edit.host);
  if (host === undefined) return `there is no node ${edit.host}`;
  const { middlewares, ...rest } = host;
  const chain = new KeyedList("middleware", middlewares ?? []);
  const storeChain = (isWritten: boolean) =>
    graph.nodes.replace(host, { ...rest, ...(isWritten && { middlewares: chain.items }) });
  if (edit.op === "emptyList") {
    if (chain.items.length === 0) storeChain(edit.isWritten);
    return null;
  }
  const refusal = changeChain(chain, edit);
  if (refusal === null) storeChain(middlewares !== undefined || chain.items.length > 0);
  return refusal;
}

function changeChain(chain: KeyedList<Middleware>, edit: Exclude<MiddlewareEdit, { op: "emptyList" }>): Refusal {
  switch (edit.op) {
    case "addMiddleware":
      return chain.add(edit.middleware, edit.at);
    case "removeMiddleware":
      return chain.remove(edit.id);
    case "setMiddleware":
      return chain.setField(edit.id, edit, ["id"]);
    case "order":
      return chain.order(edit.ids);
  }
}

/** What an edit is about, for the summary of a diff and the search for conflicts. */
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
