// Edits of a workflow as data: each names the node, edge or subgraph it is about, so that edits of several people can be told apart.
// Applying them is here; reading them from strangers is edit-reader.ts, holding them against each other conflicts.ts.

import type { Edge, Middleware, Workflow, WorkflowNode } from "@astraflow/protocol";
import { type GraphDraft, Keyed, type Subgraph, WorkflowDraft } from "./edit-draft.ts";
import { isObject, withValueAt } from "./path.ts";

/** The graph an edit is about: a subgraph by id; absent: the workflow itself. */
interface InGraph {
  readonly graph?: string;
}

/** A field by JSON pointer; without a value it is taken away. */
interface Setting {
  readonly path: string;
  readonly value?: unknown;
}

/** `at` is the place in its list; absent: the end. */
export type Edit =
  | (InGraph & { readonly op: "addNode"; readonly node: WorkflowNode; readonly at?: number })
  /** Its edges go with it. */
  | (InGraph & { readonly op: "removeNode"; readonly id: string })
  | (InGraph & { readonly op: "setNode"; readonly id: string } & Setting)
  | (InGraph & { readonly op: "addMiddleware"; readonly host: string; readonly middleware: Middleware; readonly at?: number })
  | (InGraph & { readonly op: "removeMiddleware"; readonly host: string; readonly id: string })
  | (InGraph & { readonly op: "setMiddleware"; readonly host: string; readonly id: string } & Setting)
  | (InGraph & { readonly op: "addEdge"; readonly edge: Edge; readonly at?: number })
  | (InGraph & { readonly op: "removeEdge"; readonly id: string })
  /** The order of a list, by ids; what it does not name comes after. */
  | (InGraph & { readonly op: "order"; readonly list: "nodes" | "edges"; readonly ids: readonly string[] })
  | (InGraph & { readonly op: "order"; readonly list: "middlewares"; readonly host: string; readonly ids: readonly string[] })
  | { readonly op: "order"; readonly list: "subgraphs"; readonly ids: readonly string[] }
  /** Whether an empty list is written down or left out; a list that is not empty stays as it is. */
  | (InGraph & { readonly op: "emptyList"; readonly list: "middlewares"; readonly host: string; readonly isWritten: boolean })
  | { readonly op: "emptyList"; readonly list: "subgraphs"; readonly isWritten: boolean }
  /** Any field of the graph beside its nodes, edges and subgraphs. */
  | (InGraph & { readonly op: "setMeta" } & Setting)
  | { readonly op: "addSubgraph"; readonly subgraph: Subgraph; readonly at?: number }
  | { readonly op: "removeSubgraph"; readonly id: string }
  /** A field of the entry beside its definition. */
  | ({ readonly op: "setSubgraph"; readonly id: string } & Setting)
  /** The whole graph at once. */
  | (InGraph & { readonly op: "setGraph"; readonly value: Workflow });

/** The workflow after the edits, or a sentence that names the first edit that cannot be made. The arguments stay as they were. */
export function applyEdits(workflow: Workflow, edits: readonly Edit[]): Workflow | string {
  const draft = new WorkflowDraft(workflow);
  for (const [index, edit] of edits.entries()) {
    const refusal = applyEdit(draft, edit);
    if (refusal !== null) return `edit ${index} (${edit.op}): ${refusal}`;
  }
  return draft.finish();
}

/** Null: done. */
function applyEdit(draft: WorkflowDraft, edit: Edit): string | null {
  switch (edit.op) {
    case "addSubgraph":
      return draft.addSubgraph(edit.subgraph, edit.at) ? null : isAnother("subgraph", edit.subgraph.id);
    case "removeSubgraph":
      draft.removeSubgraph(edit.id);
      return null;
    case "setSubgraph":
      return (
        reserved(edit.path, ["id", "definition"]) ?? setIn(draft.subgraphs ?? new Keyed<Subgraph>([]), edit.id, edit, "subgraph")
      );
    case "setGraph":
      return draft.replaceGraph(edit.graph, edit.value) ? null : `there is no subgraph ${edit.graph}`;
    case "order":
      if (edit.list !== "subgraphs") return inGraph(draft, edit);
      draft.subgraphs?.order(edit.ids);
      return null;
    case "emptyList":
      if (edit.list !== "subgraphs") return inGraph(draft, edit);
      if ((draft.subgraphs?.items.length ?? 0) === 0) draft.setSubgraphs(edit.isWritten ? new Keyed([]) : null);
      return null;
    default:
      return inGraph(draft, edit);
  }
}

type GraphEdit = Exclude<Edit, { op: "addSubgraph" | "removeSubgraph" | "setSubgraph" | "setGraph" } | { list: "subgraphs" }>;

function inGraph(draft: WorkflowDraft, edit: GraphEdit): string | null {
  const graph = draft.graph(edit.graph);
  if (graph === null) return `there is no subgraph ${edit.graph}`;
  switch (edit.op) {
    case "addNode":
      return graph.nodes.add(edit.node, edit.at) ? null : isAnother("node", edit.node.id);
    case "removeNode":
      graph.removeNode(edit.id);
      return null;
    case "setNode":
      return reserved(edit.path, ["id", "middlewares"]) ?? setIn(graph.nodes, edit.id, edit, "node");
    case "addEdge":
      return graph.addEdge(edit.edge, edit.at) ? null : isAnother("edge", edit.edge.id);
    case "removeEdge":
      graph.removeEdge(edit.id);
      return null;
    case "order":
      if (edit.list === "middlewares") return aroundHost(graph, edit);
      graph[edit.list].order(edit.ids);
      return null;
    case "setMeta": {
      const refusal = reserved(edit.path, ["nodes", "edges", ...(edit.graph === undefined ? ["subgraphs"] : [])]);
      if (refusal === null) graph.meta = setAt(graph.meta, stepsOf(edit.path), edit) as GraphDraft["meta"];
      return refusal;
    }
    default:
      return aroundHost(graph, edit);
  }
}

/** Edits of the middlewares around one node. */
function aroundHost(graph: GraphDraft, edit: Extract<GraphEdit, { host: string }>): string | null {
  const host = graph.nodes.get(edit.host);
  if (host === undefined) return `there is no node ${edit.host}`;
  const { middlewares, ...rest } = host;
  const chain = new Keyed(middlewares ?? []);
  const put = (isWritten: boolean) => graph.nodes.replace(host, { ...rest, ...(isWritten && { middlewares: chain.items }) });
  let refusal: string | null = null;
  switch (edit.op) {
    case "emptyList":
      if (chain.items.length === 0) put(edit.isWritten);
      return null;
    case "addMiddleware":
      if (!chain.add(edit.middleware, edit.at)) refusal = isAnother("middleware", edit.middleware.id);
      break;
    case "removeMiddleware":
      chain.remove(edit.id);
      break;
    case "setMiddleware":
      refusal = reserved(edit.path, ["id"]) ?? setIn(chain, edit.id, edit, "middleware");
      break;
    case "order":
      chain.order(edit.ids);
      break;
  }
  if (refusal === null) put(middlewares !== undefined || chain.items.length > 0);
  return refusal;
}

const isAnother = (what: string, id: string): string => `there already is a ${what} ${id}, and it is another`;

function setIn<T extends { readonly id: string }>(list: Keyed<T>, id: string, setting: Setting, what: string): string | null {
  const item = list.get(id);
  if (item === undefined) return `there is no ${what} ${id}`;
  list.replace(item, setAt(item, stepsOf(setting.path), setting) as T);
  return null;
}

/** Steps of a JSON pointer; of the empty one, none. */
export const stepsOf = (pointer: string): readonly string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

function reserved(path: string, fields: readonly string[]): string | null {
  const [first] = stepsOf(path);
  if (first === undefined) return "path must name a field";
  return fields.includes(first) ? `field ${first} cannot be set; there are edits for it` : null;
}

function setAt(target: unknown, steps: readonly string[], setting: Setting): unknown {
  return setting.value === undefined ? withoutAt(target, steps) : withValueAt(target, steps, setting.value);
}

function withoutAt(target: unknown, steps: readonly string[]): unknown {
  const [step, ...rest] = steps;
  if (step === undefined || typeof target !== "object" || target === null || !Object.hasOwn(target, step)) return target;
  if (Array.isArray(target)) {
    if (!/^\d+$/.test(step)) return target;
    return rest.length === 0
      ? target.toSpliced(Number(step), 1)
      : target.with(Number(step), withoutAt(target[Number(step)], rest));
  }
  if (!isObject(target)) return target;
  if (rest.length > 0) return { ...target, [step]: withoutAt(target[step], rest) };
  return Object.fromEntries(Object.entries(target).filter(([key]) => key !== step));
}
