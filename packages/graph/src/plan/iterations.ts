// The iterations of a container: the inputs of their nodes, their outputs, what a loop iterates over, and when it stops.

import { valueAt, withValueAt } from "../values/binding-path.ts";
import { isEqualJson } from "../values/canonical-json.ts";
import { valueOrRemoteRefAt } from "../values/remote-value.ts";
import { copyValues } from "./plan-compiler.ts";
import type { ContainerLoop, ContainerPlan, IterationScope, LoopCondition, OutcomeOf, PlanNode } from "./plan-types.ts";

/** The parameters of a node in an iteration: as authored, then the inputs of the iteration, then the values of its edges. */
export function resolveIterationParams(
  container: ContainerPlan,
  node: PlanNode,
  values: IterationScope,
  outcome: OutcomeOf,
): Readonly<Record<string, unknown>> {
  let params: unknown = node.params;
  for (const input of container.inputs) {
    if (input.node !== node.ordinal) continue;
    const value = valueOrRemoteRefAt(values[input.from.root], input.from.steps);
    if (value !== undefined) params = withValueAt(params, input.to, value);
  }
  return copyValues(params, node.inputs, "source", outcome);
}

/** The outputs of an iteration whose nodes have ended. Absent values and nodes that did not run are left out. */
export function collectIterationOutputs(container: ContainerPlan, outcome: OutcomeOf): Record<string, unknown> {
  return copyValues({}, container.outputs, "node", outcome);
}

/** Whether a loop continues, by the outputs of its last iteration. */
export function isConditionMet(condition: LoopCondition, outputs: unknown): boolean {
  const holds = conditionTests[condition.op](valueAt(outputs, condition.path), condition.value);
  return holds !== (condition.isNegated ?? false);
}

const isPresent = (found: unknown): boolean => found !== undefined && found !== null;

/** Two numbers or two texts have an order; anything else has none, and then nothing holds. */
const inOrder = (holds: (a: number, b: number) => boolean) => (found: unknown, value: unknown) =>
  typeof found === typeof value && ["number", "string"].includes(typeof found) && holds(found as number, value as number);

const conditionTests: Readonly<Record<LoopCondition["op"], (found: unknown, value: unknown) => boolean>> = {
  truthy: Boolean,
  falsy: (found) => !found,
  exists: isPresent,
  missing: (found) => !isPresent(found),
  eq: isEqualJson,
  ne: (found, value) => !isEqualJson(found, value),
  lt: inOrder((a, b) => a < b),
  le: inOrder((a, b) => a <= b),
  gt: inOrder((a, b) => a > b),
  ge: inOrder((a, b) => a >= b),
};

/** What forEach and map go over, or a sentence about why that cannot be. */
export function resolveLoopItems(loop: ContainerLoop, parameters: unknown): readonly unknown[] | string {
  if (loop.items === null) return `a ${loop.mode} loop goes over no list`;
  const path = "path" in loop.items ? loop.items.path : null;
  const items = "path" in loop.items ? valueAt(parameters, loop.items.path) : loop.items.values;
  const where = path === null ? "the list of the loop" : ["parameters", ...path].join(".");
  if (!Array.isArray(items))
    return `${where} is ${items === undefined ? "missing" : `no list (${items === null ? "null" : typeof items})`}; the loop needs one`;
  if (items.length > loop.maxIterations)
    return `${where} has ${items.length} items, more than the ${loop.maxIterations} iterations allowed`;
  return items;
}
