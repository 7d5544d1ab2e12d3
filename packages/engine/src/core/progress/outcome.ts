// What a result brings besides its status: whether it is what the node promised, what it left with the worker, and what stays of the words
// of an attempt that is over.

import { findResultsProblem, type PlanNode } from "@astraflow/graph";
import type { ReportedArtifact, ReportResult } from "../../interface/command.ts";
import type { FaultData } from "../../interface/fault-data.ts";
import type { EngineSettings } from "../../interface/settings.ts";
import type { Millis, TaskRow } from "../../storage/rows.ts";
import { artifactTtlMs } from "../queueing/artifacts.ts";
import { type ReportedProgress, readTaskState, withTaskState } from "../rows/task-state.ts";

/** A result that is kept in its row. What is larger stays with the worker as an artifact. */
export const resultBytesMax = 2 * 1024 * 1024;

/** What is wrong with the result of a node that says it succeeded; null when nothing is. */
export function findResultProblem(node: PlanNode, result: string): FaultData | null {
  // A character takes at most three bytes: most results need not be measured.
  if (result.length > resultBytesMax / 3 && Buffer.byteLength(result) > resultBytesMax)
    return {
      code: "E.RESULT.TOO_LARGE",
      message: `result of node ${node.id} is larger than ${resultBytesMax} bytes; leave it with the worker as an artifact`,
      details: { node: node.id, bytesMax: resultBytesMax },
    };
  if (node.schema.results === true) return null;
  const problem = findResultsProblem(node, JSON.parse(result));
  if (problem === null) return null;
  return { code: "E.RESULT.INVALID", message: problem.message, details: { node: node.id, field: problem.path } };
}

/** Failures that another attempt would meet again. */
const permanentCodes: ReadonlySet<string> = new Set([
  "E.RESULT.INVALID",
  "E.RESULT.TOO_LARGE",
  "E.PARAMS.INVALID",
  "E.RESOURCE.MISSING",
]);

export const isPermanentFailure = (error: FaultData): boolean => permanentCodes.has(error.code);

/** Keys by which workers of the first generation repeat what the dispatch said. */
const echoedKeys: ReadonlySet<string> = new Set([
  "concurrency_key",
  "constraints",
  "host_node_id",
  "middleware_chain",
  "chain_index",
  "resource_refs",
  "affinity",
]);

/** Until when it can be had, said or not; what came inline is in the result, and lives as long. */
const artifactExpiry = (one: ReportedArtifact, now: Millis): Pick<ReportedArtifact, "expiresAt"> =>
  one.inline === true ? {} : { expiresAt: one.expiresAt ?? now + artifactTtlMs };

/** The row with what the result says of itself. */
export function withResultDetails(task: TaskRow, report: Pick<ReportResult, "artifacts" | "metadata">, now: Millis): TaskRow {
  if (report.artifacts === undefined && report.metadata === undefined) return task;
  const { artifacts = [], metadata } = report;
  const details =
    metadata === undefined ? [] : Object.entries(JSON.parse(metadata) as object).filter(([key]) => !echoedKeys.has(key));
  if (artifacts.length === 0 && details.length === 0) return task;
  return withTaskState(task, {
    ...(artifacts.length === 0
      ? {}
      : { artifacts: artifacts.map((one) => ({ ...one, ...artifactExpiry(one, now), worker: task.worker ?? "" })) }),
    ...(details.length === 0 ? {} : { metadata: Object.fromEntries(details) }),
  });
}

/** An attempt that ended its task: its result stands for what feedback gathered, and its stage is that of the past. */
export function withoutLiveProgress(task: TaskRow): TaskRow {
  if (task.state === null) return task;
  const { said: reported, results } = readTaskState(task);
  if (results === undefined && reported?.stage === undefined) return task;
  return withTaskState(task, { results: undefined, said: reported === undefined ? undefined : withoutStage(reported) });
}

function withoutStage({ stage: _, ...reported }: ReportedProgress): ReportedProgress {
  return reported;
}

/** The next attempt begins with nothing said. */
export function resetForNextAttempt(task: TaskRow): TaskRow {
  if (task.state === null) return task;
  const { said: reported, results, calls } = readTaskState(task);
  if (reported === undefined && results === undefined && calls === undefined) return task;
  return withTaskState(task, { said: undefined, results: undefined, calls: undefined });
}

/** The pause before the next try: exponential up to a maximum, then 20 % more or less. */
export function retryDelay(
  { backoffMs, factor, backoffMsMax }: Omit<EngineSettings["retry"], "maxAttempts">,
  failures: number,
  random: number,
): number {
  return Math.round(Math.min(backoffMsMax, backoffMs * factor ** failures) * (0.8 + 0.4 * random));
}
