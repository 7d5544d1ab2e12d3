// Attempts that may have begun, of adapters that do not declare that a call may be repeated: they are not run again silently.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { LeasedTask, RunRow } from "../../storage/rows.ts";
import { idempotencyAtWorker } from "../nodes/worker-manifests.ts";
import { readTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** What the adapter declares that forbids another attempt without a verdict on this one; null: it may be repeated, or the node's policy allows it. */
export function findRepeatObstacle(work: UnitOfWork, run: RunRow, node: PlanNode, task: LeasedTask): string | null {
  if (node.policy.maxDeliveries !== undefined) return null;
  return idempotencyAtWorker(work, run, node, task) ?? null;
}

/** `lost`: why nothing is known about the attempt. */
export function unrepeatedFault(
  work: UnitOfWork,
  task: LeasedTask,
  { type, packageName, packageVersion }: PlanNode,
  idempotency: string,
  lost: string,
): FaultData {
  const version = readTaskState(task).version ?? packageVersion;
  const worker = work.fleet.workers.get(task.worker)?.name ?? work.peekWorker(task.worker)?.name ?? task.worker;
  const message =
    `task ${task.id} may have begun on worker ${worker} and its outcome is unknown (${lost}); it was not run again, because the manifest of ` +
    `${packageName} ${version} declares idempotency ${idempotency} for ${type}. Check what it has done, then requeue its dead letter or replay ` +
    "the run from this node; a policy with retry or maxDeliveries lets the scheduler repeat it";
  return { code: "E.WORKER.LOST", message, details: { worker, package: packageName, version, idempotency, mayHaveRun: true } };
}
