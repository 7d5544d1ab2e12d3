// A workflow while edits are made to it: lists are asked by id and changed in place, so that thousands of edits stay quick.

import type { Edge, Workflow, WorkflowNode } from "@astraflow/protocol";
import { isObject, parseJsonPointer, withValueAt } from "../values/binding-path.ts";
import { isEqualJson } from "../values/canonical-json.ts";

export type Subgraph = NonNullable<Workflow["subgraphs"]>[number];

/** Why a change cannot be made; null: it is made. */
export type Refusal = string | null;

/** A field by JSON pointer; without a value it is taken away. */
export interface FieldEdit {
  readonly path: string;
  readonly value?: unknown;
}

/** A list whose items have ids. Ids may be there twice, for a draft may be wrong; then the first is meant, and removing removes all. */
export class KeyedList<T extends { readonly id: string }> {
  readonly #what: string;
  readonly #items: T[];
  readonly #byId = new Map<string, T[]>();

  /** `what` is how a refusal calls an item. */
  constructor(what: string, items: readonly T[]) {
    this.#what = what;
    this.#items = [...items];
    for (const item of items) this.#addToIndex(item);
  }

  get items(): T[] {
    return this.#items;
  }

  get(id: string): T | undefined {
    return this.#byId.get(id)?.[0];
  }

  /** The same thing added twice is there once: two people may have made the same edit. */
  add(item: T, at: number | undefined): Refusal {
    const other = this.get(item.id);
    if (other !== undefined) return isEqualJson(other, item) ? null : this.duplicate(item.id);
    this.#items.splice(at ?? this.#items.length, 0, item);
    this.#addToIndex(item);
    return null;
  }

  duplicate(id: string): string {
    return `a different ${this.#what} ${id} already exists`;
  }

  all(id: string): readonly T[] {
    return this.#byId.get(id) ?? [];
  }

  remove(id: string): null {
    for (const item of this.all(id)) this.#items.splice(this.#items.indexOf(item), 1);
    this.#byId.delete(id);
    return null;
  }

  setField(id: string, edit: FieldEdit, reservedFields: readonly string[]): Refusal {
    const refusal = checkReservedField(edit.path, reservedFields);
    const item = this.get(id);
    if (refusal !== null || item === undefined) return refusal ?? `there is no ${this.#what} ${id}`;
    this.replace(item, withField(item, edit));
    return null;
  }

  replace(item: T, next: T): void {
    this.#items[this.#items.indexOf(item)] = next;
    const same = this.#byId.get(item.id) ?? [];
    same[same.indexOf(item)] = next;
  }

  /** What is not named comes after, as it stood. */
  order(ids: readonly string[]): null {
    const ranks = new Map(ids.map((id, rank) => [id, rank]));
    const rank = (item: T) => ranks.get(item.id) ?? ids.length;
    this.#items.sort((a, b) => rank(a) - rank(b));
    return null;
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
    this.nodes = new KeyedList("node", nodes);
    this.edges = new KeyedList("edge", edges);
  }

  addEdge(edge: Edge, at: number | undefined): Refusal {
    const isNew = this.edges.get(edge.id) === undefined;
    if (isNew && this.#edgesByNode !== null) addEdgeToIndex(this.#edgesByNode, edge);
    return this.edges.add(edge, at);
  }

  removeEdge(id: string): null {
    for (const edge of this.edges.all(id))
      for (const end of [edge.source.node, edge.target.node]) this.#edgesByNode?.get(end)?.delete(edge);
    return this.edges.remove(id);
  }

  removeNode(id: string): null {
    if (this.#edgesByNode === null) {
      this.#edgesByNode = new Map();
      for (const edge of this.edges.items) addEdgeToIndex(this.#edgesByNode, edge);
    }
    for (const edge of [...(this.#edgesByNode.get(id) ?? [])]) this.removeEdge(edge.id);
    return this.nodes.remove(id);
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

  addSubgraph(subgraph: Subgraph, at: number | undefined): Refusal {
    this.subgraphs ??= new KeyedList<Subgraph>("subgraph", []);
    const existing = this.subgraphs.get(subgraph.id);
    if (existing === undefined) return this.subgraphs.add(subgraph, at);
    return isEqualJson(this.#finishSubgraph(existing), subgraph) ? null : this.subgraphs.duplicate(subgraph.id);
  }

  removeSubgraph(id: string): null {
    this.#openSubgraphs.delete(id);
    return this.subgraphs?.remove(id) ?? null;
  }

  writeEmptySubgraphs(isWritten: boolean): null {
    if ((this.subgraphs?.items.length ?? 0) === 0) this.subgraphs = isWritten ? new KeyedList<Subgraph>("subgraph", []) : null;
    return null;
  }

  replaceGraph(name: string | undefined, value: Workflow): Refusal {
    if (name !== undefined && this.subgraphs?.get(name) === undefined) return `there is no subgraph ${name}`;
    if (name === undefined) {
      [this.#root, this.subgraphs] = openWorkflow(value);
      this.#openSubgraphs.clear();
    } else this.#openSubgraphs.set(name, new GraphDraft(value));
    return null;
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
  return [new GraphDraft(graph as Workflow), subgraphs === undefined ? null : new KeyedList("subgraph", subgraphs)];
}

export function checkReservedField(path: string, fields: readonly string[]): Refusal {
  const [first] = parseJsonPointer(path);
  if (first === undefined) return "path must name a field";
  return fields.includes(first) ? `field ${first} cannot be set; there are edits for it` : null;
}

export function withField<T>(target: T, { path, value }: FieldEdit): T {
  const steps = parseJsonPointer(path);
  return (value === undefined ? removeField(target, steps) : withValueAt(target, steps, value)) as T;
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
