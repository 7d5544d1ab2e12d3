// Bounds what the catalogue adds to a workflow: each node gets a copy of its schemas and ports, so a short definition can become a very long one.

import type { WorkflowIndex } from "../plan/workflow-index.ts";
import type { ProblemList } from "./problem-list.ts";

export const sizeLimits = {
  /** Characters of the schemas and ports of all nodes; as much again as a request may have. */
  describedCharsMax: 8 * 1024 * 1024,
  /** Writing a definition takes about as long as a step for so many characters. */
  charsPerStep: 100,
} as const;

/** By schema or list of ports: the catalogue's are shared by all nodes of a type, and by all workflows. */
const measuredChars = new WeakMap<object, number>();

/** Looks no further once there are too many: it must not take long itself. `stepsMax`: what somebody may spend who cannot build a long one. */
export function checkDescribedSize({ graphs }: WorkflowIndex, problems: ProblemList, stepsMax: number | undefined): void {
  const { describedCharsMax, charsPerStep } = sizeLimits;
  const charsMax = Math.min(describedCharsMax, (stepsMax ?? Number.POSITIVE_INFINITY) * charsPerStep);
  let chars = 0;
  for (const graph of graphs)
    for (const entry of graph.entries) {
      const { schema, ui } = entry.node;
      for (const part of [schema?.parameters, schema?.results, ui?.inputPorts, ui?.outputPorts]) chars += charsOf(part);
      if (chars <= charsMax) continue;
      const { name, version } = entry.node.package;
      const message = `node ${entry.node.id}: with it the schemas and ports of all nodes exceed ${charsMax} characters; use fewer nodes, or shorter schemas in package ${name} ${version}`;
      return problems.tooCostly(graph, entry, ["schema"], message);
    }
}

function charsOf(part: unknown): number {
  if (typeof part !== "object" || part === null) return 0;
  const known = measuredChars.get(part);
  if (known !== undefined) return known;
  const chars = JSON.stringify(part).length;
  measuredChars.set(part, chars);
  return chars;
}
