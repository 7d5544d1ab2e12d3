// All graphs of one workflow, by name: the root and its subgraphs, each with its nodes by id, and the way from an alias into a container.
// Finding only; what edges mean is links.ts, what is wrong with a graph is check.ts.

import type { Binding, Workflow } from "@astraflow/protocol";
import { type AnyNode, type ContainerForm, isContainer, readContainer } from "./container.ts";
import { hintsOf } from "./hints.ts";

/** A node's place in its plan: authored nodes first, in their order, then the middlewares of each, outermost first. */
export interface Place {
  readonly ordinal: number;
  readonly node: AnyNode;
  /** Of a middleware: the ordinal of its host. */
  readonly host: number | null;
  readonly chainIndex: number | null;
  readonly container: ContainerForm | null;
}

export interface Graph {
  /** Id of the subgraph; null for the workflow itself. */
  readonly name: string | null;
  readonly label: string | null;
  /** Where its definition stands in the workflow. */
  readonly under: readonly (string | number)[];
  readonly definition: Workflow;
  readonly places: readonly Place[];
  /** Least versions of packages that its runtimes hint at. */
  readonly hints: ReadonlyMap<string, string>;
  /** The first of each id. */
  readonly byId: ReadonlyMap<string, Place>;
}

export interface Graphs {
  readonly root: Graph;
  /** Subgraphs of the root; those that a subgraph's own definition carries are never looked at. */
  readonly byName: ReadonlyMap<string, Graph>;
  /** Containers of a graph by everything they may be called. */
  readonly called: ReadonlyMap<Graph, ReadonlyMap<string, readonly Place[]>>;
}

export function graphsOf(workflow: Workflow): Graphs {
  const byName = new Map<string, Graph>();
  for (const [index, { id, metadata, definition }] of (workflow.subgraphs ?? []).entries())
    if (!byName.has(id)) byName.set(id, graphOf(id, metadata?.label ?? null, ["subgraphs", index, "definition"], definition));
  const root = graphOf(null, null, [], workflow);
  const called = new Map([root, ...byName.values()].map((graph) => [graph, callsOf(graph, byName)]));
  return { root, byName, called };
}

function callsOf(graph: Graph, byName: ReadonlyMap<string, Graph>): Map<string, Place[]> {
  const calls = new Map<string, Place[]>();
  for (const place of graph.places) {
    if (place.container === null) continue;
    for (const name of namesOf(place, byName)) {
      const same = calls.get(name);
      if (same === undefined) calls.set(name, [place]);
      else same.push(place);
    }
  }
  return calls;
}

/** A container is called by its id, its label, its subgraph, or that one's label. */
function namesOf(place: Place, byName: ReadonlyMap<string, Graph>): Set<string> {
  const subgraph = place.container?.subgraph ?? "";
  return new Set([place.node.id, place.node.label, subgraph, byName.get(subgraph)?.label ?? subgraph]);
}

function graphOf(name: string | null, label: string | null, under: Graph["under"], definition: Workflow): Graph {
  const places: Place[] = definition.nodes.map((node, ordinal) => placeOf(node, ordinal, null, null));
  for (const [host, node] of definition.nodes.entries())
    for (const [index, middleware] of (node.middlewares ?? []).entries())
      places.push(placeOf(middleware, places.length, host, index));
  const byId = new Map<string, Place>();
  for (const place of places) if (!byId.has(place.node.id)) byId.set(place.node.id, place);
  return { name, label, under, definition, places, hints: hintsOf(definition), byId };
}

function placeOf(node: AnyNode, ordinal: number, host: number | null, chainIndex: number | null): Place {
  // A middleware is called and answers: it cannot be a container.
  const container = host === null && isContainer(node) ? readContainer(node).form : null;
  return { ordinal, node, host, chainIndex, container };
}

/** The least version that is enough for a node: as its policy says, else as its graph hints, else the workflow. Null: its own alone. */
export const leastVersion = (graphs: Graphs, graph: Graph, { policy, package: { name } }: AnyNode): string | null =>
  policy?.minVersion ?? graph.hints.get(name) ?? graphs.root.hints.get(name) ?? null;

/** The place of a node in its graph's definition, as steps. */
export const stepsTo = (place: Place): readonly (string | number)[] =>
  place.host === null ? ["nodes", place.ordinal] : ["nodes", place.host, "middlewares", place.chainIndex ?? 0];

/** Where a binding points: at its own node, at another of the same graph, or into a container. */
export type Scope =
  | { readonly kind: "own" }
  | { readonly kind: "node"; readonly node: string }
  | { readonly kind: "subgraph"; readonly aliases: readonly string[]; readonly node: string | null };

/** `scope` is the parsed form of `prefix` and wins over it. A text says what is wrong. */
export function scopeOf(binding: Binding): Scope | string {
  const { scope } = binding;
  if (scope?.kind === "local") return scope.nodeId === undefined ? { kind: "own" } : { kind: "node", node: scope.nodeId };
  if (scope?.subgraphAliases !== undefined && scope.subgraphAliases.length > 0)
    return { kind: "subgraph", aliases: scope.subgraphAliases, node: scope.nodeId ?? null };
  const prefix = scope?.prefix ?? binding.prefix ?? "";
  if (prefix === "") return scope === undefined ? { kind: "own" } : `scope of kind subgraph names no alias`;
  if (prefix.startsWith("#") && prefix.length > 1) return { kind: "node", node: prefix.slice(1) };
  const hash = prefix.indexOf(".#");
  const aliases = prefix.slice(1, hash < 0 ? undefined : hash).split(".");
  const node = hash < 0 ? null : prefix.slice(hash + 2);
  if (!prefix.startsWith("@") || aliases.includes("") || node === "")
    return `prefix "${prefix}" must be #node, @alias or @alias.alias.#node`;
  return { kind: "subgraph", aliases, node };
}

/** The way into a container: ids of the containers on it, then of the node at its end. */
export interface Way {
  readonly container: Place;
  readonly rest: readonly string[];
}

/** From a port's owner along its aliases. The first alias may name the owner itself, or another container of the graph. */
export function wayInto(graphs: Graphs, graph: Graph, owner: Place, scope: Extract<Scope, { kind: "subgraph" }>): Way | string {
  const [first = "", ...aliases] = scope.aliases;
  const entry =
    owner.container !== null && namesOf(owner, graphs.byName).has(first) ? owner : containerCalled(graphs, graph, first);
  if (typeof entry === "string") return entry;
  const rest: string[] = [];
  let inside = graphs.byName.get(entry.container?.subgraph ?? "");
  for (const alias of aliases) {
    if (inside === undefined) break;
    const next = containerCalled(graphs, inside, alias);
    if (typeof next === "string") return next;
    rest.push(next.node.id);
    inside = graphs.byName.get(next.container?.subgraph ?? "");
  }
  if (inside === undefined) return `alias "${scope.aliases.join(".")}" leads to a subgraph that is not there`;
  const node = scope.node ?? (inside.definition.nodes.length === 1 ? inside.definition.nodes[0]?.id : undefined);
  if (node === undefined) return `alias "${scope.aliases.join(".")}" needs a #node, for subgraph ${inside.name} has several`;
  if (!inside.byId.has(node)) return `subgraph ${inside.name} has no node ${node}`;
  return { container: entry, rest: [...rest, node] };
}

function containerCalled(graphs: Graphs, graph: Graph, alias: string): Place | string {
  const found = graphs.called.get(graph)?.get(alias) ?? [];
  if (found.length === 1 && found[0] !== undefined) return found[0];
  const where = graph.name === null ? "this workflow" : `subgraph ${graph.name}`;
  return found.length === 0
    ? `${where} has no container called "${alias}"`
    : `"${alias}" means ${found.length} containers of ${where}; use the id of one`;
}
