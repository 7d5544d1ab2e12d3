// Parameters of calls in a chain, and whether parameters are what the node's schema requires.

import { findRemoteValuePart, mergeResults, type PlanNode, type RemoteValuePart } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { RunRow, WaitingTask } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { recordDeadLetter } from "./dead-letters.ts";
import { errorText } from "./end-run.ts";
import type { RunProgress } from "./run-progress.ts";

/** A part of a value that is not here cannot be passed on; null when all values are here. */
export function findMissingPartFault(node: PlanNode, params: string): FaultData | null {
  const part = findRemoteValuePart(params);
  return part === null ? null : keptPartProblem(node, part);
}

/** Where these parameters do not match the schema of the node; null when they do. */
export function findParamsMismatch(work: UnitOfWork, { tenant }: RunRow, node: PlanNode, params: string): FaultData | null {
  if (node.schema.parameters === true) return null;
  const problem = work.checks.findProblem(tenant, "parameters", node, params);
  if (problem === null) return null;
  return { code: "E.PARAMS.INVALID", message: problem.message, details: { node: node.id, field: problem.path } };
}

const keptPartProblem = (node: PlanNode, { field, inside, resourceId }: RemoteValuePart): FaultData => ({
  code: "E.PARAMS.INVALID",
  message: `node ${node.id} (${node.label}): ${field} is to be ${inside} of a value that was too large to travel and stayed with its worker; connect the whole value and read it there`,
  details: { node: node.id, field, resource: resourceId },
});

/** A task that cannot begin ends as failed at once. `newTask` is counted as open already. */
export function failBeforeStart(
  progress: RunProgress,
  node: PlanNode,
  newTask: WaitingTask,
  params: string,
  error: FaultData,
): void {
  const failed = progress.work.moveTask({ ...newTask, params }, { type: "fail", error: errorText(error), result: null });
  recordDeadLetter(progress, node, failed, error);
  progress.end(failed, { error });
}

/** Limits of parameters after a payload is merged; a frame to a worker cannot carry more. */
const paramsLimits = { bytesMax: 2 * 1024 * 1024, depthMax: 64 };

/** Where what a caller handed on is found by what it called. */
const nextParam = "__next";

/** What a caller passes on: changes of the parameters, and contexts for the host and for the next middleware. JSON texts. */
export interface CallArguments {
  readonly payload: string | null;
  readonly hostCtx: string | null;
  readonly middlewareCtx: string | null;
}

/** The payload merged over the parameters of the node, with the contexts; the one for the host is passed on. Null: too large or deep. */
export function callParams(base: string, callerParams: string | null, handed: CallArguments): string | null {
  const { payload, middlewareCtx } = handed;
  const hostCtx = handed.hostCtx ?? inheritedHostContext(callerParams);
  if (payload === null && hostCtx === null && middlewareCtx === null) return base;
  const params: unknown = JSON.parse(base);
  const merged = payload === null ? params : (mergeResults(params, JSON.parse(payload), paramsLimits)?.value ?? null);
  if (merged === null) return null;
  if (hostCtx === null && middlewareCtx === null) return JSON.stringify(merged);
  const next = {
    ...(hostCtx === null ? {} : { hostCtx: JSON.parse(hostCtx) as unknown }),
    ...(middlewareCtx === null ? {} : { middlewareCtx: JSON.parse(middlewareCtx) as unknown }),
  };
  return JSON.stringify({ ...(merged as object), [nextParam]: next });
}

function inheritedHostContext(callerParams: string | null): string | null {
  if (callerParams === null || !callerParams.includes(`"${nextParam}"`)) return null;
  const { [nextParam]: next } = JSON.parse(callerParams) as { [nextParam]?: { hostCtx?: unknown } };
  return next?.hostCtx === undefined ? null : JSON.stringify(next.hostCtx);
}
