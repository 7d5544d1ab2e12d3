// What a result brings besides its status: whether it is what the node promised, what it left with the worker, and what stays of the words
// of an attempt that is over.

import { findResultsProblem, type PlanNode } from "@astraflow/graph";
import type { ArtifactWord, ResultTask } from "../../command.ts";
import type { FaultData } from "../../effect.ts";
import type { Millis, TaskRow } from "../../rows.ts";
import { artifactTtlMs } from "../place/artifacts.ts";
import { type Said, stateOf, withState } from "../rows/state.ts";

/** A result that is kept in its row. What is larger stays with the worker as an artifact. */
export const resultBytesMax = 2 * 1024 * 1024;

/** What is wrong with the result of a node that says it succeeded; null when nothing is. */
export function unfitResult(node: PlanNode, result: string): FaultData | null {
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
const lasting: ReadonlySet<string> = new Set([
  "E.RESULT.INVALID",
  "E.RESULT.TOO_LARGE",
  "E.PARAMS.INVALID",
  "E.RESOURCE.MISSING",
]);

export const isLasting = (error: FaultData): boolean => lasting.has(error.code);

/** Keys by which workers of the first generation repeat what the dispatch said. */
const echoes: ReadonlySet<string> = new Set([
  "concurrency_key",
  "constraints",
  "host_node_id",
  "middleware_chain",
  "chain_index",
  "resource_refs",
  "affinity",
]);

/** Until when it can be had, said or not; what came inline is in the result, and lives as long. */
const lifeOf = (one: ArtifactWord, now: Millis): Pick<ArtifactWord, "expiresAt"> =>
  one.inline === true ? {} : { expiresAt: one.expiresAt ?? now + artifactTtlMs };

/** The row with what the result says of itself. */
export function withOutcome(task: TaskRow, word: Pick<ResultTask, "artifacts" | "metadata">, now: Millis): TaskRow {
  if (word.artifacts === undefined && word.metadata === undefined) return task;
  const { artifacts = [], metadata } = word;
  const told = metadata === undefined ? [] : Object.entries(JSON.parse(metadata) as object).filter(([key]) => !echoes.has(key));
  if (artifacts.length === 0 && told.length === 0) return task;
  return withState(task, {
    ...(artifacts.length === 0
      ? {}
      : { artifacts: artifacts.map((one) => ({ ...one, ...lifeOf(one, now), worker: task.worker ?? "" })) }),
    ...(told.length === 0 ? {} : { metadata: Object.fromEntries(told) }),
  });
}

/** An attempt that ended its task: its result stands for what feedback gathered, and its stage is that of the past. */
export function withoutLiveWords(task: TaskRow): TaskRow {
  if (task.state === null) return task;
  const { said, results } = stateOf(task);
  if (results === undefined && said?.stage === undefined) return task;
  return withState(task, { results: undefined, said: said === undefined ? undefined : withoutStage(said) });
}

function withoutStage({ stage: _, ...said }: Said): Said {
  return said;
}

/** The next attempt begins with nothing said. */
export function forNextAttempt(task: TaskRow): TaskRow {
  if (task.state === null) return task;
  const { said, results, calls } = stateOf(task);
  if (said === undefined && results === undefined && calls === undefined) return task;
  return withState(task, { said: undefined, results: undefined, calls: undefined });
}
