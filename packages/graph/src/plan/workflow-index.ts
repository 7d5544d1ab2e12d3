// Indexes the graphs of a workflow: the root and its subgraphs by name, their nodes by id, and containers by alias.

import type { PortBinding, SchemaMode, Workflow } from "@astraflow/protocol";
import type { JsonPath, LocatedProblem } from "../values/binding-path.ts";
import { compareVersions } from "../values/version-order.ts";
import { type AuthoredNode, type ContainerSettings, isContainer, readContainerSettings } from "./container-settings.ts";

/** A node's place in its plan: authored nodes first, in their order, then the middlewares of each, outermost first. */
export interface NodeEntry {
  readonly ordinal: number;
  readonly node: AuthoredNode;
  /** Of a middleware: the ordinal of its host. */
  readonly host: number | null;
  readonly chainIndex: number | null;
  readonly container: ContainerSettings | null;
  /** What is wrong with the settings of the container. */
  readonly containerProblems: readonly LocatedProblem[];
}

export interface IndexedGraph {
  /** Id of the subgraph; null for the workflow itself. */
  readonly subgraphId: string | null;
  readonly label: string | null;
  /** Where its definition stands in the workflow. */
  readonly definitionPath: JsonPath;
  readonly definition: Workflow;
  readonly entries: readonly NodeEntry[];
  /** Least versions of packages that its runtimes hint at. */
  readonly minVersions: ReadonlyMap<string, string>;
  /** The first of each id. */
  readonly byId: ReadonlyMap<string, NodeEntry>;
}

export interface WorkflowIndex {
  readonly root: IndexedGraph;
  /** The root, then its subgraphs. */
  readonly graphs: readonly IndexedGraph[];
  /** Subgraphs of the root; those that a subgraph's own definition carries are never looked at. */
  readonly subgraphs: ReadonlyMap<string, IndexedGraph>;
  /** Containers of a graph by everything they may be called. */
  readonly containersByAlias: ReadonlyMap<IndexedGraph, ReadonlyMap<string, readonly NodeEntry[]>>;
}

export function indexWorkflow(workflow: Workflow): WorkflowIndex {
  const subgraphs = new Map<string, IndexedGraph>();
  for (const [index, { id, metadata, definition }] of (workflow.subgraphs ?? []).entries())
    if (!subgraphs.has(id))
      subgraphs.set(id, indexGraph(id, metadata?.label ?? null, ["subgraphs", index, "definition"], definition));
  const root = indexGraph(null, null, [], workflow);
  const graphs = [root, ...subgraphs.values()];
  const containersByAlias = new Map(graphs.map((graph) => [graph, groupContainersByAlias(graph, subgraphs)]));
  return { root, graphs, subgraphs, containersByAlias };
}

function groupContainersByAlias(graph: IndexedGraph, subgraphs: ReadonlyMap<string, IndexedGraph>): Map<string, NodeEntry[]> {
  const byAlias = new Map<string, NodeEntry[]>();
  for (const entry of graph.entries) {
    if (entry.container === null) continue;
    for (const name of aliasesOf(entry, subgraphs)) {
      const others = byAlias.get(name);
      if (others === undefined) byAlias.set(name, [entry]);
      else others.push(entry);
    }
  }
  return byAlias;
}

/** A container is called by its id, its label, its subgraph, or that one's label. */
function aliasesOf(entry: NodeEntry, subgraphs: ReadonlyMap<string, IndexedGraph>): Set<string> {
  const subgraph = entry.container?.subgraph ?? "";
  return new Set([entry.node.id, entry.node.label, subgraph, subgraphs.get(subgraph)?.label ?? subgraph]);
}

function indexGraph(name: string | null, label: string | null, definitionPath: JsonPath, definition: Workflow): IndexedGraph {
  const entries: NodeEntry[] = definition.nodes.map((node, ordinal) => createNodeEntry(node, ordinal, null, null));
  for (const [host, node] of definition.nodes.entries())
    for (const [index, middleware] of (node.middlewares ?? []).entries())
      entries.push(createNodeEntry(middleware, entries.length, host, index));
  const byId = new Map<string, NodeEntry>();
  for (const entry of entries) if (!byId.has(entry.node.id)) byId.set(entry.node.id, entry);
  return { subgraphId: name, label, definitionPath, definition, entries, minVersions: minVersionHints(definition), byId };
}

function createNodeEntry(node: AuthoredNode, ordinal: number, host: number | null, chainIndex: number | null): NodeEntry {
  // A middleware cannot be a container.
  const read = host === null && isContainer(node) ? readContainerSettings(node) : null;
  return { ordinal, node, host, chainIndex, container: read?.settings ?? null, containerProblems: read?.problems ?? [] };
}

/** `runtimes.*.workerHints`: the least version hinted at, by package; of several hints for one package the highest. */
function minVersionHints(definition: Workflow): ReadonlyMap<string, string> {
  const hints = new Map<string, string>();
  for (const { workerHints } of Object.values(definition.runtimes ?? {})) {
    if (workerHints?.package === undefined || workerHints.minVersion === undefined) continue;
    const other = hints.get(workerHints.package);
    if (other === undefined || compareVersions(other, workerHints.minVersion) < 0)
      hints.set(workerHints.package, workerHints.minVersion);
  }
  return hints;
}

/** The least version that is enough for a node: as its policy says, else as its graph hints, else the workflow. Null: its own alone. */
export const minVersionFor = (
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  { policy, package: { name } }: AuthoredNode,
): string | null => policy?.minVersion ?? graph.minVersions.get(name) ?? workflowIndex.root.minVersions.get(name) ?? null;

/** As the policy of the node says, else its graph, else the workflow. Undefined: none of them names it. */
export const schemaModeOf = (
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  { policy }: AuthoredNode,
): SchemaMode | undefined => policy?.schemaMode ?? graph.definition.schemaMode ?? workflowIndex.root.definition.schemaMode;

/** How messages name a node: `node 3211… (Count)`. */
export const describeNode = ({ id, label }: Pick<NodeEntry["node"], "id" | "label">): string => `node ${id} (${label})`;

/** The place of a node in its graph's definition, as steps. */
export const definitionPathOf = (entry: NodeEntry): JsonPath =>
  entry.host === null ? ["nodes", entry.ordinal] : ["nodes", entry.host, "middlewares", entry.chainIndex ?? 0];

/** Where a binding points: at its own node, at another of the same graph, or into a container. */
export type BindingScope =
  | { readonly kind: "own" }
  | { readonly kind: "node"; readonly node: string }
  | { readonly kind: "subgraph"; readonly aliases: readonly string[]; readonly node: string | null };

/** `scope` is the parsed form of `prefix` and wins over it. A text says what is wrong. */
export function parseBindingScope(binding: PortBinding): BindingScope | string {
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
export interface ContainerPath {
  readonly container: NodeEntry;
  readonly rest: readonly string[];
}

/** From a port's owner along its aliases. The first alias may name the owner itself, or another container of the graph. */
export function resolveContainerPath(
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  owner: NodeEntry,
  scope: Extract<BindingScope, { kind: "subgraph" }>,
): ContainerPath | string {
  const [first = "", ...aliases] = scope.aliases;
  const entry =
    owner.container !== null && aliasesOf(owner, workflowIndex.subgraphs).has(first)
      ? owner
      : findContainerByAlias(workflowIndex, graph, first);
  if (typeof entry === "string") return entry;
  const rest: string[] = [];
  let subgraph = workflowIndex.subgraphs.get(entry.container?.subgraph ?? "");
  for (const alias of aliases) {
    if (subgraph === undefined) break;
    const next = findContainerByAlias(workflowIndex, subgraph, alias);
    if (typeof next === "string") return next;
    rest.push(next.node.id);
    subgraph = workflowIndex.subgraphs.get(next.container?.subgraph ?? "");
  }
  if (subgraph === undefined) return `alias "${scope.aliases.join(".")}" leads to a subgraph that is not there`;
  const node = scope.node ?? (subgraph.definition.nodes.length === 1 ? subgraph.definition.nodes[0]?.id : undefined);
  if (node === undefined)
    return `alias "${scope.aliases.join(".")}" needs a #node, for subgraph ${subgraph.subgraphId} has several`;
  if (!subgraph.byId.has(node)) return `subgraph ${subgraph.subgraphId} has no node ${node}`;
  return { container: entry, rest: [...rest, node] };
}

function findContainerByAlias(workflowIndex: WorkflowIndex, graph: IndexedGraph, alias: string): NodeEntry | string {
  const found = workflowIndex.containersByAlias.get(graph)?.get(alias) ?? [];
  if (found.length === 1 && found[0] !== undefined) return found[0];
  const where = graph.subgraphId === null ? "this workflow" : `subgraph ${graph.subgraphId}`;
  return found.length === 0
    ? `${where} has no container called "${alias}"`
    : `"${alias}" means ${found.length} containers of ${where}; use the id of one`;
}

/** What an adapter declares about its idempotency, where that is not that its calls may be repeated under one key. */
export const declaredUnrepeatable = (idempotency: string | undefined): string | undefined =>
  idempotency === "per_request" ? undefined : idempotency;
