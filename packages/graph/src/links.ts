// What the edges of one graph mean once ports, middlewares and scopes are resolved: who waits for whom, and which value travels where.
// Used by the compiler, which takes what resolves, and by the checker, which names what does not.

import type { Edge, Port } from "@astraflow/protocol";
import { type Graph, type Graphs, type Place, scopeOf, wayInto } from "./graphs.ts";
import { type BindingPath, pointerOf, readPath } from "./path.ts";
import type { Input } from "./plan-types.ts";

/** Key of a container's parameters and results under which values for and from nodes inside it travel. */
export const scopedKey = "__scoped";

type Side = "source" | "target";

/** A value that has to cross into or out of a container, because a port is bound to a node inside. */
export interface Crossing {
  readonly side: Side;
  /** Ordinal of the container. */
  readonly container: number;
  /** Containers on the way, by id, then the node. */
  readonly rest: readonly string[];
  readonly path: BindingPath;
}

export interface Link {
  /** Pairs of ordinals: the second waits for the first. */
  readonly waits: readonly (readonly [number, number])[];
  /** The value it carries, and the ordinal that takes it; null: it only orders. */
  readonly carries: { readonly target: number; readonly input: Input; readonly source: Port; readonly into: Port } | null;
  readonly crossings: readonly Crossing[];
  readonly problems: readonly LinkProblem[];
}

export interface LinkProblem {
  /** Under the edge, or under the node whose port is bound wrongly. */
  readonly at: readonly (string | number)[];
  readonly node: string | null;
  readonly message: string;
}

export function linkOf(graphs: Graphs, graph: Graph, edge: Edge, index: number): Link {
  const problems: LinkProblem[] = [];
  const source = endOf(graphs, graph, edge, "source", index, problems);
  const target = endOf(graphs, graph, edge, "target", index, problems);
  if (source === null || target === null) return { waits: [], carries: null, crossings: [], problems };
  const waits: [number, number][] = [[source.node, target.node]];
  const { bound: from } = source;
  const { bound: to } = target;
  if (from === null || to === null) return { waits, carries: null, crossings: [], problems };
  if (to.path.root !== "parameters") {
    const message = `edge ${edge.id} leads into ${to.port.binding.path} of node ${edge.target.node}; edges write parameters alone`;
    problems.push({ at: ["edges", index, "target", "port"], node: edge.target.node, message });
    return { waits, carries: null, crossings: [], problems };
  }
  // A port bound to another node moves the value, and with it the waiting: that node must have ended, or must not have begun.
  const waited = [hostOf(graph, from.ordinal), hostOf(graph, to.ordinal)] as const;
  if (waited[0] !== source.node) waits.push([waited[0], target.node]);
  if (waited[1] !== target.node) waits.push([waited[0], waited[1]]);
  const input: Input = { source: from.ordinal, from: from.path, to: to.path.steps };
  const crossings = [from.crossing, to.crossing].filter((one) => one !== null);
  return { waits, carries: { target: to.ordinal, input, source: from.port, into: to.port }, crossings, problems };
}

const hostOf = (graph: Graph, ordinal: number): number => graph.places[ordinal]?.host ?? ordinal;

interface Bound {
  readonly port: Port;
  readonly ordinal: number;
  readonly path: BindingPath;
  readonly crossing: Crossing | null;
}

/** One end of an edge: the node that is drawn, and where its port really reads or writes. Null: there is no such node. */
function endOf(
  graphs: Graphs,
  graph: Graph,
  edge: Edge,
  side: Side,
  index: number,
  problems: LinkProblem[],
): { readonly node: number; readonly bound: Bound | null } | null {
  const end = edge[side];
  const drawn = graph.byId.get(end.node);
  if (drawn === undefined || drawn.host !== null) {
    const message = `edge ${edge.id} names node ${end.node}, which ${graph.name === null ? "this workflow" : `subgraph ${graph.name}`} does not have`;
    problems.push({ at: ["edges", index, side, "node"], node: null, message });
    return null;
  }
  const found = portOf(graph, drawn, end.port, side);
  if (typeof found === "string") {
    const message = `edge ${edge.id} uses ${found}`;
    problems.push({ at: ["edges", index, side, "port"], node: end.node, message });
    return { node: drawn.ordinal, bound: null };
  }
  if (found === null) return { node: drawn.ordinal, bound: null };
  const bound = boundOf(graphs, graph, found.place, found.port, side);
  if (typeof bound !== "string") return { node: drawn.ordinal, bound };
  const message = `node ${found.place.node.id}, port ${found.port.key}: ${bound}`;
  problems.push({ at: ["edges", index, side, "port"], node: found.place.node.id, message });
  return { node: drawn.ordinal, bound: null };
}

const sideWords = { source: "output", target: "input" } as const;

/** A node that draws no ports at all takes any edge as an order (null); one that draws ports takes only those. */
function portOf(graph: Graph, drawn: Place, key: string, side: Side): { place: Place; port: Port } | null | string {
  const word = sideWords[side];
  const handle = /^mw:([^:]+):(input|output):(.+)$/s.exec(key);
  if (handle === null) return portWith(drawn, key, side);
  const [, id = "", direction, inner = ""] = handle;
  const place = graph.byId.get(id);
  if (place === undefined || place.host !== drawn.ordinal)
    return `port "${key}", but node ${drawn.node.id} has no middleware ${id}`;
  if (direction !== word) return `port "${key}" as ${word}; it is an ${direction}`;
  return portWith(place, inner, side);
}

function portWith(place: Place, key: string, side: Side): { place: Place; port: Port } | null | string {
  const ports = side === "source" ? place.node.ui?.outputPorts : place.node.ui?.inputPorts;
  if (ports === undefined) return null;
  const port = ports.find((one) => one.key === key);
  if (port !== undefined) return { place, port };
  const known = ports.length === 0 ? "it has none" : `it has ${ports.map((one) => one.key).join(", ")}`;
  return `${sideWords[side]} port "${key}" of node ${place.node.id}; ${known}`;
}

/** Null: the binding itself cannot be read, which the checker says of every port, drawn upon or not. */
function boundOf(graphs: Graphs, graph: Graph, owner: Place, port: Port, side: Side): Bound | null | string {
  const path = readPath(port.binding.path);
  const scope = scopeOf(port.binding);
  if (typeof path === "string" || typeof scope === "string") return null;
  if (scope.kind === "own") return { port, ordinal: owner.ordinal, path, crossing: null };
  if (scope.kind === "node") {
    const other = graph.byId.get(scope.node);
    return other === undefined
      ? `is bound to node ${scope.node}, which is not in the same graph`
      : { port, ordinal: other.ordinal, path, crossing: null };
  }
  const way = wayInto(graphs, graph, owner, scope);
  if (typeof way === "string") return way;
  if (side === "target" && path.root !== "parameters") return `leads into ${port.binding.path}; edges write parameters alone`;
  const crossing: Crossing = { side, container: way.container.ordinal, rest: way.rest, path };
  return { port, ordinal: way.container.ordinal, path: crossingPath(crossing, way.container), crossing };
}

/** Where a crossing value stands in the container's own parameters or results. */
export function crossingPath(crossing: Crossing, container: Place): BindingPath {
  const key = crossingKey(crossing.rest, crossing.path);
  if (crossing.side === "target") return { root: "parameters", steps: [scopedKey, key] };
  const mode = container.container?.loop?.mode;
  // A loop over a list has one value per iteration: they travel as a list.
  const steps = mode === "forEach" || mode === "map" ? ["items", "*", scopedKey, key] : [scopedKey, key];
  return { root: "results", steps };
}

export const crossingKey = (rest: readonly string[], path: BindingPath): string =>
  `${rest.join("/")}:${pointerOf([path.root, ...path.steps])}`;
