// Slots: the part of a task's id that names its node, iteration and call within the run. Pure text; what a slot means is decided with the
// plan of the run.
//
//   4          node 4 of the top level
//   4*2        iteration 2 of the container 4
//   4*2/7      node 7 inside that iteration
//   5~3        third call of node 5 through a chain of middlewares

import type { Plan, PlanNode } from "@astraflow/graph";
import type { RunId, TaskId, TaskRow } from "../../storage/rows.ts";

export type Slot = string;

/** The top level of a run. Any other scope is the slot of an iteration. */
export const topLevel: Slot = "";

export interface SlotStep {
  readonly ordinal: number;
  /** From 1; null where the node is not called through a chain. */
  readonly call: number | null;
  /** Null unless this step is an iteration of a container. */
  readonly iteration: number | null;
}

export const slotOf = (task: Pick<TaskRow, "id" | "run">): Slot => task.id.slice(task.run.length + 1);
export const taskIdAt = (run: RunId, slot: Slot): TaskId => `${run}.${slot}`;

/** Whether a slot is just a node of the top level, outside of any iteration and not a call. Most are. */
export function isTopLevelNode(slot: Slot): boolean {
  for (let at = 0; at < slot.length; at++) {
    const character = slot.charCodeAt(at);
    if (character < 48 || character > 57) return false;
  }
  return slot !== "";
}

/** The slot of a node in a scope. */
export const nodeSlot = (scope: Slot, ordinal: number): Slot => (scope === topLevel ? String(ordinal) : `${scope}/${ordinal}`);
export const callSlot = (slot: Slot, call: number): Slot => `${slot}~${call}`;
export const iterationSlot = (slot: Slot, iteration: number): Slot => `${slot}*${iteration}`;

/** The iteration that contains a slot. */
export function scopeOf(slot: Slot): Slot {
  const slash = slot.lastIndexOf("/");
  return slash < 0 ? topLevel : slot.slice(0, slash);
}

export function lastStep(slot: Slot): SlotStep {
  return parseStep(slot.slice(slot.lastIndexOf("/") + 1));
}

/** The slot without its iteration: the container that an iteration belongs to. */
export function containerSlot(iteration: Slot): Slot {
  return iteration.slice(0, iteration.lastIndexOf("*"));
}

/** The slot without its call: the logical node that a call is one of. */
export function logicalSlot(slot: Slot): Slot {
  const tilde = slot.indexOf("~", slot.lastIndexOf("/") + 1);
  return tilde < 0 ? slot : slot.slice(0, tilde);
}

/** The iterations and containers around a slot, innermost first; for an iteration its container is the first of them. */
export function enclosingSlots(slot: Slot): Slot[] {
  const found: Slot[] = [];
  let at = slot;
  for (;;) {
    at = lastStep(at).iteration === null ? scopeOf(at) : containerSlot(at);
    if (at === topLevel) return found;
    found.push(at);
  }
}

/** Everything inside an iteration or a container has an id after `after` and up to `last`: it is contiguous in id order. */
export function slotRangeInside(slot: Slot): { readonly after: Slot; readonly last: Slot } {
  const inside = lastStep(slot).iteration === null ? `${slot}*` : `${slot}/`;
  // What follows is a digit; the colon is the character behind the last of them.
  return { after: inside, last: `${inside}:` };
}

function parseStep(text: string): SlotStep {
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
export function planOfScope(plan: Plan, scope: Slot): Plan | null {
  if (scope === topLevel) return plan;
  let at: Plan | null = plan;
  for (const step of scope.split("/")) at = at?.nodes[parseStep(step).ordinal]?.container?.body ?? null;
  return at;
}

/** The node of a slot; for an iteration its container. */
export function nodeAt(plan: Plan, slot: Slot): PlanNode | null {
  if (isTopLevelNode(slot)) return plan.nodes[Number(slot)] ?? null;
  return planOfScope(plan, scopeOf(slot))?.nodes[lastStep(slot).ordinal] ?? null;
}
