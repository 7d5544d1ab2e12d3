// Which worker last did work of which package for a run: what follows goes there again while it has room, because what it has loaded is
// warm. A preference, never a promise. The only reader and writer of `RunRow.bindings`.

import type { PlanNode } from "@astraflow/graph";
import type { Millis, RunRow, TaskRow, WorkerId } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Tools } from "../tools.ts";
import { refreshAffinity } from "./affinity.ts";

export interface Binding {
  readonly worker: WorkerId;
  readonly at: Millis;
}

const none: Readonly<Record<string, Binding>> = {};
const read = new WeakMap<RunRow, Readonly<Record<string, Binding>>>();

export function bindingsOf(run: RunRow): Readonly<Record<string, Binding>> {
  if (run.bindings === null) return none;
  let bindings = read.get(run);
  if (bindings === undefined) read.set(run, (bindings = JSON.parse(run.bindings) as Record<string, Binding>));
  return bindings;
}

export function boundWorker(run: RunRow, packageName: string): WorkerId | null {
  const bindings = bindingsOf(run);
  return Object.hasOwn(bindings, packageName) ? (bindings[packageName]?.worker ?? null) : null;
}

/** A task ended well at its worker: the package is bound there, and the task's affinity key lives on. */
export function recordSuccess(board: Board, tools: Tools, run: RunRow, task: TaskRow): void {
  const node = tools.plans.nodeOf(board, run, task);
  recordBinding(board, board.run(run.id) ?? run, node, task);
  refreshAffinity(board, run, node, task);
}

/** Written at the first success of a package and when it changes place, so a run is not written for each. */
function recordBinding(board: Board, run: RunRow, node: PlanNode, task: TaskRow): void {
  if (task.worker === null || boundWorker(run, node.packageName) === task.worker) return;
  const bindings = { ...bindingsOf(run), [node.packageName]: { worker: task.worker, at: board.now } };
  const bound = { ...run, bindings: JSON.stringify(bindings) };
  read.set(bound, bindings);
  board.put(bound);
}
