// What is wrong with a workflow that its schema cannot say. Every problem is named with the node and field; a list without errors means the
// engine can run it. The order of looking: each graph by itself, then how they contain each other, then what the catalogue knows.

import { limits, type Workflow } from "@astraflow/protocol";
import { type CheckCatalogue, type CheckOptions, checkCatalogue, lookAt } from "./catalogue.ts";
import { checkContainer, checkPorts, checkRole } from "./check-node.ts";
import { checkSchemas, checkValues, fedKeys } from "./check-values.ts";
import { cycleIn } from "./cycle.ts";
import { type Graph, type Graphs, graphsOf, type Place, stepsTo } from "./graphs.ts";
import { type Link, linkOf } from "./links.ts";
import { type Problem, Problems } from "./problem.ts";

/** Nodes of a plan with every container opened once; loops open more, but one frame after the other is in sight at a time. */
const planNodesMax = 100_000;

/** Parts of schemas that are looked at for warnings. */
const schemaStepsMax = 200_000;

/** Without a catalogue the list holds errors alone. */
export function checkWorkflow(workflow: Workflow, catalogue?: CheckCatalogue, options: CheckOptions = {}): Problem[] {
  const graphs = graphsOf(workflow);
  const problems = new Problems();
  const all = [graphs.root, ...graphs.byName.values()];
  const links = new Map(
    all.map((graph) => [graph, graph.definition.edges.map((edge, index) => linkOf(graphs, graph, edge, index))]),
  );
  checkNames(workflow, graphs, problems);
  for (const graph of all) checkGraph(graphs, graph, links.get(graph) ?? [], problems);
  checkNesting(graphs, problems);
  checkValues(links, fedKeys(graphs, links), problems);
  if (catalogue === undefined) return problems.list;
  const look = lookAt(graphs, catalogue, problems, options);
  const budget = { stepsLeft: schemaStepsMax };
  for (const graph of all) {
    checkCatalogue(look, graph);
    checkSchemas(graph, budget, problems);
  }
  return problems.list;
}

function checkNames(workflow: Workflow, graphs: Graphs, problems: Problems): void {
  const seen = new Set<string>();
  for (const [index, { id }] of (workflow.subgraphs ?? []).entries()) {
    if (seen.has(id))
      problems.error(graphs.root, ["subgraphs", index, "id"], `two subgraphs share the id ${id}; give one of them its own`);
    seen.add(id);
  }
}

function checkGraph(graphs: Graphs, graph: Graph, links: readonly Link[], problems: Problems): void {
  for (const place of graph.places) {
    const first = graph.byId.get(place.node.id);
    if (first !== undefined && first !== place)
      problems.error(graph, [...stepsTo(place), "id"], twice(first, place), place.node.id);
    checkPorts(graph, place, problems);
    checkRole(graph, place, problems);
    checkContainer(graphs, graph, place, problems);
  }
  const edges = new Set<string>();
  for (const [index, { id }] of graph.definition.edges.entries()) {
    if (edges.has(id)) problems.error(graph, ["edges", index, "id"], `two edges share the id ${id}; give one of them its own`);
    edges.add(id);
  }
  for (const link of links) for (const { at, node, message } of link.problems) problems.error(graph, at, message, node);
  const cycle = cycleIn(
    graph.places.length,
    links.flatMap((link) => link.waits),
  );
  if (cycle === null) return;
  const ids = cycle.map((ordinal) => graph.places[ordinal]?.node.id ?? String(ordinal));
  const where = graph.name === null ? "" : ` of subgraph ${graph.name}`;
  problems.error(graph, ["edges"], `the edges${where} form a cycle: ${round(ids)}; remove one of them`, ids[0] ?? null);
}

/** A cycle in words; of a long one the beginning and the end. */
const round = (ids: readonly string[]): string =>
  ids.length <= 20
    ? ids.join(" -> ")
    : `${ids.slice(0, 10).join(" -> ")} -> (${ids.length - 15} more) -> ${ids.slice(-5).join(" -> ")}`;

function twice(first: Place, second: Place): string {
  const what = first.host === null && second.host === null ? "nodes" : "nodes or middlewares";
  return `${what} ${first.ordinal} and ${second.ordinal} share the id ${second.node.id}; give one of them its own`;
}

/** Containers that contain themselves, nest too deep, or open more nodes than a run may have. */
function checkNesting(graphs: Graphs, problems: Problems): void {
  const names = [...graphs.byName.keys()];
  const numbers = new Map(names.map((name, number) => [name, number]));
  const pairs: (readonly [number, number])[] = [];
  for (const [name, graph] of graphs.byName)
    for (const { container } of graph.places) {
      const inner = container === null ? undefined : numbers.get(container.subgraph);
      const outer = numbers.get(name);
      if (inner !== undefined && outer !== undefined) pairs.push([outer, inner]);
    }
  const cycle = cycleIn(names.length, pairs);
  if (cycle !== null) {
    const [first = "", second = ""] = cycle.map((number) => names[number] ?? "");
    const graph = graphs.byName.get(first);
    const place = graph?.places.find((one) => one.container?.subgraph === second);
    if (graph === undefined || place === undefined)
      throw new Error(`subgraph ${first} is on a cycle and has no container for ${second}`);
    const way = round(cycle.map((number) => names[number] ?? ""));
    const message = `node ${place.node.id} makes subgraph ${first} contain itself: ${way}; point it to another subgraph`;
    problems.error(graph, [...stepsTo(place), "parameters", "__container", "subgraphId"], message, place.node.id);
    return; // sizes have no meaning then
  }
  const { nodes, depth } = sizeOf(graphs, graphs.root, new Map());
  if (depth > limits.subgraphDepthMax)
    problems.error(graphs.root, ["subgraphs"], `containers nest ${depth} deep; at most ${limits.subgraphDepthMax} is allowed`);
  if (nodes > planNodesMax)
    problems.error(
      graphs.root,
      ["nodes"],
      `the workflow has ${nodes} nodes with its containers opened; at most ${planNodesMax} are allowed`,
    );
}

interface Size {
  readonly nodes: number;
  readonly depth: number;
}

/** Only for graphs that do not contain themselves. */
function sizeOf(graphs: Graphs, graph: Graph, known: Map<Graph, Size>): Size {
  const found = known.get(graph);
  if (found !== undefined) return found;
  let nodes = graph.places.length;
  let depth = 0;
  for (const { container } of graph.places) {
    const inner = container === null ? undefined : graphs.byName.get(container.subgraph);
    if (inner === undefined) continue;
    const size = sizeOf(graphs, inner, known);
    nodes += size.nodes;
    depth = Math.max(depth, size.depth + 1);
  }
  const size = { nodes, depth };
  known.set(graph, size);
  return size;
}
