// A result besides its status: whether it matches the schema, what it left, what remains of the progress of an attempt that is over.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData, ReportedArtifact, ReportResultCommand } from "../../interface/command.ts";
import type { EngineSettings } from "../../interface/settings.ts";
import type { LeasedTask, Millis, OpenTask } from "../../storage/rows.ts";
import { artifactTtlMs } from "../queueing/artifacts.ts";
import { readTaskState, withTaskState } from "../rows/task-state.ts";
import type { TurnChecks } from "../unit-of-work/turn-checks.ts";

/** Limit of a result in its row. A larger one stays with the worker as an artifact. */
export const resultBytesMax = 2 * 1024 * 1024;

/** What is wrong with the result of a node that reports success; null when nothing is. A mismatch with the schema is fatal only where it is enforced. */
export function findResultProblem(checks: TurnChecks, tenant: string, node: PlanNode, result: string): FaultData | null {
  // A character takes at most three bytes: most results need not be measured.
  if (result.length > resultBytesMax / 3 && Buffer.byteLength(result) > resultBytesMax)
    return {
      code: "E.RESULT.TOO_LARGE",
      message: `result of node ${node.id} is larger than ${resultBytesMax} bytes; leave it with the worker as an artifact`,
      details: { node: node.id, bytesMax: resultBytesMax },
    };
  if (node.schema.results === true) return null;
  const problem = checks.findProblem(tenant, "results", node, result);
  if (problem === null) return null;
  return { code: "E.RESULT.INVALID", message: problem.message, details: { node: node.id, field: problem.path } };
}

/** Failures that another attempt would meet again. */
const permanentCodes: ReadonlySet<string> = new Set([
  "E.RESULT.INVALID",
  "E.RESULT.TOO_LARGE",
  "E.PARAMS.INVALID",
  "E.RESOURCE.MISSING",
  "E.RUNNER.REFUSED",
]);

export const isPermanentFailure = (error: FaultData): boolean => permanentCodes.has(error.code);

/** Keys of the dispatch that workers of the first generation repeat in their metadata. */
const echoedKeys: ReadonlySet<string> = new Set([
  "concurrency_key",
  "constraints",
  "host_node_id",
  "middleware_chain",
  "chain_index",
  "resource_refs",
  "affinity",
]);

/** When an artifact expires; an inline one is part of the result and lives as long. */
const artifactExpiry = (one: ReportedArtifact, now: Millis): Pick<ReportedArtifact, "expiresAt"> =>
  one.inline === true ? {} : { expiresAt: one.expiresAt ?? now + artifactTtlMs };

/** The row with the artifacts and metadata of the result. */
export function withResultDetails(
  task: LeasedTask,
  report: Pick<ReportResultCommand, "artifacts" | "metadata">,
  now: Millis,
): LeasedTask {
  if (report.artifacts === undefined && report.metadata === undefined) return task;
  const { artifacts = [], metadata } = report;
  const details =
    metadata === undefined ? [] : Object.entries(JSON.parse(metadata) as object).filter(([key]) => !echoedKeys.has(key));
  if (artifacts.length === 0 && details.length === 0) return task;
  return withTaskState(task, {
    ...(artifacts.length === 0
      ? {}
      : { artifacts: artifacts.map((one) => ({ ...one, ...artifactExpiry(one, now), worker: task.worker })) }),
    ...(details.length === 0 ? {} : { metadata: Object.fromEntries(details) }),
  });
}

/** The task has ended: its result replaces what feedback collected, and it has no stage any more. */
export function withoutLiveProgress<R extends OpenTask>(task: R): R {
  if (task.state === null) return task;
  const { said: reported, results } = readTaskState(task);
  if (results === undefined && reported?.stage === undefined) return task;
  if (reported === undefined) return withTaskState(task, { results: undefined });
  const { stage: _, ...said } = reported;
  return withTaskState(task, { results: undefined, said });
}

/** The next attempt begins without progress. */
export function resetForNextAttempt(task: LeasedTask): LeasedTask {
  if (task.state === null) return task;
  const { said: reported, results, calls, keyRefusals, isRedelivered } = readTaskState(task);
  if ([reported, results, calls, keyRefusals, isRedelivered].every((one) => one === undefined)) return task;
  const progress = { said: undefined, results: undefined, calls: undefined };
  return withTaskState(task, { ...progress, keyRefusals: undefined, isRedelivered: undefined });
}

/** The pause before the next try: exponential up to a maximum, then 20 % more or less. */
export function retryDelay(
  { backoffMs, factor, backoffMsMax }: Omit<EngineSettings["retry"], "maxAttempts">,
  failures: number,
  random: number,
): number {
  return Math.round(Math.min(backoffMsMax, backoffMs * factor ** failures) * (0.8 + 0.4 * random));
}
