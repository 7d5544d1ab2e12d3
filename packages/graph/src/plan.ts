// A workflow as the engine runs it: nodes by ordinal, who waits for whom, which values travel along the edges, what is inside a container.
// Compiled once per definition and cached; checking a definition is check.ts, deciding what runs is the engine's.

import type { Workflow } from "@astraflow/protocol";
import { type Graph, type Graphs, graphsOf, leastVersion, type Place, scopeOf } from "./graphs.ts";
import { carriedAt } from "./kept.ts";
import { type Crossing, crossingKey, crossingPath, type Link, linkOf, scopedKey } from "./links.ts";
import { type BindingPath, readPath, withValueAt } from "./path.ts";
import type { Container, FrameInput, FrameOutput, Input, Outcome, Plan, PlanNode } from "./plan-types.ts";
import { withDefaults } from "./schema.ts";

/** Never fails and always ends: what checkWorkflow would refuse is left out. */
export function planOf(workflow: Workflow): Plan {
  const graphs = graphsOf(workflow);
  const all = [graphs.root, ...graphs.byName.values()];
  const links = new Map(
    all.map((graph) => [graph, graph.definition.edges.map((edge, index) => linkOf(graphs, graph, edge, index))]),
  );
  return new Compiler(graphs, links).plan(graphs.root);
}

/** Steps for the defaults of all nodes together; a workflow that needs more is refused by its check. */
export const defaultsStepsMax = 500_000;

/** What crosses the border of one container beside its authored inputs and outputs. */
interface Ports {
  readonly inputs: FrameInput[];
  readonly outputs: FrameOutput[];
}

class Compiler {
  readonly #graphs: Graphs;
  readonly #links: ReadonlyMap<Graph, readonly Link[]>;
  readonly #crossing: ReadonlyMap<Place, Ports>;
  readonly #plans = new Map<Graph, Plan>();
  readonly #budget = { stepsLeft: defaultsStepsMax };

  constructor(graphs: Graphs, links: ReadonlyMap<Graph, readonly Link[]>) {
    this.#graphs = graphs;
    this.#links = links;
    this.#crossing = crossingPorts(graphs, links);
  }

  plan(graph: Graph): Plan {
    const known = this.#plans.get(graph);
    if (known !== undefined) return known;
    this.#plans.set(graph, { nodes: [], starts: [] }); // a graph that contains itself finds this
    const { before, after, inputs } = orderOf(graph, this.#links.get(graph) ?? []);
    const chains = graph.places.map((): number[] => []);
    for (const place of graph.places) if (place.host !== null) chains[place.host]?.push(place.ordinal);
    const nodes = graph.places.map((place): PlanNode => {
      const { ordinal, node } = place;
      const schema = { parameters: node.schema?.parameters ?? true, results: node.schema?.results ?? true };
      return {
        ordinal,
        id: node.id,
        type: node.type,
        label: node.label,
        packageName: node.package.name,
        packageVersion: node.package.version,
        minVersion: leastVersion(this.#graphs, graph, node),
        params: withDefaults(schema.parameters, node.parameters ?? {}, this.#budget) as Record<string, unknown>,
        ...(node.results !== undefined && Object.keys(node.results).length > 0 && { results: node.results }),
        policy: node.policy ?? {},
        schema,
        before: sorted(before[ordinal]),
        after: sorted(after[ordinal]),
        inputs: inputs[ordinal] ?? [],
        chain: chains[ordinal] ?? [],
        host: place.host,
        chainIndex: place.chainIndex,
        ...(place.host !== null && { outputs: outputPaths(place) }),
        container: this.#container(place),
      };
    });
    const starts = nodes.filter((node) => node.host === null && node.before.length === 0).map((node) => node.ordinal);
    const plan: Plan = { nodes, starts };
    this.#plans.set(graph, plan);
    return plan;
  }

  #container(place: Place): Container | null {
    const form = place.container;
    if (form === null) return null;
    const graph = this.#graphs.byName.get(form.subgraph);
    const ordinalOf = (id: string) => graph?.byId.get(id)?.ordinal;
    const crossing = this.#crossing.get(place);
    return {
      subgraph: form.subgraph,
      body: graph === undefined ? { nodes: [], starts: [] } : this.plan(graph),
      loop: form.loop,
      retry: form.retry,
      timeoutMs: form.timeoutMs,
      inputs: [
        ...form.inputs.flatMap(({ from, node: id, to }): FrameInput[] => {
          const node = ordinalOf(id);
          return node === undefined ? [] : [{ from, node, to }];
        }),
        ...(crossing?.inputs ?? []),
      ],
      outputs: [
        ...form.outputs.flatMap(({ node: id, from, to }): FrameOutput[] => {
          const node = ordinalOf(id);
          return node === undefined ? [] : [{ node, from, to }];
        }),
        ...(crossing?.outputs ?? []),
      ],
    };
  }
}

/** Where a middleware's output ports read in itself; a port bound elsewhere has nothing to say about the host. */
function outputPaths(place: Place): BindingPath[] {
  return (place.node.ui?.outputPorts ?? []).flatMap(({ binding }) => {
    const path = readPath(binding.path);
    const scope = scopeOf(binding);
    return typeof path === "string" || typeof scope === "string" || scope.kind !== "own" ? [] : [path];
  });
}

function orderOf(graph: Graph, links: readonly Link[]) {
  const before = graph.places.map(() => new Set<number>());
  const after = graph.places.map(() => new Set<number>());
  const inputs = graph.places.map((): Input[] => []);
  for (const link of links) {
    for (const [source, target] of link.waits) {
      before[target]?.add(source);
      after[source]?.add(target);
    }
    if (link.carries !== null) inputs[link.carries.target]?.push(link.carries.input);
  }
  return { before, after, inputs };
}

/** Every crossing, followed inwards one container at a time. It ends, because each step leaves one id of the way behind. */
function crossingPorts(graphs: Graphs, links: ReadonlyMap<Graph, readonly Link[]>): Map<Place, Ports> {
  const ports = new Map<Place, Ports>();
  const seen = new Map<Place, Set<string>>();
  const open: { graph: Graph; crossing: Crossing }[] = [];
  for (const [graph, ofGraph] of links)
    for (const link of ofGraph) for (const crossing of link.crossings) open.push({ graph, crossing });
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { side, container, rest, path } = next.crossing;
    const place = next.graph.places[container];
    const inside = graphs.byName.get(place?.container?.subgraph ?? "");
    const [id = "", ...further] = rest;
    const inner = inside?.byId.get(id);
    if (place === undefined || inside === undefined || inner === undefined) continue;
    const key = crossingKey(rest, path);
    const known = seen.get(place) ?? new Set();
    if (known.has(`${side} ${key}`)) continue;
    seen.set(place, known.add(`${side} ${key}`));
    const deeper: Crossing | null = further.length === 0 ? null : { side, container: inner.ordinal, rest: further, path };
    const at = deeper === null ? path : crossingPath(deeper, inner);
    const own = ports.get(place) ?? { inputs: [], outputs: [] };
    ports.set(place, own);
    if (side === "target")
      own.inputs.push({ from: { root: "parameters", steps: [scopedKey, key] }, node: inner.ordinal, to: at.steps });
    else own.outputs.push({ node: inner.ordinal, from: at, to: [scopedKey, key] });
    if (deeper !== null) open.push({ graph: inside, crossing: deeper });
  }
  return ports;
}

const sorted = (set: Set<number> | undefined): number[] => [...(set ?? [])].sort((a, b) => a - b);

/** The parameters a node runs with: as authored, with the values of its edges written in. A missing source value writes nothing. */
export function paramsOf(node: PlanNode, outcome: (ordinal: number) => Outcome | null): Readonly<Record<string, unknown>> {
  return withInputs(node.params, node, outcome);
}

export function withInputs(
  base: unknown,
  node: PlanNode,
  outcome: (ordinal: number) => Outcome | null,
): Readonly<Record<string, unknown>> {
  let params = base;
  for (const input of node.inputs) {
    const source = outcome(input.source);
    if (source === null) continue;
    const value = carriedAt(input.from.root === "results" ? source.results : source.params, input.from.steps);
    if (value !== undefined) params = withValueAt(params, input.to, value);
  }
  return typeof params === "object" && params !== null && !Array.isArray(params) ? (params as Record<string, unknown>) : {};
}
