// A diff in words: one line per node, middleware, edge or subgraph, with the fields that changed.

import type { Workflow, WorkflowNode } from "@astraflow/protocol";
import type { WorkflowEdit } from "./apply-edits.ts";

export interface DiffLine {
  /** Subgraph it is in; null: the workflow itself. */
  readonly graph: string | null;
  readonly what: "node" | "middleware" | "edge" | "subgraph" | "workflow";
  readonly change: "added" | "removed" | "changed" | "reordered" | "replaced";
  /** Null for the workflow as a whole and for the order of a list. */
  readonly id: string | null;
  /** JSON pointers under the thing; empty unless it changed. */
  readonly fields: readonly string[];
  readonly text: string;
}

type DiffLineDraft = Omit<DiffLine, "text" | "fields"> & { readonly name: string };

export function summarizeEdits(from: Workflow, to: Workflow, edits: readonly WorkflowEdit[]): DiffLine[] {
  const names = new DisplayNames(from, to);
  const lines = new Map<string, DiffLineDraft & { fields: string[] }>();
  for (const edit of edits) {
    const { path, ...draft } = describeEdit(edit, names);
    const key = JSON.stringify([draft.graph, draft.what, draft.change, draft.id, draft.name]);
    const line = lines.get(key) ?? { ...draft, fields: [] };
    if (path !== undefined) line.fields.push(path);
    lines.set(key, line);
  }
  return [...joinReplacedEdges(lines.values())].map(({ name, ...line }) => ({ ...line, text: formatDiffLine(line, name) }));
}

/** An edge that was removed and added again under its name has changed. */
function joinReplacedEdges<L extends DiffLineDraft & { fields: string[] }>(lines: Iterable<L>): L[] {
  const found: L[] = [];
  for (const line of lines) {
    const at = line.what === "edge" && line.change === "added" ? found.findIndex((one) => isRemovedEdge(one, line)) : -1;
    if (at < 0) found.push(line);
    else found[at] = { ...line, change: "changed" };
  }
  return found;
}

const isRemovedEdge = (one: DiffLineDraft, line: DiffLineDraft): boolean =>
  one.what === "edge" && one.change === "removed" && one.id === line.id && one.graph === line.graph;

function formatDiffLine(line: Omit<DiffLine, "text">, name: string): string {
  const where = line.graph === null ? "" : ` in subgraph ${line.graph}`;
  const fields = line.fields.length === 0 ? "" : `: ${line.fields.map((path) => path.slice(1).replaceAll("/", ".")).join(", ")}`;
  return `${name} ${line.change}${where}${fields}`;
}

function describeEdit(edit: WorkflowEdit, names: DisplayNames): DiffLineDraft & { readonly path?: string } {
  const graph = "graph" in edit ? (edit.graph ?? null) : null;
  const line = (what: DiffLine["what"], change: DiffLine["change"], id: string | null, name: string): DiffLineDraft => ({
    graph,
    what,
    change,
    id,
    name,
  });
  switch (edit.op) {
    case "addNode":
      return line("node", "added", edit.node.id, `node ${edit.node.label}`);
    case "removeNode":
      return line("node", "removed", edit.id, `node ${names.get(graph, edit.id)}`);
    case "setNode":
      return { ...line("node", "changed", edit.id, `node ${names.get(graph, edit.id)}`), path: edit.path };
    case "addMiddleware":
      return line(
        "middleware",
        "added",
        edit.middleware.id,
        `middleware ${edit.middleware.label} of ${names.get(graph, edit.host)}`,
      );
    case "removeMiddleware":
      return line("middleware", "removed", edit.id, `middleware ${names.get(graph, edit.id)} of ${names.get(graph, edit.host)}`);
    case "setMiddleware":
      return {
        ...line("middleware", "changed", edit.id, `middleware ${names.get(graph, edit.id)} of ${names.get(graph, edit.host)}`),
        path: edit.path,
      };
    case "addEdge": {
      const { source, target } = edit.edge;
      return line("edge", "added", edit.edge.id, `edge ${names.get(graph, source.node)} -> ${names.get(graph, target.node)}`);
    }
    case "removeEdge":
      return line("edge", "removed", edit.id, `edge ${names.get(graph, edit.id)}`);
    case "order": {
      const what = { nodes: "node", edges: "edge", middlewares: "middleware", subgraphs: "subgraph" } as const;
      const of = edit.list === "middlewares" ? ` of ${names.get(graph, edit.host)}` : "";
      return line(what[edit.list], "reordered", null, `${edit.list}${of}`);
    }
    case "emptyList": {
      const of = edit.list === "middlewares" ? ` of ${names.get(graph, edit.host)}` : "";
      return line("workflow", "changed", null, `empty list of ${edit.list}${of}`);
    }
    case "setMeta":
      return { ...line("workflow", "changed", null, graph === null ? "workflow" : "definition"), path: edit.path };
    case "addSubgraph":
      return line("subgraph", "added", edit.subgraph.id, `subgraph ${edit.subgraph.metadata?.label ?? edit.subgraph.id}`);
    case "removeSubgraph":
      return line("subgraph", "removed", edit.id, `subgraph ${edit.id}`);
    case "setSubgraph":
      return { ...line("subgraph", "changed", edit.id, `subgraph ${edit.id}`), path: edit.path };
    case "setGraph":
      return line("workflow", "replaced", null, graph === null ? "workflow" : "definition");
  }
}

/** What people call things: labels of nodes, the two ends of an edge; those of the newer workflow first. */
class DisplayNames {
  readonly #names = new Map<string, string>();

  constructor(from: Workflow, to: Workflow) {
    for (const workflow of [from, to]) {
      this.#addGraph(null, workflow);
      for (const { id, definition } of workflow.subgraphs ?? []) this.#addGraph(id, definition);
    }
  }

  get(graph: string | null, id: string): string {
    return this.#names.get(JSON.stringify([graph, id])) ?? id;
  }

  #addGraph(graph: string | null, { nodes, edges }: Workflow): void {
    const addName = (id: string, name: string) => void this.#names.set(JSON.stringify([graph, id]), name === "" ? id : name);
    for (const node of nodes as readonly WorkflowNode[]) {
      addName(node.id, node.label);
      for (const middleware of node.middlewares ?? []) addName(middleware.id, middleware.label);
    }
    for (const { id, source, target } of edges) addName(id, `${this.get(graph, source.node)} -> ${this.get(graph, target.node)}`);
  }
}
