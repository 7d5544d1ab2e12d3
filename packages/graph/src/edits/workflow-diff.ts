// From one workflow to another: the edits that lead there, and what they mean in words. Applying the edits to the first gives the second.

import type { Edge, Workflow, WorkflowNode } from "@astraflow/protocol";
import { isObject, toJsonPointer } from "../values/binding-path.ts";
import { canonicalJson, isEqualJson } from "../values/canonical-json.ts";
import { applyEdits, type EditTarget, editTargetOf, type WorkflowEdit } from "./apply-edits.ts";

/** One node, middleware, edge or subgraph in words, with the fields that changed. */
export interface DiffLine extends EditTarget {
  /** JSON pointers under the thing; empty unless it changed. */
  readonly fields: readonly string[];
  readonly text: string;
}

export interface WorkflowDiff {
  readonly edits: readonly WorkflowEdit[];
  readonly summary: readonly DiffLine[];
}

export function diffWorkflows(from: Workflow, to: Workflow): WorkflowDiff {
  const edits = editsBetween(from, to);
  return { edits, summary: summarizeEdits(from, to, edits) };
}

function editsBetween(from: Workflow, to: Workflow): WorkflowEdit[] {
  if (isEqualJson(from, to)) return [];
  const edits = [...subgraphEdits(from, to), ...graphEdits(from, to, undefined)];
  const applied = applyEdits(from, edits);
  // Fields or ids that no edit can name: then the whole is one edit.
  return typeof applied === "string" || !isEqualJson(applied, to) ? [{ op: "setGraph", value: to }] : edits;
}

/** How one list becomes another, as edits. */
interface ListEdits<T> {
  add(item: T, at: number): WorkflowEdit;
  remove?(id: string): WorkflowEdit;
  change?(before: T, after: T): readonly WorkflowEdit[];
  /** All ids in their new order. */
  order(ids: readonly string[]): WorkflowEdit;
}

/** By id; what is there twice makes the outcome wrong, and the caller sees that. */
function diffLists<T extends { readonly id: string }>(from: readonly T[], to: readonly T[], edits: ListEdits<T>): WorkflowEdit[] {
  const before = new Map(from.map((item) => [item.id, item]));
  const after = new Map(to.map((item) => [item.id, item]));
  const removed = from.filter((item) => !after.has(item.id));
  const common = to.flatMap((item) => {
    const held = before.get(item.id);
    return held === undefined ? [] : [{ before: held, after: item }];
  });
  const stayed = from.filter((item) => after.has(item.id));
  const isInOrder = common.every((pair, index) => pair.after.id === stayed[index]?.id);
  return [
    ...removed.flatMap(({ id }) => edits.remove?.(id) ?? []),
    ...common.flatMap((pair) => edits.change?.(pair.before, pair.after) ?? []),
    ...to.flatMap((item, at) => (before.has(item.id) ? [] : [edits.add(item, at)])),
    // Where removing and adding alone does not make the order.
    ...(isInOrder ? [] : [edits.order(to.map((item) => item.id))]),
  ];
}

function subgraphEdits(from: Workflow, to: Workflow): WorkflowEdit[] {
  const edits = diffLists(from.subgraphs ?? [], to.subgraphs ?? [], {
    remove: (id) => ({ op: "removeSubgraph", id }),
    change: ({ definition: old, ...before }, { definition, ...after }) => [
      ...diffFields(before, after).map((setting): WorkflowEdit => ({ op: "setSubgraph", id: before.id, ...setting })),
      ...definitionEdits(old, definition, before.id),
    ],
    add: (subgraph, at) => ({ op: "addSubgraph", subgraph, at }),
    order: (ids) => ({ op: "order", list: "subgraphs", ids }),
  });
  if (differsInEmptyList(from.subgraphs, to.subgraphs))
    edits.push({ op: "emptyList", list: "subgraphs", isWritten: to.subgraphs !== undefined });
  return edits;
}

type Chain = WorkflowNode["middlewares"];

/** An empty list and no list at all are two texts. */
const differsInEmptyList = (from: readonly unknown[] | undefined, to: readonly unknown[] | undefined): boolean =>
  (from === undefined) !== (to === undefined) && (to?.length ?? 0) === 0;

function definitionEdits(from: Workflow, to: Workflow, graph: string): WorkflowEdit[] {
  if (isEqualJson(from, to)) return [];
  const edits = graphEdits(from, to, graph);
  const applied = applyEdits({ ...from, subgraphs: [{ id: graph, definition: from }] }, edits);
  const isComplete = typeof applied !== "string" && isEqualJson(applied.subgraphs?.[0]?.definition, to);
  return isComplete ? edits : [{ op: "setGraph", graph, value: to }];
}

function graphEdits(from: Workflow, to: Workflow, graph: string | undefined): WorkflowEdit[] {
  const removedNodes = new Set(from.nodes.map((node) => node.id));
  for (const node of to.nodes) removedNodes.delete(node.id);
  // The edges of a removed node went with it.
  const remainingEdges = from.edges.filter((edge) => !removedNodes.has(edge.source.node) && !removedNodes.has(edge.target.node));
  const edits: WorkflowEdit[] = [
    ...diffFields(metadataOf(from, graph), metadataOf(to, graph)).map((setting): WorkflowEdit => ({ op: "setMeta", ...setting })),
    ...nodeEdits(from.nodes, to.nodes),
    ...edgeEdits(remainingEdges, to.edges),
  ];
  return graph === undefined ? edits : edits.map((edit) => ({ ...edit, graph }) as WorkflowEdit);
}

/** A subgraph's own subgraphs are never looked at, so they are a field like any other. */
function metadataOf({ nodes: _nodes, edges: _edges, ...rest }: Workflow, graph: string | undefined): Record<string, unknown> {
  if (graph !== undefined) return rest;
  const { subgraphs: _subgraphs, ...meta } = rest;
  return meta;
}

const nodeEdits = (from: readonly WorkflowNode[], to: readonly WorkflowNode[]): WorkflowEdit[] =>
  diffLists(from, to, {
    remove: (id) => ({ op: "removeNode", id }),
    change: ({ middlewares: chain, ...before }, { middlewares: next, ...after }) => [
      ...diffFields(before, after).map((setting): WorkflowEdit => ({ op: "setNode", id: before.id, ...setting })),
      ...middlewareEdits(before.id, chain, next),
    ],
    add: (node, at) => ({ op: "addNode", node, at }),
    order: (ids) => ({ op: "order", list: "nodes", ids }),
  });

function middlewareEdits(host: string, from: Chain, to: Chain): WorkflowEdit[] {
  const edits = diffLists(from ?? [], to ?? [], {
    remove: (id) => ({ op: "removeMiddleware", host, id }),
    change: (before, after) =>
      diffFields(before, after).map((setting) => ({ op: "setMiddleware", host, id: before.id, ...setting })),
    add: (middleware, at) => ({ op: "addMiddleware", host, middleware, at }),
    order: (ids) => ({ op: "order", list: "middlewares", host, ids }),
  });
  if (differsInEmptyList(from, to)) edits.push({ op: "emptyList", list: "middlewares", host, isWritten: to !== undefined });
  return edits;
}

/** An edge that changed an end is another edge under the same name. */
function edgeEdits(from: readonly Edge[], to: readonly Edge[]): WorkflowEdit[] {
  const texts = new Map(to.map((edge) => [edge.id, canonicalJson(edge)]));
  const same = from.filter((edge) => texts.get(edge.id) === canonicalJson(edge));
  const stays = new Set(same.map((edge) => edge.id));
  return [
    ...from.filter((edge) => !stays.has(edge.id)).map(({ id }): WorkflowEdit => ({ op: "removeEdge", id })),
    ...diffLists(same, to, {
      add: (edge, at) => ({ op: "addEdge", edge, at }),
      order: (ids) => ({ op: "order", list: "edges", ids }),
    }),
  ];
}

/** What to set so that one value becomes the other: objects field by field, anything else as a whole. */
function diffFields(
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  under: readonly string[] = [],
): { path: string; value?: unknown }[] {
  const found: { path: string; value?: unknown }[] = [];
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    const after = Object.hasOwn(to, key) ? to[key] : undefined;
    if (isEqualJson(before, after) && (before === undefined) === (after === undefined)) continue;
    const steps = [...under, key];
    if (isObject(before) && isObject(after)) found.push(...diffFields(before, after, steps));
    else found.push({ path: toJsonPointer(steps), ...(after !== undefined && { value: after }) });
  }
  return found;
}

type DiffLineDraft = EditTarget & { readonly name: string; readonly fields: string[] };

function summarizeEdits(from: Workflow, to: Workflow, edits: readonly WorkflowEdit[]): DiffLine[] {
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
