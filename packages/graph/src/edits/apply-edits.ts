// Edits of a workflow as data: each names the node, edge or subgraph it changes, so that the edits of several people can be merged.

import type { Edge, Middleware, Workflow, WorkflowNode } from "@astraflow/protocol";
import { isObject, parseJsonPointer, withValueAt } from "../values/binding-path.ts";
import { type GraphDraft, KeyedList, type Subgraph, WorkflowDraft } from "./workflow-draft.ts";

/** The graph an edit is about: a subgraph by id; absent: the workflow itself. */
interface GraphTarget {
  readonly graph?: string;
}

/** A field by JSON pointer; without a value it is taken away. */
interface FieldEdit {
  readonly path: string;
  readonly value?: unknown;
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
function applyEdit(draft: WorkflowDraft, edit: WorkflowEdit): string | null {
  switch (edit.op) {
    case "addSubgraph":
      return draft.addSubgraph(edit.subgraph, edit.at) ? null : duplicateMessage("subgraph", edit.subgraph.id);
    case "removeSubgraph":
      draft.removeSubgraph(edit.id);
      return null;
    case "setSubgraph":
      return (
        checkReservedField(edit.path, ["id", "definition"]) ??
        setFieldById(draft.subgraphs ?? new KeyedList<Subgraph>([]), edit.id, edit, "subgraph")
      );
    case "setGraph":
      return draft.replaceGraph(edit.graph, edit.value) ? null : `there is no subgraph ${edit.graph}`;
    case "order":
      if (edit.list !== "subgraphs") return applyGraphEdit(draft, edit);
      draft.subgraphs?.order(edit.ids);
      return null;
    case "emptyList":
      if (edit.list !== "subgraphs") return applyGraphEdit(draft, edit);
      if ((draft.subgraphs?.items.length ?? 0) === 0) draft.subgraphs = edit.isWritten ? new KeyedList([]) : null;
      return null;
    default:
      return applyGraphEdit(draft, edit);
  }
}

type GraphEdit = Exclude<
  WorkflowEdit,
  { op: "addSubgraph" | "removeSubgraph" | "setSubgraph" | "setGraph" } | { list: "subgraphs" }
>;

function applyGraphEdit(draft: WorkflowDraft, edit: GraphEdit): string | null {
  const graph = draft.graph(edit.graph);
  if (graph === null) return `there is no subgraph ${edit.graph}`;
  switch (edit.op) {
    case "addNode":
      return graph.nodes.add(edit.node, edit.at) ? null : duplicateMessage("node", edit.node.id);
    case "removeNode":
      graph.removeNode(edit.id);
      return null;
    case "setNode":
      return checkReservedField(edit.path, ["id", "middlewares"]) ?? setFieldById(graph.nodes, edit.id, edit, "node");
    case "addEdge":
      return graph.addEdge(edit.edge, edit.at) ? null : duplicateMessage("edge", edit.edge.id);
    case "removeEdge":
      graph.removeEdge(edit.id);
      return null;
    case "order":
      if (edit.list === "middlewares") return applyMiddlewareEdit(graph, edit);
      graph[edit.list].order(edit.ids);
      return null;
    case "setMeta": {
      const refusal = checkReservedField(edit.path, ["nodes", "edges", ...(edit.graph === undefined ? ["subgraphs"] : [])]);
      if (refusal === null) graph.meta = setField(graph.meta, parseJsonPointer(edit.path), edit) as GraphDraft["meta"];
      return refusal;
    }
    default:
      return applyMiddlewareEdit(graph, edit);
  }
}

/** Edits of the middlewares around one node. */
function applyMiddlewareEdit(graph: GraphDraft, edit: Extract<GraphEdit, { host: string }>): string | null {
  const host = graph.nodes.get(edit.host);
  if (host === undefined) return `there is no node ${edit.host}`;
  const { middlewares, ...rest } = host;
  const chain = new KeyedList(middlewares ?? []);
  const storeChain = (isWritten: boolean) =>
    graph.nodes.replace(host, { ...rest, ...(isWritten && { middlewares: chain.items }) });
  let refusal: string | null = null;
  switch (edit.op) {
    case "emptyList":
      if (chain.items.length === 0) storeChain(edit.isWritten);
      return null;
    case "addMiddleware":
      if (!chain.add(edit.middleware, edit.at)) refusal = duplicateMessage("middleware", edit.middleware.id);
      break;
    case "removeMiddleware":
      chain.remove(edit.id);
      break;
    case "setMiddleware":
      refusal = checkReservedField(edit.path, ["id"]) ?? setFieldById(chain, edit.id, edit, "middleware");
      break;
    case "order":
      chain.order(edit.ids);
      break;
  }
  if (refusal === null) storeChain(middlewares !== undefined || chain.items.length > 0);
  return refusal;
}

const duplicateMessage = (what: string, id: string): string => `a different ${what} ${id} already exists`;

function setFieldById<T extends { readonly id: string }>(
  list: KeyedList<T>,
  id: string,
  fieldEdit: FieldEdit,
  what: string,
): string | null {
  const item = list.get(id);
  if (item === undefined) return `there is no ${what} ${id}`;
  list.replace(item, setField(item, parseJsonPointer(fieldEdit.path), fieldEdit) as T);
  return null;
}

function checkReservedField(path: string, fields: readonly string[]): string | null {
  const [first] = parseJsonPointer(path);
  if (first === undefined) return "path must name a field";
  return fields.includes(first) ? `field ${first} cannot be set; there are edits for it` : null;
}

function setField(target: unknown, steps: readonly string[], fieldEdit: FieldEdit): unknown {
  return fieldEdit.value === undefined ? removeField(target, steps) : withValueAt(target, steps, fieldEdit.value);
}

function removeField(target: unknown, steps: readonly string[]): unknown {
  const [step, ...rest] = steps;
  if (step === undefined || typeof target !== "object" || target === null || !Object.hasOwn(target, step)) return target;
  if (Array.isArray(target)) {
    if (!/^\d+$/.test(step)) return target;
    return rest.length === 0
      ? target.toSpliced(Number(step), 1)
      : target.with(Number(step), removeField(target[Number(step)], rest));
  }
  if (!isObject(target)) return target;
  if (rest.length > 0) return { ...target, [step]: removeField(target[step], rest) };
  return Object.fromEntries(Object.entries(target).filter(([key]) => key !== step));
}
