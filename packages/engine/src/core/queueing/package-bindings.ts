// Which worker last ran a package for a run: a preference, because what it has loaded is warm. The only user of `RunRow.bindings`.

import type { PlanNode } from "@astraflow/graph";
import type { LeasedTask, Millis, RunRow, WorkerId } from "../../storage/rows.ts";
import { parsedColumn } from "../rows/parsed-column.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { acquireIfFree } from "./affinity-keys.ts";

export interface PackageBinding {
  readonly worker: WorkerId;
  readonly at: Millis;
}

const bindingsColumn = parsedColumn<RunRow, Readonly<Record<string, PackageBinding>>>((run) => run.bindings, {});

export const readBindings = bindingsColumn.read;

export function boundWorker(run: RunRow, packageName: string): WorkerId | null {
  const bindings = readBindings(run);
  return Object.hasOwn(bindings, packageName) ? (bindings[packageName]?.worker ?? null) : null;
}

/** A task ended well at its worker: the package is bound there, and the task's affinity key lives on. */
export function recordSuccess(work: UnitOfWork, run: RunRow, task: LeasedTask): void {
  const node = work.nodeOf(run, task);
  recordBinding(work, work.run(run.id) ?? run, node, task);
  const { affinity } = node.policy;
  if (affinity !== undefined) acquireIfFree(work, run, affinity, task.worker);
}

/** Written at the first success of a package and when it changes place, so a run is not written for each. */
function recordBinding(work: UnitOfWork, run: RunRow, node: PlanNode, task: LeasedTask): void {
  if (boundWorker(run, node.packageName) === task.worker) return;
  const bindings = { ...readBindings(run), [node.packageName]: { worker: task.worker, at: work.now } };
  const bound = { ...run, bindings: JSON.stringify(bindings) };
  bindingsColumn.remember(bound, bindings);
  work.put(bound);
}
