// A package version of which workers announced different manifests: each task is judged by the manifest of the worker that runs it.

import type { PlanNode } from "@astraflow/graph";
import { omitUndefined } from "@astraflow/protocol";
import type { FaultData, WorkerDescription } from "../../interface/command.ts";
import type { LeasedTask, ReadyTask, RunRow } from "../../storage/rows.ts";
import { readDescription } from "../fleet/route.ts";
import { readTaskState, withTaskState } from "../rows/task-state.ts";
import { RootBusy } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { findParamsMismatch } from "./node-params.ts";
import { isSchemaEnforced, recordWarning } from "./task-warnings.ts";

/** The manifest of this version that a worker announced; undefined: it announced none. */
const manifestHeldBy = ({ packages }: WorkerDescription, name: string, version: string): string | undefined =>
  packages.find((one) => one.name === name && one.version === version)?.manifest;

/**
 * The node by its worker's own manifest, schemas and idempotency; the node itself where the workflow was completed from the same one, or its
 * author wrote the schemas. A manifest that is not stored, because there are too many of one version or its storing is under way, judges nothing.
 */
export function nodeForWorker(
  work: UnitOfWork,
  run: RunRow,
  node: PlanNode,
  about: WorkerDescription,
  version = node.packageVersion,
): PlanNode {
  if (node.manifest === undefined) return node;
  const held = manifestHeldBy(about, node.packageName, version);
  if (held === undefined || held === node.manifest) return node;
  const rules = work.manifestRules(run.tenant, `${node.packageName}/${version}`, held)?.get(node.type);
  const schema = { parameters: rules?.schema.parameters ?? true, results: rules?.schema.results ?? true };
  if (rules === undefined) return { ...node, schema };
  const { idempotency: _, ...others } = node;
  return { ...others, schema, ...omitUndefined({ idempotency: rules.idempotency }) };
}

/** Whether a connected worker that may run the node announced another manifest than the one that the workflow was completed from. */
export function hasOtherManifest(work: UnitOfWork, run: RunRow, { manifest, packageName, ...node }: PlanNode): boolean {
  if (manifest === undefined) return false;
  for (const { tenant, about } of work.fleet.workers.values())
    for (const one of tenant === run.tenant ? about.packages : [])
      if (
        one.name === packageName &&
        (one.version === node.packageVersion || node.minVersion !== null) &&
        one.manifest !== undefined &&
        one.manifest !== manifest
      )
        return true;
  return false;
}

/** Null: another turn writes the document of the package right now. A task does not wait for that: it goes out unjudged. */
function nodeUnlessBusy(read: () => PlanNode): PlanNode | null {
  try {
    return read();
  } catch (problem) {
    if (problem instanceof RootBusy) return null;
    throw problem;
  }
}

/** The task as this worker gets it, with the warnings of its own manifest, or why it cannot run there. */
export function judgeForWorker(
  work: UnitOfWork,
  run: RunRow,
  node: PlanNode,
  task: ReadyTask,
  about: WorkerDescription,
  version: string,
): ReadyTask | FaultData {
  if (node.manifest === undefined) return task;
  const { isUnjudged, warnings = [] } = readTaskState(task);
  const own = nodeUnlessBusy(() => nodeForWorker(work, run, node, about, version));
  if (own === null || (own === node && isUnjudged !== true)) return task;
  const mismatch = findParamsMismatch(work, run, own, task.params ?? "{}");
  if (mismatch !== null && isSchemaEnforced(node)) return mismatch;
  if (mismatch !== null && warnings.some(({ message }) => message === mismatch.message)) return task;
  const others = warnings.filter(({ code }) => code !== "E.PARAMS.INVALID");
  const judged = withTaskState(task, { isUnjudged: undefined, warnings: others.length === 0 ? undefined : others });
  return mismatch === null ? judged : recordWarning(work, run, node, judged, mismatch);
}

/**
 * What the adapter that ran the task declares about its idempotency, by the manifest of its worker; undefined: that it may be repeated, or
 * nothing. While another turn writes the document of the package, what the workflow was completed from counts.
 */
export function idempotencyAtWorker(work: UnitOfWork, run: RunRow, node: PlanNode, task: LeasedTask): string | undefined {
  const row = node.manifest === undefined ? null : work.peekWorker(task.worker);
  if (row === null) return node.idempotency;
  const { version } = readTaskState(task);
  return (nodeUnlessBusy(() => nodeForWorker(work, run, node, readDescription(row), version)) ?? node).idempotency;
}
