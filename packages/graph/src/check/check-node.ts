// Checks one node by itself: its ports, its role, and the settings of a container.

import { isContainer } from "../plan/container-settings.ts";
import { type IndexedGraph, type NodeEntry, parseBindingScope, type WorkflowIndex } from "../plan/workflow-index.ts";
import { parseBindingPath } from "../values/binding-path.ts";
import type { ProblemList } from "./problem-list.ts";

export function checkPorts(graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node } = entry;
  for (const side of ["inputPorts", "outputPorts"] as const) {
    const keys = new Set<string>();
    for (const [index, port] of (node.ui?.[side] ?? []).entries()) {
      const path = parseBindingPath(port.binding.path);
      const scope = parseBindingScope(port.binding);
      const report = (field: string[], what: string) =>
        problems.nodeError(graph, entry, ["ui", side, index, ...field], `node ${node.id}, port ${port.key}: ${what}`);
      if (typeof path === "string") report(["binding", "path"], path);
      if (typeof scope === "string") report(["binding", port.binding.scope === undefined ? "prefix" : "scope"], scope);
      if (keys.has(port.key)) report(["key"], "another port on the same side has this key");
      keys.add(port.key);
    }
  }
}

export function checkRole(graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node } = entry;
  if (entry.host === null && node.role === "middleware")
    problems.nodeError(graph, entry, ["role"], `node ${node.id} is a middleware; put it around a node`);
  if (entry.host !== null && isContainer(node))
    problems.nodeError(graph, entry, ["type"], `middleware ${node.id} is a container, which cannot wrap a node`);
}

export function checkContainer(workflowIndex: WorkflowIndex, graph: IndexedGraph, entry: NodeEntry, problems: ProblemList): void {
  const { node, container: settings, containerProblems } = entry;
  if (settings === null) return;
  const report = (at: readonly (string | number)[], what: string) => {
    const message = `node ${node.id}: ${["__container", ...at].join(".")} ${what}`;
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
