// Task paths: the part of a task's id that names its node, iteration and call within the run. Pure text; what a path means is decided with the
// plan of the run.
//
//   4          node 4 of the top level
//   4*2        iteration 2 of the container 4
//   4*2/7      node 7 inside that iteration
//   5~3        third call of node 5 through a chain of middlewares

import type { Plan, PlanNode } from "@astraflow/graph";
import type { RunId, TaskId, TaskRow } from "../../storage/rows.ts";

export type TaskPath = string;

/** The top level of a run. Any other scope is the path of an iteration. */
export const topLevel: TaskPath = "";

export interface TaskPathStep {
  readonly ordinal: number;
  /** From 1; null where the node is not called through a chain. */
  readonly call: number | null;
  /** Null unless this step is an iteration of a container. */
  readonly iteration: number | null;
}

export const taskPathOf = (task: Pick<TaskRow, "id" | "run">): TaskPath => task.id.slice(task.run.length + 1);
export const taskIdAt = (run: RunId, path: TaskPath): TaskId => `${run}.${path}`;

/** Whether a path is just a node of the top level, outside of any iteration and not a call. Most are. */
export function isTopLevelNode(path: TaskPath): boolean {
  for (let at = 0; at < path.length; at++) {
    const character = path.charCodeAt(at);
    if (character < 48 || character > 57) return false;
  }
  return path !== "";
}

/** The path of a node in a scope. */
export const nodePath = (scope: TaskPath, ordinal: number): TaskPath =>
  scope === topLevel ? String(ordinal) : `${scope}/${ordinal}`;
export const callPath = (path: TaskPath, call: number): TaskPath => `${path}~${call}`;
export const iterationPath = (path: TaskPath, iteration: number): TaskPath => `${path}*${iteration}`;

/** The iteration that contains a path. */
export function scopeOf(path: TaskPath): TaskPath {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? topLevel : path.slice(0, slash);
}

export function lastStep(path: TaskPath): TaskPathStep {
  return parseStep(path.slice(path.lastIndexOf("/") + 1));
}

/** The path without its iteration: the container that an iteration belongs to. */
export function containerPath(iteration: TaskPath): TaskPath {
  return iteration.slice(0, iteration.lastIndexOf("*"));
}

/** The path without its call: the logical node that a call is one of. */
export function logicalPath(path: TaskPath): TaskPath {
  const tilde = path.indexOf("~", path.lastIndexOf("/") + 1);
  return tilde < 0 ? path : path.slice(0, tilde);
}

/** The iterations and containers around a path, innermost first; for an iteration its container is the first of them. */
export function enclosingPaths(path: TaskPath): TaskPath[] {
  const found: TaskPath[] = [];
  let at = path;
  for (;;) {
    at = lastStep(at).iteration === null ? scopeOf(at) : containerPath(at);
    if (at === topLevel) return found;
    found.push(at);
  }
}

/** Everything inside an iteration or a container has an id after `after` and up to `last`: it is contiguous in id order. */
export function pathRangeInside(path: TaskPath): { readonly after: TaskPath; readonly last: TaskPath } {
  const inside = lastStep(path).iteration === null ? `${path}*` : `${path}/`;
  // What follows is a digit; the colon is the character behind the last of them.
  return { after: inside, last: `${inside}:` };
}

function parseStep(text: string): TaskPathStep {
  const star = text.indexOf("*");
  const tilde = text.indexOf("~");
  const end = tilde >= 0 ? tilde : star >= 0 ? star : text.length;
  return {
    ordinal: Number(text.slice(0, end)),
    call: tilde < 0 ? null : Number(text.slice(tilde + 1, star < 0 ? undefined : star)),
    iteration: star < 0 ? null : Number(text.slice(star + 1)),
  };
}

/** The plan that the nodes of a scope belong to; null where there is none such. */
export function planOfScope(plan: Plan, scope: TaskPath): Plan | null {
  if (scope === topLevel) return plan;
  let at: Plan | null = plan;
  for (const step of scope.split("/")) at = at?.nodes[parseStep(step).ordinal]?.container?.body ?? null;
  return at;
}

/** The node of a path; for an iteration its container. */
export function nodeAt(plan: Plan, path: TaskPath): PlanNode | null {
  if (isTopLevelNode(path)) return plan.nodes[Number(path)] ?? null;
  return planOfScope(plan, scopeOf(path))?.nodes[lastStep(path).ordinal] ?? null;
}
