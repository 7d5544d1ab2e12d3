// What is wrong with one node by itself: its ports, its role, and what a container says about its inside.

import { isContainer, readContainer } from "./container.ts";
import { type Graph, type Graphs, type Place, scopeOf, stepsTo } from "./graphs.ts";
import { readPath } from "./path.ts";
import type { Problems } from "./problem.ts";

export function checkPorts(graph: Graph, place: Place, problems: Problems): void {
  const { node } = place;
  for (const side of ["inputPorts", "outputPorts"] as const) {
    const keys = new Set<string>();
    for (const [index, port] of (node.ui?.[side] ?? []).entries()) {
      const at = [...stepsTo(place), "ui", side, index];
      const path = readPath(port.binding.path);
      const scope = scopeOf(port.binding);
      const wrong = (field: string[], what: string) =>
        problems.error(graph, [...at, ...field], `node ${node.id}, port ${port.key}: ${what}`, node.id);
      if (typeof path === "string") wrong(["binding", "path"], path);
      if (typeof scope === "string") wrong(["binding", port.binding.scope === undefined ? "prefix" : "scope"], scope);
      if (keys.has(port.key)) wrong(["key"], "another port on the same side has this key");
      keys.add(port.key);
    }
  }
}

export function checkRole(graph: Graph, place: Place, problems: Problems): void {
  const { node } = place;
  if (place.host === null && node.role === "middleware")
    problems.error(graph, [...stepsTo(place), "role"], `node ${node.id} is a middleware; put it around a node`, node.id);
  if (place.host !== null && isContainer(node))
    problems.error(
      graph,
      [...stepsTo(place), "type"],
      `middleware ${node.id} is a container, which cannot stand around a node`,
      node.id,
    );
}

export function checkContainer(graphs: Graphs, graph: Graph, place: Place, problems: Problems): void {
  const { node } = place;
  if (place.container === null) return;
  const { form, problems: wrongs } = readContainer(node);
  const wrong = (at: readonly (string | number)[], what: string) =>
    problems.error(
      graph,
      [...stepsTo(place), "parameters", "__container", ...at],
      `node ${node.id}: ${["__container", ...at].join(".")} ${what}`,
      node.id,
    );
  for (const { at, message } of wrongs) wrong(at, message);
  if (form.subgraph === "") return;
  const inside = graphs.byName.get(form.subgraph);
  if (inside === undefined) {
    wrong(["subgraphId"], `names ${form.subgraph}, which is not among the subgraphs of the workflow itself`);
    return;
  }
  const authored = node.parameters?.["__container"] as Record<"inputs" | "outputs", unknown>;
  for (const side of ["inputs", "outputs"] as const) {
    const ports: unknown = authored[side];
    for (const [index, port] of (Array.isArray(ports) ? (ports as { node?: unknown }[]) : []).entries())
      if (typeof port?.node === "string" && port.node !== "" && !inside.byId.has(port.node))
        wrong([side, index, "node"], `names ${port.node}, which subgraph ${form.subgraph} does not have`);
  }
}
