// The iterations of a container: the inputs of their nodes, their outputs, what a loop iterates over, and when it stops.
// The engine decides when iterations start and end.

import { isObject, valueAt, withValueAt } from "../values/binding-path.ts";
import { isEqualJson } from "../values/canonical-json.ts";
import { valueOrRemoteRefAt } from "../values/remote-value.ts";
import { applyInputs } from "./plan-compiler.ts";
import type { ContainerLoop, ContainerPlan, IterationScope, LoopCondition, NodeOutcome, PlanNode } from "./plan-types.ts";

/** The parameters of a node in an iteration: as authored, then the inputs of the iteration, then the values of its edges. */
export function resolveIterationParams(
  container: ContainerPlan,
  node: PlanNode,
  values: IterationScope,
  outcome: (ordinal: number) => NodeOutcome | null,
): Readonly<Record<string, unknown>> {
  let params: unknown = node.params;
  for (const input of container.inputs) {
    if (input.node !== node.ordinal) continue;
    const value = valueOrRemoteRefAt(values[input.from.root], input.from.steps);
    if (value !== undefined) params = withValueAt(params, input.to, value);
  }
  return applyInputs(params, node, outcome);
}

/** The outputs of an iteration whose nodes have ended. Absent values and nodes that did not run are left out. */
export function collectIterationOutputs(
  container: ContainerPlan,
  outcome: (ordinal: number) => NodeOutcome | null,
): Record<string, unknown> {
  let outputs: unknown = {};
  for (const output of container.outputs) {
    const source = outcome(output.node);
    if (source === null) continue;
    const value = valueOrRemoteRefAt(output.from.root === "results" ? source.results : source.params, output.from.steps);
    if (value !== undefined) outputs = withValueAt(outputs, output.to, value);
  }
  return isObject(outputs) ? outputs : {};
}

/** Whether a loop continues, by the outputs of its last iteration. */
export function isConditionMet(condition: LoopCondition, outputs: unknown): boolean {
  return evaluateCondition(condition, valueAt(outputs, condition.path)) !== (condition.isNegated ?? false);
}

function evaluateCondition(condition: LoopCondition, found: unknown): boolean {
  switch (condition.op) {
    case "truthy":
      return Boolean(found);
    case "falsy":
      return !found;
    case "exists":
      return found !== undefined && found !== null;
    case "missing":
      return found === undefined || found === null;
    case "eq":
      return isEqualJson(found, condition.value);
    case "ne":
      return !isEqualJson(found, condition.value);
    case "lt":
    case "le":
    case "gt":
    case "ge":
      return isInOrder(condition.op, found, condition.value);
  }
}

/** Two numbers or two texts have an order; anything else has none, and then nothing holds. */
function isInOrder(op: "lt" | "le" | "gt" | "ge", a: unknown, b: unknown): boolean {
  const isComparable = (typeof a === "number" && typeof b === "number") || (typeof a === "string" && typeof b === "string");
  if (!isComparable) return false;
  const [left, right] = [a as number, b as number];
  if (op === "lt") return left < right;
  if (op === "le") return left <= right;
  return op === "gt" ? left > right : left >= right;
}

/** What forEach and map go over, or a sentence about why that cannot be. */
export function resolveLoopItems(loop: ContainerLoop, parameters: unknown): readonly unknown[] | string {
  if (loop.items === null) return `a ${loop.mode} loop goes over no list`;
  const path = "path" in loop.items ? loop.items.path : null;
  const items = "path" in loop.items ? valueAt(parameters, loop.items.path) : loop.items.values;
  const where = path === null ? "the list of the loop" : ["parameters", ...path].join(".");
  if (!Array.isArray(items))
    return `${where} is ${items === undefined ? "missing" : `no list (${jsonTypeName(items)})`}; the loop needs one`;
  if (items.length > loop.maxIterations)
    return `${where} has ${items.length} items, more than the ${loop.maxIterations} iterations allowed`;
  return items;
}

const jsonTypeName = (value: unknown): string => (value === null ? "null" : typeof value);
