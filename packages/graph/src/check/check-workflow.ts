// Checks of a workflow beyond its schema; a list without errors means the engine can run it.

import { findUnknownWorkflowFields, limits, type Workflow } from "@astraflow/protocol";
import { isContainer } from "../plan/container-settings.ts";
import { type ResolvedEdge, resolveAllEdges } from "../plan/edge-resolution.ts";
import {
  describeNode,
  type IndexedGraph,
  indexWorkflow,
  type NodeEntry,
  parseBindingScope,
  type WorkflowIndex,
} from "../plan/workflow-index.ts";
import { type JsonPath, parseBindingPath } from "../values/binding-path.ts";
import { checkDescribedSize } from "./check-size.ts";
import { checkValues, warnOfIgnoredRules } from "./check-values.ts";
import { CatalogueCheck, type PackageCatalogue, type WorkflowCheckOptions } from "./package-catalogue.ts";
import { type GraphProblem, ProblemList } from "./problem-list.ts";

/** Nodes of a plan with every container opened once. */
const planNodesMax = 100_000;

/** Parts of schemas that are looked at for warnings. */
const schemaStepsMax = 200_000;

/** Without a catalogue nothing is said of packages and their node types. */
export function checkWorkflow(
  workflow: Workflow,
  catalogue?: PackageCatalogue,
  options: WorkflowCheckOptions = {},
): GraphProblem[] {
  const workflowIndex = indexWorkflow(workflow);
  const problems = new ProblemList();
  const resolvedEdges = resolveAllEdges(workflowIndex);
  checkUniqueIds(workflowIndex.root, "subgraphs", problems);
  for (const graph of workflowIndex.graphs) checkGraph(workflowIndex, graph, resolvedEdges.get(graph) ?? [], problems);
  checkNesting(workflowIndex, problems);
  checkValues(workflowIndex, resolvedEdges, problems, options.stepsMax);
  warnOfUnknownFields(workflowIndex, problems);
  if (catalogue === undefined) return problems.list;
  checkDescribedSize(workflowIndex, problems, options.stepsMax);
  const catalogueCheck = new CatalogueCheck(workflowIndex, catalogue, problems, options);
  const budget = { stepsLeft: Math.min(schemaStepsMax, options.stepsMax ?? schemaStepsMax) };
  for (const graph of workflowIndex.graphs) {
    catalogueCheck.checkGraph(graph);
    warnOfIgnoredRules(graph, budget, problems);
  }
  // Warnings that were not looked for are no reason to refuse, unless somebody else would look further.
  if (budget.stepsLeft < 0 && options.stepsMax !== undefined) problems.tooCostlyAsWhole(workflowIndex.root, options.stepsMax);
  return problems.list;
}

/** Unknown fields that are listed; one slip is often repeated in every node. */
const unknownFieldsMax = 100;

/** Of a workflow alone: what is said about it depends on nothing else. */
export function findUnknownFieldWarnings(workflow: Workflow): GraphProblem[] {
  const problems = new ProblemList();
  warnOfUnknownFields(indexWorkflow(workflow), problems);
  return problems.list;
}

/** They are kept, since dashboards and importers store things of their own there; a misspelt one must not go unnoticed. */
function warnOfUnknownFields({ root }: WorkflowIndex, problems: ProblemList): void {
  for (const { path, hint } of findUnknownWorkflowFields(root.definition, unknownFieldsMax)) {
    const name = JSON.stringify(String(path.at(-1)).slice(0, 100)).slice(1, -1);
    problems.warning(
      root,
      path,
      `${name} is not a known field of ${describePlace(path)}, so it is kept and has no effect${hint}`,
    );
  }
}

/** The object that a path leads into: `the workflow`, `nodes.2`, `metadata`. */
const describePlace = (path: JsonPath): string => (path.length === 1 ? "the workflow" : path.slice(0, -1).join("."));

function checkUniqueIds(graph: IndexedGraph, list: "subgraphs" | "edges", problems: ProblemList): void {
  const seen = new Set<string>();
  for (const [index, { id }] of (graph.definition[list] ?? []).entries()) {
    if (seen.has(id)) problems.error(graph, [list, index, "id"], `two ${list} share the id ${id}; give one of them its own`);
    seen.add(id);
  }
}

function checkGraph(
  workflowIndex: WorkflowIndex,
  graph: IndexedGraph,
  resolvedEdges: readonly ResolvedEdge[],
  problems: ProblemList,
): void {
  for (const entry of graph.entries) {
    const first = graph.byId.get(entry.node.id);
    if (first !== undefined && first !== entry) problems.nodeError(graph, entry, ["id"], duplicateIdMessage(first, entry));
    checkPorts(graph, entry, problems);
    checkRole(graph, entry, problems);
    checkContainer(workflowIndex, graph, entry, problems);
  }
  checkUniqueIds(graph, "edges", problems);
  for (const edge of resolvedEdges) for (const { at, node, message } of edge.problems) problems.error(graph, at, message, node);
  const cycle = findCycle(
    graph.entries.length,
    resolvedEdges.flatMap((edge) => edge.dependencies),
  );
  if (cycle === null) return;
  const ids = cycle.map((ordinal) => graph.entries[ordinal]?.node.id ?? String(ordinal));
  const where = graph.subgraphId === null ? "" : ` of subgraph ${graph.subgraphId}`;
  problems.error(graph, ["edges"], `the edges${where} form a cycle: ${formatCycle(ids)}; remove one of them`, ids[0] ?? null);
}

function checkPorts(graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node } = entry;
  for (const side of ["inputPorts", "outputPorts"] as const) {
    const keys = new Set<string>();
    for (const [index, port] of (node.ui?.[side] ?? []).entries()) {
      const path = parseBindingPath(port.binding.path);
      const scope = parseBindingScope(port.binding);
      const report = (field: string[], what: string) =>
        problems.nodeError(graph, entry, ["ui", side, index, ...field], `${describeNode(node)}, port ${port.key}: ${what}`);
      if (typeof path === "string") report(["binding", "path"], path);
      if (typeof scope === "string") report(["binding", port.binding.scope === undefined ? "prefix" : "scope"], scope);
      if (keys.has(port.key)) report(["key"], "another port on the same side has this key");
      keys.add(port.key);
    }
  }
}

function checkRole(graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node } = entry;
  if (entry.host === null && node.role === "middleware")
    problems.nodeError(graph, entry, ["role"], `${describeNode(node)} is a middleware; put it around a node`);
  if (entry.host !== null && isContainer(node))
    problems.nodeError(graph, entry, ["type"], `middleware ${node.id} (${node.label}) is a container, which cannot wrap a node`);
}

function checkContainer(workflowIndex: WorkflowIndex, graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node, container: settings, containerProblems } = entry;
  if (settings === null) return;
  const report = (at: JsonPath, what: string) => {
    const message = `${describeNode(node)}: ${["__container", ...at].join(".")} ${what}`;
    problems.nodeError(graph, entry, ["parameters", "__container", ...at], message);
  };
  for (const { at, message } of containerProblems) report(at, message);
  if (settings.subgraph === "") return;
  const subgraph = workflowIndex.subgraphs.get(settings.subgraph);
  if (subgraph === undefined) {
    report(["subgraphId"], `names ${settings.subgraph}, which is not among the subgraphs of the workflow itself`);
    return;
  }
  const authored = node.parameters?.["__container"] as Record<"inputs" | "outputs", unknown>;
  for (const side of ["inputs", "outputs"] as const) {
    const ports: unknown = authored[side];
    for (const [index, port] of (Array.isArray(ports) ? (ports as { node?: unknown }[]) : []).entries())
      if (typeof port?.node === "string" && port.node !== "" && !subgraph.byId.has(port.node))
        report([side, index, "node"], `names ${port.node}, which subgraph ${settings.subgraph} does not have`);
  }
}

/** A cycle in words; of a long one the beginning and the end. */
const formatCycle = (ids: readonly string[]): string =>
  ids.length <= 20
    ? ids.join(" -> ")
    : `${ids.slice(0, 10).join(" -> ")} -> (${ids.length - 15} more) -> ${ids.slice(-5).join(" -> ")}`;

function duplicateIdMessage(first: NodeEntry, second: NodeEntry): string {
  const what = first.host === null && second.host === null ? "nodes" : "nodes or middlewares";
  return `${what} ${first.ordinal} and ${second.ordinal} share the id ${second.node.id}; give one of them its own`;
}

/** Containers that contain themselves, nest too deep, or open more nodes than a run may have. */
function checkNesting(workflowIndex: WorkflowIndex, problems: ProblemList): void {
  const names = [...workflowIndex.subgraphs.keys()];
  const numbers = new Map(names.map((name, number) => [name, number]));
  const pairs: (readonly [number, number])[] = [];
  for (const [name, graph] of workflowIndex.subgraphs)
    for (const { container } of graph.entries) {
      const inner = container === null ? undefined : numbers.get(container.subgraph);
      const outer = numbers.get(name);
      if (inner !== undefined && outer !== undefined) pairs.push([outer, inner]);
    }
  const cycle = findCycle(names.length, pairs);
  if (cycle !== null) {
    const [first = "", second = ""] = cycle.map((number) => names[number] ?? "");
    const graph = workflowIndex.subgraphs.get(first);
    const entry = graph?.entries.find((one) => one.container?.subgraph === second);
    if (graph === undefined || entry === undefined)
      throw new Error(`subgraph ${first} is on a cycle and has no container for ${second}`);
    const way = formatCycle(cycle.map((number) => names[number] ?? ""));
    const message = `${describeNode(entry.node)} makes subgraph ${first} contain itself: ${way}; point it to another subgraph`;
    problems.nodeError(graph, entry, ["parameters", "__container", "subgraphId"], message);
    return; // sizes have no meaning then
  }
  const { nodes, depth } = expandedSizeOf(workflowIndex, workflowIndex.root, new Map());
  const { root } = workflowIndex;
  const tooDeep = `containers nest ${depth} deep; at most ${limits.subgraphDepthMax} is allowed`;
  const tooMany = `the workflow has ${nodes} nodes with its containers opened; at most ${planNodesMax} are allowed`;
  if (depth > limits.subgraphDepthMax) problems.error(root, ["subgraphs"], tooDeep);
  if (nodes > planNodesMax) problems.error(root, ["nodes"], tooMany);
}

type ExpandedSize = Readonly<Record<"nodes" | "depth", number>>;

/** Only for graphs that do not contain themselves. */
function expandedSizeOf(workflowIndex: WorkflowIndex, graph: IndexedGraph, known: Map<IndexedGraph, ExpandedSize>): ExpandedSize {
  const found = known.get(graph);
  if (found !== undefined) return found;
  let nodes = graph.entries.length;
  let depth = 0;
  for (const { container } of graph.entries) {
    const inner = container === null ? undefined : workflowIndex.subgraphs.get(container.subgraph);
    if (inner === undefined) continue;
    const size = expandedSizeOf(workflowIndex, inner, known);
    nodes += size.nodes;
    depth = Math.max(depth, size.depth + 1);
  }
  const size = { nodes, depth };
  known.set(graph, size);
  return size;
}

/**
 * Numbers on a cycle in their order, the first repeated at the end; null when the pairs have an order. Does not recurse: a chain may be as
 * long as a workflow.
 */
function findCycle(count: number, pairs: readonly (readonly [number, number])[]): number[] | null {
  const after: number[][] = Array.from({ length: count }, () => []);
  const before: number[][] = Array.from({ length: count }, () => []);
  const incoming = Array.from({ length: count }, () => 0);
  for (const [source, target] of pairs) {
    after[source]?.push(target);
    before[target]?.push(source);
    incoming[target] = (incoming[target] ?? 0) + 1;
  }
  const ready = incoming.flatMap((incomingCount, number) => (incomingCount === 0 ? [number] : []));
  for (let number = ready.pop(); number !== undefined; number = ready.pop())
    for (const next of after[number] ?? []) {
      incoming[next] = (incoming[next] ?? 0) - 1;
      if (incoming[next] === 0) ready.push(next);
    }
  let at = incoming.findIndex((incomingCount) => incomingCount > 0);
  if (at < 0) return null;
  // Every number left over has a predecessor left over: walking back must come around.
  const walked = new Map<number, number>();
  while (!walked.has(at)) {
    walked.set(at, walked.size);
    at = before[at]?.find((number) => (incoming[number] ?? 0) > 0) ?? at;
  }
  return [...[...walked.keys()].slice(walked.get(at)), at].reverse();
}
