// Compiles a workflow into the plan that the engine runs. Definitions are checked in check-workflow.ts.

import { omitUndefined, type Workflow } from "@astraflow/protocol";
import { type BindingPath, isObject, parseBindingPath, withValueAt } from "../values/binding-path.ts";
import { valueOrRemoteRefAt } from "../values/remote-value.ts";
import {
  type ContainerCrossing,
  crossingKey,
  crossingPath,
  type ResolvedEdge,
  type ResolvedEdges,
  resolveEdgesInSteps,
  runToEnd,
  scopedKey,
} from "./edge-resolution.ts";
import { withDefaults } from "./node-schemas.ts";
import type { ContainerPlan, EdgeInput, IterationInput, IterationOutput, OutcomeOf, Plan, PlanNode } from "./plan-types.ts";
import {
  declaredUnrepeatable,
  type IndexedGraph,
  indexWorkflow,
  minVersionFor,
  type NodeEntry,
  parseBindingScope,
  schemaModeOf,
  type WorkflowIndex,
} from "./workflow-index.ts";

/** Never fails: what checkWorkflow would refuse is left out. */
export const compilePlan = (workflow: Workflow): Plan => runToEnd(compilePlanInSteps(workflow));

/** The same in steps of some milliseconds, however large the workflow is: between two of them a caller may do something else. */
export function* compilePlanInSteps(workflow: Workflow): Generator<void, Plan> {
  const workflowIndex = indexWorkflow(workflow);
  yield;
  const resolvedEdges = yield* resolveEdgesInSteps(workflowIndex);
  yield;
  return yield* new PlanCompiler(workflowIndex, resolvedEdges).compile(workflowIndex.root);
}

/** Nodes between two places where a caller may pause. */
const nodesPerStep = 1_000;

/** Steps for the defaults of all nodes together; a workflow that needs more is refused by its check. */
export const defaultsStepsMax = 300_000;

/** Inputs and outputs of a container that come from bound ports, in addition to the authored ones. */
type CrossingPorts = Record<"inputs", IterationInput[]> & Record<"outputs", IterationOutput[]>;

class PlanCompiler {
  readonly #workflowIndex: WorkflowIndex;
  readonly #resolvedEdges: ResolvedEdges;
  readonly #crossingPorts: ReadonlyMap<NodeEntry, CrossingPorts>;
  readonly #plans = new Map<IndexedGraph, Plan>();
  readonly #budget = { stepsLeft: defaultsStepsMax };

  constructor(workflowIndex: WorkflowIndex, resolvedEdges: ResolvedEdges) {
    this.#workflowIndex = workflowIndex;
    this.#resolvedEdges = resolvedEdges;
    this.#crossingPorts = collectCrossingPorts(workflowIndex, resolvedEdges);
  }

  *compile(graph: IndexedGraph): Generator<void, Plan> {
    const known = this.#plans.get(graph);
    if (known !== undefined) return known;
    this.#plans.set(graph, { nodes: [], starts: [] }); // a graph that contains itself finds this
    const { before, after, inputs } = collectDependencies(graph, this.#resolvedEdges.get(graph) ?? []);
    const chains = graph.entries.map((): number[] => []);
    for (const entry of graph.entries) if (entry.host !== null) chains[entry.host]?.push(entry.ordinal);
    yield;
    const nodes: PlanNode[] = [];
    for (const entry of graph.entries) {
      const { ordinal, node } = entry;
      if ((ordinal + 1) % nodesPerStep === 0) yield;
      const schema = { parameters: node.schema?.parameters ?? true, results: node.schema?.results ?? true };
      nodes.push({
        ordinal,
        id: node.id,
        type: node.type,
        label: node.label,
        packageName: node.package.name,
        packageVersion: node.package.version,
        minVersion: minVersionFor(this.#workflowIndex, graph, node),
        params: withDefaults(schema.parameters, node.parameters ?? {}, this.#budget) as Record<string, unknown>,
        ...(node.results !== undefined && Object.keys(node.results).length > 0 && { results: node.results }),
        policy: node.policy ?? {},
        schema,
        ...omitUndefined({
          manifest: node.package.manifest,
          idempotency: declaredUnrepeatable(node.package.idempotency),
          schemaMode: schemaModeOf(this.#workflowIndex, graph, node),
        }),
        before: sortedOrdinals(before[ordinal]),
        after: sortedOrdinals(after[ordinal]),
        inputs: inputs[ordinal] ?? [],
        chain: chains[ordinal] ?? [],
        host: entry.host,
        chainIndex: entry.chainIndex,
        ...(entry.host !== null && { outputs: middlewareOutputPaths(entry) }),
        container: yield* this.#compileContainer(entry),
      });
    }
    const starts = nodes.filter((node) => node.host === null && node.before.length === 0).map((node) => node.ordinal);
    const plan: Plan = { nodes, starts };
    this.#plans.set(graph, plan);
    return plan;
  }

  *#compileContainer(entry: NodeEntry): Generator<void, ContainerPlan | null> {
    const settings = entry.container;
    if (settings === null) return null;
    const graph = this.#workflowIndex.subgraphs.get(settings.subgraph);
    const withOrdinal = <Port extends { readonly node: string }>(port: Port) => {
      const inner = graph?.byId.get(port.node);
      return inner === undefined ? [] : [{ ...port, node: inner.ordinal }];
    };
    const crossing = this.#crossingPorts.get(entry);
    return {
      subgraph: settings.subgraph,
      body: graph === undefined ? { nodes: [], starts: [] } : yield* this.compile(graph),
      loop: settings.loop,
      retry: settings.retry,
      timeoutMs: settings.timeoutMs,
      inputs: [...settings.inputs.flatMap(withOrdinal), ...(crossing?.inputs ?? [])],
      outputs: [...settings.outputs.flatMap(withOrdinal), ...(crossing?.outputs ?? [])],
    };
  }
}

/** Where the output ports of a middleware read in itself; ports bound elsewhere do not count. */
function middlewareOutputPaths(entry: NodeEntry): BindingPath[] {
  return (entry.node.ui?.outputPorts ?? []).flatMap(({ binding }) => {
    const path = parseBindingPath(binding.path);
    const scope = parseBindingScope(binding);
    return typeof path === "string" || typeof scope === "string" || scope.kind !== "own" ? [] : [path];
  });
}

function collectDependencies(graph: IndexedGraph, resolvedEdges: readonly ResolvedEdge[]) {
  const before = graph.entries.map(() => new Set<number>());
  const after = graph.entries.map(() => new Set<number>());
  const inputs = graph.entries.map((): EdgeInput[] => []);
  for (const edge of resolvedEdges) {
    for (const [source, target] of edge.dependencies) {
      before[target]?.add(source);
      after[source]?.add(target);
    }
    if (edge.transfer !== null) inputs[edge.transfer.target]?.push(edge.transfer.input);
  }
  return { before, after, inputs };
}

/** Follows every crossing inwards, one container at a time. It ends because each step shortens the path by one id. */
function collectCrossingPorts(workflowIndex: WorkflowIndex, resolvedEdges: ResolvedEdges): Map<NodeEntry, CrossingPorts> {
  const ports = new Map<NodeEntry, CrossingPorts>();
  const seen = new Map<NodeEntry, Set<string>>();
  const open: { graph: IndexedGraph; crossing: ContainerCrossing }[] = [];
  for (const [graph, edgesOfGraph] of resolvedEdges)
    for (const edge of edgesOfGraph) for (const crossing of edge.crossings) open.push({ graph, crossing });
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { side, container, rest, path } = next.crossing;
    const entry = next.graph.entries[container];
    const subgraph = workflowIndex.subgraphs.get(entry?.container?.subgraph ?? "");
    const [id = "", ...remaining] = rest;
    const inner = subgraph?.byId.get(id);
    if (entry === undefined || subgraph === undefined || inner === undefined) continue;
    const key = crossingKey(rest, path);
    const known = seen.get(entry) ?? new Set();
    if (known.has(`${side} ${key}`)) continue;
    seen.set(entry, known.add(`${side} ${key}`));
    const innerCrossing: ContainerCrossing | null =
      remaining.length === 0 ? null : { side, container: inner.ordinal, rest: remaining, path };
    const at = innerCrossing === null ? path : crossingPath(innerCrossing, inner);
    const portsOfContainer = ports.get(entry) ?? { inputs: [], outputs: [] };
    ports.set(entry, portsOfContainer);
    if (side === "target")
      portsOfContainer.inputs.push({ from: { root: "parameters", steps: [scopedKey, key] }, node: inner.ordinal, to: at.steps });
    else portsOfContainer.outputs.push({ node: inner.ordinal, from: at, to: [scopedKey, key] });
    if (innerCrossing !== null) open.push({ graph: subgraph, crossing: innerCrossing });
  }
  return ports;
}

const sortedOrdinals = (set: Set<number> | undefined): number[] => [...(set ?? [])].sort((a, b) => a - b);

/** The parameters a node runs with: as authored, with the values of its edges written in. A missing source value writes nothing. */
export function resolveParams(node: PlanNode, outcome: OutcomeOf): Readonly<Record<string, unknown>> {
  return copyValues(node.params, node.inputs, "source", outcome);
}

/** Writes values of ended nodes into a copy of `base`; a missing one writes nothing. `key` is the field with the ordinal of the node. */
export function copyValues<Key extends "source" | "node">(
  base: unknown,
  transfers: readonly (Pick<EdgeInput, "from" | "to"> & Readonly<Record<Key, number>>)[],
  key: Key,
  outcome: OutcomeOf,
): Record<string, unknown> {
  let copy = base;
  for (const transfer of transfers) {
    const source = outcome(transfer[key]);
    if (source === null) continue;
    const { root, steps } = transfer.from;
    const value = valueOrRemoteRefAt(root === "results" ? source.results : source.params, steps);
    if (value !== undefined) copy = withValueAt(copy, transfer.to, value);
  }
  return isObject(copy) ? copy : {};
}
