// From one workflow to another: the edits that lead there, and what they mean in words. Applying the edits to the first gives the second.

import type { Edge, Middleware, Workflow, WorkflowNode } from "@astraflow/protocol";
import { canonicalText } from "./canonical.ts";
import { type DiffLine, summaryOf } from "./diff-summary.ts";
import { applyEdits, type Edit } from "./edits.ts";
import { isObject, pointerOf } from "./path.ts";

export interface WorkflowDiff {
  readonly edits: readonly Edit[];
  readonly summary: readonly DiffLine[];
}

export function diffWorkflows(from: Workflow, to: Workflow): WorkflowDiff {
  const edits = editsBetween(from, to);
  return { edits, summary: summaryOf(from, to, edits) };
}

function editsBetween(from: Workflow, to: Workflow): Edit[] {
  if (isSame(from, to)) return [];
  const edits = [...subgraphEdits(from, to), ...graphEdits(from, to, undefined)];
  const made = applyEdits(from, edits);
  // Fields or ids that no edit can name: then the whole is one edit.
  return typeof made === "string" || !isSame(made, to) ? [{ op: "setGraph", value: to }] : edits;
}

const isSame = (a: unknown, b: unknown): boolean => canonicalText(a) === canonicalText(b);

/** Equal or not, by id; what is there twice makes the outcome wrong, and the caller sees that. */
interface Lists<T> {
  readonly removed: readonly T[];
  readonly kept: readonly { readonly before: T; readonly after: T }[];
  readonly added: readonly { readonly item: T; readonly at: number }[];
  /** The ids in their new order, where removing and adding alone does not make it. */
  readonly order: readonly string[] | null;
}

function compare<T extends { readonly id: string }>(from: readonly T[], to: readonly T[]): Lists<T> {
  const before = new Map(from.map((item) => [item.id, item]));
  const after = new Map(to.map((item) => [item.id, item]));
  const removed = from.filter((item) => !after.has(item.id));
  const added = to.flatMap((item, at) => (before.has(item.id) ? [] : [{ item, at }]));
  const kept = to.flatMap((item) => {
    const held = before.get(item.id);
    return held === undefined ? [] : [{ before: held, after: item }];
  });
  const stayed = from.filter((item) => after.has(item.id)).map((item) => item.id);
  const isInOrder = kept.every((pair, index) => pair.after.id === stayed[index]);
  return { removed, kept, added, order: isInOrder ? null : to.map((item) => item.id) };
}

function subgraphEdits(from: Workflow, to: Workflow): Edit[] {
  const { removed, kept, added, order } = compare(from.subgraphs ?? [], to.subgraphs ?? []);
  const edits: Edit[] = removed.map(({ id }) => ({ op: "removeSubgraph", id }));
  for (const { before, after } of kept) {
    const { definition: old, ...entry } = before;
    const { definition, ...next } = after;
    for (const setting of settings(entry, next, [])) edits.push({ op: "setSubgraph", id: before.id, ...setting });
    edits.push(...definitionEdits(old, definition, before.id));
  }
  for (const { item, at } of added) edits.push({ op: "addSubgraph", subgraph: item, at });
  if (order !== null) edits.push({ op: "order", list: "subgraphs", ids: order });
  if (isEmptiedOtherwise(from.subgraphs, to.subgraphs))
    edits.push({ op: "emptyList", list: "subgraphs", isWritten: to.subgraphs !== undefined });
  return edits;
}

/** An empty list and no list at all are two texts. */
const isEmptiedOtherwise = (from: readonly unknown[] | undefined, to: readonly unknown[] | undefined): boolean =>
  (from === undefined) !== (to === undefined) && (to?.length ?? 0) === 0;

function definitionEdits(from: Workflow, to: Workflow, graph: string): Edit[] {
  if (isSame(from, to)) return [];
  const edits = graphEdits(from, to, graph);
  const made = applyEdits({ ...from, subgraphs: [{ id: graph, definition: from }] }, edits);
  const isMade = typeof made !== "string" && isSame(made.subgraphs?.[0]?.definition, to);
  return isMade ? edits : [{ op: "setGraph", graph, value: to }];
}

function graphEdits(from: Workflow, to: Workflow, graph: string | undefined): Edit[] {
  const named = graph === undefined ? {} : { graph };
  // A subgraph's own subgraphs are never looked at, so they are a field like any other.
  const edits: Edit[] = settings(metaOf(from, graph), metaOf(to, graph), []).map((setting) => ({
    op: "setMeta",
    ...named,
    ...setting,
  }));
  edits.push(...nodeEdits(from.nodes, to.nodes).map((edit) => ({ ...edit, ...named }) as Edit));
  const gone = new Set(from.nodes.map((node) => node.id));
  for (const node of to.nodes) gone.delete(node.id);
  // The edges of a removed node went with it.
  const left = from.edges.filter((edge) => !gone.has(edge.source.node) && !gone.has(edge.target.node));
  edits.push(...edgeEdits(left, to.edges).map((edit) => ({ ...edit, ...named }) as Edit));
  return edits;
}

function metaOf(workflow: Workflow, graph: string | undefined): Record<string, unknown> {
  const { nodes: _, edges: __, ...rest } = workflow;
  if (graph !== undefined) return rest;
  const { subgraphs: ___, ...meta } = rest;
  return meta;
}

function nodeEdits(from: readonly WorkflowNode[], to: readonly WorkflowNode[]): Edit[] {
  const { removed, kept, added, order } = compare(from, to);
  const edits: Edit[] = removed.map(({ id }) => ({ op: "removeNode", id }));
  for (const { before, after } of kept) {
    const { middlewares: chain, ...node } = before;
    const { middlewares: next, ...other } = after;
    for (const setting of settings(node, other, [])) edits.push({ op: "setNode", id: before.id, ...setting });
    edits.push(...chainEdits(before.id, chain, next));
  }
  for (const { item, at } of added) edits.push({ op: "addNode", node: item, at });
  if (order !== null) edits.push({ op: "order", list: "nodes", ids: order });
  return edits;
}

function chainEdits(host: string, from: readonly Middleware[] | undefined, to: readonly Middleware[] | undefined): Edit[] {
  const { removed, kept, added, order } = compare(from ?? [], to ?? []);
  const edits: Edit[] = removed.map(({ id }) => ({ op: "removeMiddleware", host, id }));
  for (const { before, after } of kept)
    for (const setting of settings(before, after, [])) edits.push({ op: "setMiddleware", host, id: before.id, ...setting });
  for (const { item, at } of added) edits.push({ op: "addMiddleware", host, middleware: item, at });
  if (order !== null) edits.push({ op: "order", list: "middlewares", host, ids: order });
  if (isEmptiedOtherwise(from, to)) edits.push({ op: "emptyList", list: "middlewares", host, isWritten: to !== undefined });
  return edits;
}

/** An edge that changed an end is another edge under the same name. */
function edgeEdits(from: readonly Edge[], to: readonly Edge[]): Edit[] {
  const texts = new Map(to.map((edge) => [edge.id, canonicalText(edge)]));
  const same = from.filter((edge) => texts.get(edge.id) === canonicalText(edge));
  const stays = new Set(same.map((edge) => edge.id));
  const { added, order } = compare(same, to);
  const edits: Edit[] = from.filter((edge) => !stays.has(edge.id)).map(({ id }) => ({ op: "removeEdge", id }));
  for (const { item, at } of added) edits.push({ op: "addEdge", edge: item, at });
  if (order !== null) edits.push({ op: "order", list: "edges", ids: order });
  return edits;
}

/** What to set so that one value becomes the other: objects field by field, anything else as a whole. */
function settings(
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  under: readonly string[],
): { path: string; value?: unknown }[] {
  const found: { path: string; value?: unknown }[] = [];
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    const after = Object.hasOwn(to, key) ? to[key] : undefined;
    if (isSame(before, after) && (before === undefined) === (after === undefined)) continue;
    const steps = [...under, key];
    if (isObject(before) && isObject(after)) found.push(...settings(before, after, steps));
    else found.push({ path: pointerOf(steps), ...(after !== undefined && { value: after }) });
  }
  return found;
}
