// What is wrong with a workflow that its schema cannot say: ids used twice, edges that lead nowhere, ports that do not exist, cycles.
// Every problem is named with the node and field; an empty list means the engine can run it.

import type { Workflow } from "@astraflow/protocol";
import { readPath } from "./path.ts";

export interface Problem {
  /** JSON pointer into the definition. */
  readonly path: string;
  readonly code: "E.WORKFLOW.INVALID" | "E.WORKFLOW.UNSUPPORTED";
  readonly message: string;
}

type Node = Workflow["nodes"][number];

export function checkWorkflow(workflow: Workflow): Problem[] {
  const problems: Problem[] = [];
  const invalid = (path: string, message: string) => problems.push({ path, code: "E.WORKFLOW.INVALID", message });
  const byId = new Map<string, number>();
  workflow.nodes.forEach((node, ordinal) => {
    const first = byId.get(node.id);
    if (first !== undefined)
      invalid(`/nodes/${ordinal}/id`, `nodes ${first} and ${ordinal} share the id ${node.id}; give one of them its own`);
    else byId.set(node.id, ordinal);
    checkNode(node, ordinal, problems);
  });
  const edgeIds = new Set<string>();
  workflow.edges.forEach((edge, index) => {
    if (edgeIds.has(edge.id)) invalid(`/edges/${index}/id`, `two edges share the id ${edge.id}; give one of them its own`);
    edgeIds.add(edge.id);
    for (const end of ["source", "target"] as const) {
      const ordinal = byId.get(edge[end].node);
      if (ordinal === undefined)
        invalid(`/edges/${index}/${end}/node`, `edge ${edge.id} names node ${edge[end].node}, which this workflow does not have`);
      else checkPort(workflow.nodes[ordinal], edge[end].port, end, `/edges/${index}/${end}/port`, edge.id, problems);
    }
  });
  const cycle = cycleOf(workflow, byId);
  if (cycle !== null) invalid("/edges", `the edges form a cycle: ${cycle.join(" -> ")}; remove one of them`);
  return problems;
}

function checkNode(node: Node, ordinal: number, problems: Problem[]): void {
  const unsupported = (field: string, what: string) =>
    problems.push({ path: `/nodes/${ordinal}/${field}`, code: "E.WORKFLOW.UNSUPPORTED", message: `node ${node.id} ${what}` });
  if ((node.middlewares?.length ?? 0) > 0)
    unsupported("middlewares", "has middlewares, which this version cannot run; remove them");
  if (node.role === "container" || node.type === "workflow.container")
    unsupported("type", "is a container, which this version cannot run; put its nodes into this graph");
  for (const [side, ports] of [
    ["inputPorts", node.ui?.inputPorts],
    ["outputPorts", node.ui?.outputPorts],
  ] as const)
    ports?.forEach((port, index) => {
      const path = readPath(port.binding.path);
      if (typeof path === "string")
        problems.push({
          path: `/nodes/${ordinal}/ui/${side}/${index}/binding/path`,
          code: "E.WORKFLOW.INVALID",
          message: `node ${node.id}, port ${port.key}: ${path}`,
        });
    });
}

/** A node that draws no ports at all takes any edge as an order; one that draws ports takes only those. */
function checkPort(
  node: Node | undefined,
  port: string,
  end: "source" | "target",
  path: string,
  edge: string,
  problems: Problem[],
): void {
  const ports = end === "source" ? node?.ui?.outputPorts : node?.ui?.inputPorts;
  if (node === undefined || ports === undefined || ports.some((one) => one.key === port)) return;
  const known = ports.length === 0 ? "it has none" : `it has ${ports.map((one) => one.key).join(", ")}`;
  problems.push({
    path,
    code: "E.WORKFLOW.INVALID",
    message: `edge ${edge} uses ${end === "source" ? "output" : "input"} port "${port}" of node ${node.id}; ${known}`,
  });
}

/** One cycle as node ids, first repeated at the end; null when the edges have an order. Iterative: a chain may be long. */
function cycleOf(workflow: Workflow, byId: ReadonlyMap<string, number>): string[] | null {
  const after: number[][] = workflow.nodes.map(() => []);
  const open = workflow.nodes.map(() => 0);
  for (const edge of workflow.edges) {
    const source = byId.get(edge.source.node);
    const target = byId.get(edge.target.node);
    if (source === undefined || target === undefined) continue;
    after[source]?.push(target);
    open[target] = (open[target] ?? 0) + 1;
  }
  const free = open.flatMap((count, ordinal) => (count === 0 ? [ordinal] : []));
  for (let ordinal = free.pop(); ordinal !== undefined; ordinal = free.pop())
    for (const next of after[ordinal] ?? []) {
      open[next] = (open[next] ?? 0) - 1;
      if (open[next] === 0) free.push(next);
    }
  let at = open.findIndex((count) => count > 0);
  if (at < 0) return null;
  // Every node left over has a predecessor left over: walking back must come around.
  const walked: number[] = [];
  while (!walked.includes(at)) {
    walked.push(at);
    at = after.findIndex((targets, ordinal) => (open[ordinal] ?? 0) > 0 && targets.includes(at));
  }
  const ring = [...walked.slice(walked.indexOf(at)), at].reverse();
  return ring.map((ordinal) => workflow.nodes[ordinal]?.id ?? String(ordinal));
}
