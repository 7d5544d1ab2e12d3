// A workflow as the engine runs it: nodes by ordinal, who waits for whom, and which values travel along the edges.
// Compiled once per definition and cached; checking a definition is check.ts, deciding what runs is the engine's.

import type { Workflow } from "@astraflow/protocol";
import { type BindingPath, readPath, valueAt, withValueAt } from "./path.ts";

type Node = Workflow["nodes"][number];
export type Policy = NonNullable<Node["policy"]>;

/** One value carried into a node: from a finished node's parameters or results into this node's parameters. */
export interface Input {
  readonly source: number;
  readonly from: BindingPath;
  readonly to: readonly string[];
}

export interface PlanNode {
  readonly ordinal: number;
  readonly id: string;
  readonly type: string;
  readonly packageName: string;
  readonly packageVersion: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly policy: Policy;
  /** Distinct nodes that must end first, and those that wait for this one; ordinals, ascending. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly inputs: readonly Input[];
}

export interface Plan {
  readonly nodes: readonly PlanNode[];
  readonly starts: readonly number[];
}

export function planOf(workflow: Workflow): Plan {
  const ordinals = new Map(workflow.nodes.map((node, ordinal) => [node.id, ordinal]));
  const before = workflow.nodes.map(() => new Set<number>());
  const after = workflow.nodes.map(() => new Set<number>());
  const inputs: Input[][] = workflow.nodes.map(() => []);
  for (const edge of workflow.edges) {
    const source = ordinals.get(edge.source.node);
    const target = ordinals.get(edge.target.node);
    if (source === undefined || target === undefined) continue; // checkWorkflow has named it
    before[target]?.add(source);
    after[source]?.add(target);
    const input = carried(workflow.nodes[source], edge.source.port, workflow.nodes[target], edge.target.port, source);
    if (input !== null) inputs[target]?.push(input);
  }
  const nodes = workflow.nodes.map(
    (node, ordinal): PlanNode => ({
      ordinal,
      id: node.id,
      type: node.type,
      packageName: node.package.name,
      packageVersion: node.package.version,
      params: node.parameters ?? {},
      policy: node.policy ?? {},
      before: sorted(before[ordinal]),
      after: sorted(after[ordinal]),
      inputs: inputs[ordinal] ?? [],
    }),
  );
  return { nodes, starts: nodes.filter((node) => node.before.length === 0).map((node) => node.ordinal) };
}

/** An edge whose ports both bind carries a value; any other only orders. */
function carried(
  source: Node | undefined,
  outPort: string,
  target: Node | undefined,
  inPort: string,
  ordinal: number,
): Input | null {
  const out = source?.ui?.outputPorts?.find((port) => port.key === outPort);
  const into = target?.ui?.inputPorts?.find((port) => port.key === inPort);
  if (out === undefined || into === undefined) return null;
  const from = readPath(out.binding.path);
  const to = readPath(into.binding.path);
  if (typeof from === "string" || typeof to === "string" || to.root !== "parameters") return null;
  return { source: ordinal, from, to: to.steps };
}

const sorted = (set: Set<number> | undefined): number[] => [...(set ?? [])].sort((a, b) => a - b);

/** What a finished node offers to its edges. */
export interface Outcome {
  readonly params: unknown;
  readonly results: unknown;
}

/** The parameters a node runs with: as authored, with the values of its edges written in. A missing source value writes nothing. */
export function paramsOf(node: PlanNode, outcome: (ordinal: number) => Outcome | null): Readonly<Record<string, unknown>> {
  let params: unknown = node.params;
  for (const input of node.inputs) {
    const source = outcome(input.source);
    if (source === null) continue;
    const value = valueAt(input.from.root === "results" ? source.results : source.params, input.from.steps);
    if (value !== undefined) params = withValueAt(params, input.to, value);
  }
  return typeof params === "object" && params !== null && !Array.isArray(params) ? (params as Record<string, unknown>) : {};
}
