// A workflow while edits are made to it: lists are asked by id and changed in place, so that thousands of edits stay quick.

import type { Edge, Workflow, WorkflowNode } from "@astraflow/protocol";
import { isEqualJson } from "../values/canonical-json.ts";

export type Subgraph = NonNullable<Workflow["subgraphs"]>[number];

/** A list whose items have ids. Ids may be there twice, for a draft may be wrong; then the first is meant, and removing removes all. */
export class KeyedList<T extends { readonly id: string }> {
  #items: T[];
  readonly #byId = new Map<string, T[]>();

  constructor(items: readonly T[]) {
    this.#items = [...items];
    for (const item of items) this.#addToIndex(item);
  }

  get items(): T[] {
    return this.#items;
  }

  get(id: string): T | undefined {
    return this.#byId.get(id)?.[0];
  }

  /** The same thing added twice is there once: two people may have made the same edit. False: another has its id. */
  add(item: T, at: number | undefined): boolean {
    const other = this.get(item.id);
    if (other !== undefined) return isEqualJson(other, item);
    this.#items.splice(at ?? this.#items.length, 0, item);
    this.#addToIndex(item);
    return true;
  }

  remove(id: string): readonly T[] {
    const removed = this.#byId.get(id) ?? [];
    for (const item of removed) this.#items.splice(this.#items.indexOf(item), 1);
    this.#byId.delete(id);
    return removed;
  }

  replace(item: T, next: T): void {
    this.#items[this.#items.indexOf(item)] = next;
    const same = this.#byId.get(item.id) ?? [];
    same[same.indexOf(item)] = next;
  }

  /** What is not named comes after, as it stood. */
  order(ids: readonly string[]): void {
    const ranks = new Map(ids.map((id, rank) => [id, rank]));
    const rank = (item: T) => ranks.get(item.id) ?? ids.length;
    this.#items.sort((a, b) => rank(a) - rank(b));
  }

  #addToIndex(item: T): void {
    const same = this.#byId.get(item.id);
    if (same === undefined) this.#byId.set(item.id, [item]);
    else same.push(item);
  }
}

export class GraphDraft {
  /** All fields beside nodes and edges. */
  meta: Omit<Workflow, "nodes" | "edges">;
  readonly nodes: KeyedList<WorkflowNode>;
  readonly edges: KeyedList<Edge>;
  #edgesByNode: Map<string, Set<Edge>> | null = null;

  constructor(graph: Workflow) {
    const { nodes, edges, ...meta } = graph;
    this.meta = meta;
    this.nodes = new KeyedList(nodes);
    this.edges = new KeyedList(edges);
  }

  addEdge(edge: Edge, at: number | undefined): boolean {
    const isNew = this.edges.get(edge.id) === undefined;
    const isAdded = this.edges.add(edge, at);
    if (isNew && this.#edgesByNode !== null) addEdgeToIndex(this.#edgesByNode, edge);
    return isAdded;
  }

  removeEdge(id: string): void {
    for (const edge of this.edges.remove(id))
      for (const end of [edge.source.node, edge.target.node]) this.#edgesByNode?.get(end)?.delete(edge);
  }

  removeNode(id: string): void {
    this.nodes.remove(id);
    if (this.#edgesByNode === null) {
      this.#edgesByNode = new Map();
      for (const edge of this.edges.items) addEdgeToIndex(this.#edgesByNode, edge);
    }
    for (const edge of [...(this.#edgesByNode.get(id) ?? [])]) this.removeEdge(edge.id);
  }

  finish(): Workflow {
    return { ...this.meta, nodes: this.nodes.items, edges: this.edges.items } as Workflow;
  }
}

function addEdgeToIndex(edgesByNode: Map<string, Set<Edge>>, edge: Edge): void {
  for (const end of [edge.source.node, edge.target.node]) edgesByNode.set(end, (edgesByNode.get(end) ?? new Set()).add(edge));
}

/** The workflow itself and those of its subgraphs that an edit has reached into. */
export class WorkflowDraft {
  /** Null: no list is written down. */
  subgraphs: KeyedList<Subgraph> | null;
  #root: GraphDraft;
  #openSubgraphs = new Map<string, GraphDraft>();

  constructor(workflow: Workflow) {
    [this.#root, this.subgraphs] = openWorkflow(workflow);
  }

  graph(name: string | undefined): GraphDraft | null {
    if (name === undefined) return this.#root;
    const entry = this.subgraphs?.get(name);
    if (entry === undefined) return null;
    const known = this.#openSubgraphs.get(name) ?? new GraphDraft(entry.definition);
    this.#openSubgraphs.set(name, known);
    return known;
  }

  addSubgraph(subgraph: Subgraph, at: number | undefined): boolean {
    const subgraphs = this.subgraphs ?? new KeyedList<Subgraph>([]);
    const existing = subgraphs.get(subgraph.id);
    if (existing !== undefined) return isEqualJson(this.#finishSubgraph(existing), subgraph);
    this.subgraphs = subgraphs;
    return subgraphs.add(subgraph, at);
  }

  removeSubgraph(id: string): void {
    this.subgraphs?.remove(id);
    this.#openSubgraphs.delete(id);
  }

  replaceGraph(name: string | undefined, value: Workflow): boolean {
    if (name === undefined) {
      [this.#root, this.subgraphs] = openWorkflow(value);
      this.#openSubgraphs.clear();
      return true;
    }
    if (this.subgraphs?.get(name) === undefined) return false;
    this.#openSubgraphs.set(name, new GraphDraft(value));
    return true;
  }

  finish(): Workflow {
    const subgraphs = this.subgraphs?.items.map((entry) =>
      this.subgraphs?.get(entry.id) === entry ? this.#finishSubgraph(entry) : entry,
    );
    return { ...this.#root.finish(), ...(subgraphs !== undefined && { subgraphs }) };
  }

  #finishSubgraph(entry: Subgraph): Subgraph {
    const inner = this.#openSubgraphs.get(entry.id);
    return inner === undefined ? entry : { ...entry, definition: inner.finish() };
  }
}

function openWorkflow(workflow: Workflow): [GraphDraft, KeyedList<Subgraph> | null] {
  const { subgraphs, ...graph } = workflow;
  return [new GraphDraft(graph as Workflow), subgraphs === undefined ? null : new KeyedList(subgraphs)];
}
