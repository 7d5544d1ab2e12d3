// Resolves the ports, middlewares and scopes of edges: which node waits for which, and which value goes where.

import type { Edge, NodePort } from "@astraflow/protocol";
import { type BindingPath, isObject, type LocatedProblem, parseBindingPath, toJsonPointer } from "../values/binding-path.ts";
import type { EdgeInput } from "./plan-types.ts";
import {
  describeNode,
  type IndexedGraph,
  type NodeEntry,
  parseBindingScope,
  resolveContainerPath,
  type WorkflowIndex,
} from "./workflow-index.ts";

/** Key of a container's parameters and results under which values for and from nodes inside it travel. */
export const scopedKey = "__scoped";

type EdgeSide = "source" | "target";

/** A value that has to cross into or out of a container, because a port is bound to a node inside. */
export interface ContainerCrossing {
  readonly side: EdgeSide;
  /** Ordinal of the container. */
  readonly container: number;
  /** Containers on the way, by id, then the node. */
  readonly rest: readonly string[];
  readonly path: BindingPath;
}

export interface ResolvedEdge {
  /** Pairs of ordinals: the second waits for the first. */
  readonly dependencies: readonly (readonly [number, number])[];
  /** The value it carries, and the ordinal that takes it; null: an end of it is wrong. */
  readonly transfer: {
    readonly target: number;
    readonly input: EdgeInput;
    readonly source: NodePort;
    readonly into: NodePort;
  } | null;
  readonly crossings: readonly ContainerCrossing[];
  readonly problems: readonly EdgeProblem[];
}

/** Located under the edge, or under the node whose port is bound wrongly. */
export interface EdgeProblem extends LocatedProblem {
  readonly node: string | null;
}

/** The edges of every graph, in their order. */
export type ResolvedEdges = ReadonlyMap<IndexedGraph, readonly ResolvedEdge[]>;

export const resolveAllEdges = (index: WorkflowIndex): ResolvedEdges => runToEnd(resolveEdgesInSteps(index));

/** Edges between two places where a caller may pause. */
const edgesPerStep = 2_000;

/** The same in short steps. */
export function* resolveEdgesInSteps(index: WorkflowIndex): Generator<void, ResolvedEdges> {
  const resolved = new Map<IndexedGraph, readonly ResolvedEdge[]>();
  for (const graph of index.graphs) {
    const ofGraph: ResolvedEdge[] = [];
    for (const [at, edge] of graph.definition.edges.entries()) {
      ofGraph.push(resolveEdge({ index, graph, edge, at }));
      if ((at + 1) % edgesPerStep === 0) yield;
    }
    resolved.set(graph, ofGraph);
  }
  return resolved;
}

/** Without pausing. */
export function runToEnd<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** An edge on its way through the functions below. */
interface EdgeContext {
  readonly index: WorkflowIndex;
  readonly graph: IndexedGraph;
  readonly edge: Edge;
  /** Its place in the list of edges. */
  readonly at: number;
}

function resolveEdge(context: EdgeContext): ResolvedEdge {
  const { graph, edge } = context;
  const problems: EdgeProblem[] = [];
  const source = resolveEdgeEnd(context, "source", problems);
  const target = resolveEdgeEnd(context, "target", problems);
  if (source === null || target === null) return { dependencies: [], transfer: null, crossings: [], problems };
  const dependencies: [number, number][] = [[source.node, target.node]];
  const { bound: from } = source;
  const { bound: to } = target;
  if (from === null || to === null) return { dependencies, transfer: null, crossings: [], problems };
  if (to.path.root !== "parameters") {
    const message = `edge ${edge.id} leads into ${to.port.binding.path} of node ${edge.target.node}; edges can only write parameters`;
    problems.push({ at: ["edges", context.at, "target", "port"], node: edge.target.node, message });
    return { dependencies, transfer: null, crossings: [], problems };
  }
  // A port bound to another node moves the value, and with it the waiting: that node must have ended, or must not have begun.
  const hosts = [hostOrdinalOf(graph, from.ordinal), hostOrdinalOf(graph, to.ordinal)] as const;
  if (hosts[0] !== source.node) dependencies.push([hosts[0], target.node]);
  if (hosts[1] !== target.node) dependencies.push([hosts[0], hosts[1]]);
  const input: EdgeInput = { source: from.ordinal, from: from.path, to: to.path.steps };
  const crossings = [from.crossing, to.crossing].filter((candidate) => candidate !== null);
  return { dependencies, transfer: { target: to.ordinal, input, source: from.port, into: to.port }, crossings, problems };
}

const hostOrdinalOf = (graph: IndexedGraph, ordinal: number): number => graph.entries[ordinal]?.host ?? ordinal;

interface BoundPort {
  readonly port: NodePort;
  readonly ordinal: number;
  readonly path: BindingPath;
  readonly crossing: ContainerCrossing | null;
}

/** One end of an edge: the node that is drawn, and where its port really reads or writes. Null: there is no such node. */
function resolveEdgeEnd(
  { index, graph, edge, at }: EdgeContext,
  side: EdgeSide,
  problems: EdgeProblem[],
): { readonly node: number; readonly bound: BoundPort | null } | null {
  const end = edge[side];
  const report = (field: "node" | "port", node: string | null, message: string) =>
    problems.push({ at: ["edges", at, side, field], node, message });
  const endNode = graph.byId.get(end.node);
  if (endNode === undefined || endNode.host !== null) {
    const where = graph.subgraphId === null ? "this workflow" : `subgraph ${graph.subgraphId}`;
    report("node", null, `edge ${edge.id} names node ${end.node}, which ${where} does not have`);
    return null;
  }
  const found = findPort(graph, endNode, end.port, side);
  if (typeof found === "string") {
    report("port", end.node, `edge ${edge.id} uses ${found}`);
    return { node: endNode.ordinal, bound: null };
  }
  const bound = bindPort(index, graph, found, side);
  if (typeof bound !== "string") return { node: endNode.ordinal, bound };
  const { place, port } = found;
  report("port", place.node.id, `${describeNode(place.node)}, port ${port.key}: ${bound}`);
  return { node: endNode.ordinal, bound: null };
}

interface FoundPort {
  readonly place: NodeEntry;
  readonly port: NodePort;
}

const portDirections = { source: "output", target: "input" } as const;

/** A string says why there is no such port. */
function findPort(graph: IndexedGraph, endNode: NodeEntry, key: string, side: EdgeSide): FoundPort | string {
  const wantedDirection = portDirections[side];
  const handle = /^mw:([^:]+):(input|output):(.+)$/s.exec(key);
  if (handle === null) return findPortByKey(endNode, key, side);
  const [, id = "", direction, inner = ""] = handle;
  const entry = graph.byId.get(id);
  if (entry === undefined || entry.host !== endNode.ordinal)
    return `port "${key}", but ${describeNode(endNode.node)} has no middleware ${id}`;
  if (direction !== wantedDirection) return `port "${key}" as ${wantedDirection}; it is an ${direction}`;
  return findPortByKey(entry, inner, side);
}

/** Built once for a list of ports: as many edges as a workflow may have can lead to one node. */
const portMaps = new WeakMap<readonly NodePort[], ReadonlyMap<string, NodePort>>();

function portsByKey(ports: readonly NodePort[]): ReadonlyMap<string, NodePort> {
  const known = portMaps.get(ports);
  if (known !== undefined) return known;
  // Of two ports with one key the first counts.
  const map = new Map([...ports].reverse().map((port) => [port.key, port]));
  portMaps.set(ports, map);
  return map;
}

const namesShownMax = 50;
const nameCharsShown = 100;

/** The first names of a list, for a message. */
export const formatNames = (names: readonly string[]): string =>
  `${names
    .slice(0, namesShownMax)
    .map((name) => (name.length > nameCharsShown ? `${name.slice(0, nameCharsShown)}…` : name))
    .join(", ")}${names.length > namesShownMax ? ` and ${names.length - namesShownMax} more` : ""}`;

function findPortByKey(entry: NodeEntry, key: string, side: EdgeSide): FoundPort | string {
  const ports = side === "source" ? entry.node.ui?.outputPorts : entry.node.ui?.inputPorts;
  if (ports === undefined) return defaultPort(entry, key, side);
  const port = portsByKey(ports).get(key);
  if (port !== undefined) return { place: entry, port };
  const known = ports.length === 0 ? "it has none" : `it has ${formatNames(ports.map((candidate) => candidate.key))}`;
  return `${portDirections[side]} port "${key}" of ${describeNode(entry.node)}; ${known}`;
}

/**
 * A node that declares no ports has one for each parameter and each result, under its name. A schema that lists all of them refuses others;
 * names that begin with two underscores are the scheduler's own.
 */
function defaultPort(entry: NodeEntry, key: string, side: EdgeSide): FoundPort | string {
  const root = side === "source" ? "results" : "parameters";
  const port = { key, label: key, binding: { path: toJsonPointer([root, key]) } };
  const known = listedNames(entry.node.schema?.[root]);
  const isRefused = key.startsWith("__") || typeof parseBindingPath(port.binding.path) === "string";
  if (!isRefused && (known === null || known.isOpen || known.has(key))) return { place: entry, port };
  const names = known === null || known.names.length === 0 ? "" : `; its ${root} are ${formatNames(known.names)}`;
  return `${portDirections[side]} port "${key}" of ${describeNode(entry.node)}, which declares no ports${names}`;
}

/** The properties that a schema of parameters or results lists, and whether there may be others. */
export interface ListedNames {
  readonly names: readonly string[];
  has(name: string): boolean;
  readonly isOpen: boolean;
  /** Something in the schema says that there may be others; else one that is not listed is perhaps a slip. */
  readonly hasUnlisted: boolean;
}

/** Keywords by which a schema has properties that are not in its own list; the second kind may name some more. */
const otherKeywords = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf"];
const namingKeywords = ["if", "dependentSchemas", "dependencies", "propertyNames", "unevaluatedProperties", "$dynamicRef"];

/** Built once for a schema, like the ports. */
const listedNamesOf = new WeakMap<object, ListedNames>();

/** Null: the schema lists none. */
export function listedNames(schema: unknown): ListedNames | null {
  if (!isObject(schema) || !isObject(schema["properties"])) return null;
  const known = listedNamesOf.get(schema);
  if (known !== undefined) return known;
  const { properties } = schema;
  const hasOthers = otherKeywords.some((keyword) => schema[keyword] !== undefined);
  const listed = {
    names: Object.keys(properties),
    has: (name: string) => Object.hasOwn(properties, name),
    isOpen: schema["additionalProperties"] !== false || hasOthers,
    hasUnlisted:
      (schema["additionalProperties"] ?? false) !== false ||
      hasOthers ||
      namingKeywords.some((keyword) => schema[keyword] !== undefined),
  };
  listedNamesOf.set(schema, listed);
  return listed;
}

/** Null: the binding itself cannot be read, which the checker says of every port, drawn upon or not. */
function bindPort(
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  { place: owner, port }: FoundPort,
  side: EdgeSide,
): BoundPort | null | string {
  const path = parseBindingPath(port.binding.path);
  const scope = parseBindingScope(port.binding);
  if (typeof path === "string" || typeof scope === "string") return null;
  if (scope.kind === "own") return { port, ordinal: owner.ordinal, path, crossing: null };
  if (scope.kind === "node") {
    const other = graph.byId.get(scope.node);
    return other === undefined
      ? `is bound to node ${scope.node}, which is not in the same graph`
      : { port, ordinal: other.ordinal, path, crossing: null };
  }
  const way = resolveContainerPath(workflowIndex, graph, owner, scope);
  if (typeof way === "string") return way;
  if (side === "target" && path.root !== "parameters") return `leads into ${port.binding.path}; edges can only write parameters`;
  const crossing: ContainerCrossing = { side, container: way.container.ordinal, rest: way.rest, path };
  return { port, ordinal: way.container.ordinal, path: crossingPath(crossing, way.container), crossing };
}

/** Where a crossing value stands in the container's own parameters or results. */
export function crossingPath(crossing: ContainerCrossing, container: NodeEntry): BindingPath {
  const key = crossingKey(crossing.rest, crossing.path);
  if (crossing.side === "target") return { root: "parameters", steps: [scopedKey, key] };
  const mode = container.container?.loop?.mode;
  // A loop over a list has one value per iteration: they travel as a list.
  const steps = mode === "forEach" || mode === "map" ? ["items", "*", scopedKey, key] : [scopedKey, key];
  return { root: "results", steps };
}

export const crossingKey = (rest: readonly string[], path: BindingPath): string =>
  `${rest.join("/")}:${toJsonPointer([path.root, ...path.steps])}`;
