// A diff in words: one line per node, middleware, edge or subgraph, with the fields that changed.

import type { Workflow, WorkflowNode } from "@astraflow/protocol";
import type { WorkflowEdit } from "./apply-edits.ts";
import { type EditTarget, editTargetOf } from "./edit-targets.ts";

export interface DiffLine extends EditTarget {
  /** JSON pointers under the thing; empty unless it changed. */
  readonly fields: readonly string[];
  readonly text: string;
}

type DiffLineDraft = EditTarget & { readonly name: string; readonly fields: string[] };

export function summarizeEdits(from: Workflow, to: Workflow, edits: readonly WorkflowEdit[]): DiffLine[] {
  const names = new DisplayNames(from, to);
  const lines = new Map<string, DiffLineDraft>();
  for (const edit of edits) {
    const target = editTargetOf(edit);
    const name = nameOf(edit, target, names);
    const key = JSON.stringify([target, name]);
    const line = lines.get(key) ?? { ...target, name, fields: [] };
    if ("path" in edit) line.fields.push(edit.path);
    lines.set(key, line);
  }
  return [...joinReplacedEdges(lines.values())].map(({ name, ...line }) => ({ ...line, text: formatDiffLine(line, name) }));
}

/** An edge that was removed and added again under its name has changed. */
function joinReplacedEdges(lines: Iterable<DiffLineDraft>): DiffLineDraft[] {
  const found: DiffLineDraft[] = [];
  for (const line of lines) {
    const at = line.what === "edge" && line.change === "added" ? found.findIndex((one) => isRemovedEdge(one, line)) : -1;
    if (at < 0) found.push(line);
    else found[at] = { ...line, change: "changed" };
  }
  return found;
}

const isRemovedEdge = (one: EditTarget, line: EditTarget): boolean =>
  one.what === "edge" && one.change === "removed" && one.id === line.id && one.graph === line.graph;

function formatDiffLine(line: Omit<DiffLine, "text">, name: string): string {
  const where = line.graph === null ? "" : ` in subgraph ${line.graph}`;
  const fields = line.fields.length === 0 ? "" : `: ${line.fields.map((path) => path.slice(1).replaceAll("/", ".")).join(", ")}`;
  return `${name} ${line.change}${where}${fields}`;
}

function nameOf(edit: WorkflowEdit, { graph, what, id }: EditTarget, names: DisplayNames): string {
  const ofHost = "host" in edit ? ` of ${names.get(graph, edit.host)}` : "";
  if (edit.op === "order") return `${edit.list}${ofHost}`;
  if (edit.op === "emptyList") return `empty list of ${edit.list}${ofHost}`;
  if (edit.op === "addSubgraph") return `subgraph ${edit.subgraph.metadata?.label ?? id}`;
  if (id === null) return graph === null ? "workflow" : "definition";
  return what === "subgraph" ? `subgraph ${id}` : `${what} ${names.get(graph, id)}${ofHost}`;
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
