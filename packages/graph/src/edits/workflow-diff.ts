// From one workflow to another: the edits that lead there, and what they mean in words. Applying the edits to the first gives the second.

import type { Edge, Middleware, Workflow, WorkflowNode } from "@astraflow/protocol";
import { isObject, toJsonPointer } from "../values/binding-path.ts";
import { canonicalJson, isEqualJson } from "../values/canonical-json.ts";
import { applyEdits, type WorkflowEdit } from "./apply-edits.ts";
import { type DiffLine, summarizeEdits } from "./diff-summary.ts";

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

/** Equal or not, by id; what is there twice makes the outcome wrong, and the caller sees that. */
interface ListDiff<T> {
  readonly removed: readonly T[];
  readonly common: readonly { readonly before: T; readonly after: T }[];
  readonly added: readonly { readonly item: T; readonly at: number }[];
  /** The ids in their new order, where removing and adding alone does not make it. */
  readonly order: readonly string[] | null;
}

function diffLists<T extends { readonly id: string }>(from: readonly T[], to: readonly T[]): ListDiff<T> {
  const before = new Map(from.map((item) => [item.id, item]));
  const after = new Map(to.map((item) => [item.id, item]));
  const removed = from.filter((item) => !after.has(item.id));
  const added = to.flatMap((item, at) => (before.has(item.id) ? [] : [{ item, at }]));
  const common = to.flatMap((item) => {
    const held = before.get(item.id);
    return held === undefined ? [] : [{ before: held, after: item }];
  });
  const stayed = from.filter((item) => after.has(item.id)).map((item) => item.id);
  const isInOrder = common.every((pair, index) => pair.after.id === stayed[index]);
  return { removed, common, added, order: isInOrder ? null : to.map((item) => item.id) };
}

function subgraphEdits(from: Workflow, to: Workflow): WorkflowEdit[] {
  const { removed, common, added, order } = diffLists(from.subgraphs ?? [], to.subgraphs ?? []);
  const edits: WorkflowEdit[] = removed.map(({ id }) => ({ op: "removeSubgraph", id }));
  for (const { before, after } of common) {
    const { definition: old, ...entry } = before;
    const { definition, ...next } = after;
    for (const setting of diffFields(entry, next, [])) edits.push({ op: "setSubgraph", id: before.id, ...setting });
    edits.push(...definitionEdits(old, definition, before.id));
  }
  for (const { item, at } of added) edits.push({ op: "addSubgraph", subgraph: item, at });
  if (order !== null) edits.push({ op: "order", list: "subgraphs", ids: order });
  if (differsInEmptyList(from.subgraphs, to.subgraphs))
    edits.push({ op: "emptyList", list: "subgraphs", isWritten: to.subgraphs !== undefined });
  return edits;
}

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
  const named = graph === undefined ? {} : { graph };
  // A subgraph's own subgraphs are never looked at, so they are a field like any other.
  const edits: WorkflowEdit[] = diffFields(metadataOf(from, graph), metadataOf(to, graph), []).map((setting) => ({
    op: "setMeta",
    ...named,
    ...setting,
  }));
  edits.push(...nodeEdits(from.nodes, to.nodes).map((edit) => ({ ...edit, ...named }) as WorkflowEdit));
  const removedNodes = new Set(from.nodes.map((node) => node.id));
  for (const node of to.nodes) removedNodes.delete(node.id);
  // The edges of a removed node went with it.
  const remainingEdges = from.edges.filter((edge) => !removedNodes.has(edge.source.node) && !removedNodes.has(edge.target.node));
  edits.push(...edgeEdits(remainingEdges, to.edges).map((edit) => ({ ...edit, ...named }) as WorkflowEdit));
  return edits;
}

function metadataOf(workflow: Workflow, graph: string | undefined): Record<string, unknown> {
  const { nodes: _, edges: __, ...rest } = workflow;
  if (graph !== undefined) return rest;
  const { subgraphs: ___, ...meta } = rest;
  return meta;
}

function nodeEdits(from: readonly WorkflowNode[], to: readonly WorkflowNode[]): WorkflowEdit[] {
  const { removed, common, added, order } = diffLists(from, to);
  const edits: WorkflowEdit[] = removed.map(({ id }) => ({ op: "removeNode", id }));
  for (const { before, after } of common) {
    const { middlewares: chain, ...node } = before;
    const { middlewares: next, ...other } = after;
    for (const setting of diffFields(node, other, [])) edits.push({ op: "setNode", id: before.id, ...setting });
    edits.push(...middlewareEdits(before.id, chain, next));
  }
  for (const { item, at } of added) edits.push({ op: "addNode", node: item, at });
  if (order !== null) edits.push({ op: "order", list: "nodes", ids: order });
  return edits;
}

function middlewareEdits(
  host: string,
  from: readonly Middleware[] | undefined,
  to: readonly Middleware[] | undefined,
): WorkflowEdit[] {
  const { removed, common, added, order } = diffLists(from ?? [], to ?? []);
  const edits: WorkflowEdit[] = removed.map(({ id }) => ({ op: "removeMiddleware", host, id }));
  for (const { before, after } of common)
    for (const setting of diffFields(before, after, [])) edits.push({ op: "setMiddleware", host, id: before.id, ...setting });
  for (const { item, at } of added) edits.push({ op: "addMiddleware", host, middleware: item, at });
  if (order !== null) edits.push({ op: "order", list: "middlewares", host, ids: order });
  if (differsInEmptyList(from, to)) edits.push({ op: "emptyList", list: "middlewares", host, isWritten: to !== undefined });
  return edits;
}

/** An edge that changed an end is another edge under the same name. */
function edgeEdits(from: readonly Edge[], to: readonly Edge[]): WorkflowEdit[] {
  const texts = new Map(to.map((edge) => [edge.id, canonicalJson(edge)]));
  const same = from.filter((edge) => texts.get(edge.id) === canonicalJson(edge));
  const stays = new Set(same.map((edge) => edge.id));
  const { added, order } = diffLists(same, to);
  const edits: WorkflowEdit[] = from.filter((edge) => !stays.has(edge.id)).map(({ id }) => ({ op: "removeEdge", id }));
  for (const { item, at } of added) edits.push({ op: "addEdge", edge: item, at });
  if (order !== null) edits.push({ op: "order", list: "edges", ids: order });
  return edits;
}

/** What to set so that one value becomes the other: objects field by field, anything else as a whole. */
function diffFields(
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  under: readonly string[],
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
