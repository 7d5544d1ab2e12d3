// Runs started again: with the results that succeeded, from a node on, with the same or another version of the workflow.

import { nodeAt, type RunDetail, readRunOrigin } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { fault, type ReplayRequest, type RunPlan, type Workflow } from "@astraflow/protocol";
import type { Caller } from "../identity/caller.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { nodeNotFound } from "./run-faults.ts";
import type { ResolvedRunStart, RunStarter, StartedRun } from "./run-starter.ts";

export interface ReplayOptions {
  readonly request: ReplayRequest;
  /** The idempotency key; null without one. */
  readonly key: string | null;
  readonly reason?: string | undefined;
}

/** Starts a run again with the results that succeeded; only if it has ended and something is left to do. */
export async function retryRun(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  options: Omit<ReplayOptions, "request">,
): Promise<StartedRun> {
  checkRetryable(detail);
  return replayRun(starter, caller, detail, { ...options, request: {} });
}

/** What a retry would do, without doing it. */
export async function planRetry(starter: RunStarter, caller: Caller, detail: RunDetail): Promise<RunPlan> {
  checkRetryable(detail);
  return planReplay(starter, caller, detail, {});
}

function checkRetryable({ run }: RunDetail): void {
  if (run.endedAt === null)
    throw fault("E.RUN.ACTIVE", `run ${run.id} is ${run.phase}; wait until it has ended or cancel it, then retry it`, {
      run: run.id,
    });
  if (run.phase === "succeeded")
    throw fault("E.RUN.TERMINAL", `run ${run.id} succeeded, so nothing is left to retry; replay it from a node`, { run: run.id });
}

/** Starts a run again from a node on, or what did not succeed of it. */
export const replayRun = async (
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  options: ReplayOptions,
): Promise<StartedRun> => starter.start(caller, await buildReplayStart(starter, caller, detail, options));

/** What a replay would do, without doing it. */
export const planReplay = async (
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  request: ReplayRequest,
): Promise<RunPlan> => starter.previewStart(caller, await buildReplayStart(starter, caller, detail, { request, key: null }));

async function buildReplayStart(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  { request: { from, version = "same", allowUnknown }, key, reason }: ReplayOptions,
): Promise<ResolvedRunStart> {
  const { run } = detail;
  const same = JSON.parse(detail.workflow) as Workflow;
  if (from !== undefined && !same.nodes.some((node) => node.id === from) && version === "same") throw nodeNotFound(run.id, from);
  const chosen =
    version === "same"
      ? { workflow: same, ...(await starter.readVersionOfRun(caller, run)) }
      : await starter.readWorkflowVersion(caller, run.source, version);
  return {
    ...chosen,
    asked: { replay: run.id, version, ...(allowUnknown === true && { allowUnknown }) },
    client: run.client,
    priority: run.band,
    timeoutMs: null,
    labels: { ...readRunOrigin(run).labels },
    ...(from !== undefined && { from }),
    reuse: detail,
    replayOf: run.id,
    // What has run may run again though its package is gone; another version may not, unless the run was allowed unknown packages.
    allowUnknown: version === "same" || allowUnknown === true || readRunOrigin(run)["allowUnknown"] === true,
    ...(reason !== undefined && { reason }),
    key,
  };
}

/**
 * The top-level node that a node, slot or task belongs to: a run starts again with a whole container, or with the host of a middleware.
 * Null: the run has no such node.
 */
export function topLevelNodeOf({ run, workflow }: RunDetail, name: string): string | null {
  const plan = cachedPlanOf(workflow);
  const slot = name.startsWith(`${run.id}.`) ? name.slice(run.id.length + 1) : name;
  const isSlot = /^[0-9]+([~*/]|$)/.test(slot) && nodeAt(plan, slot) !== null;
  const node = isSlot
    ? plan.nodes[Number.parseInt(slot, 10)]
    : plan.nodes.find((one) => one.id === name || containsNode(one, name));
  const top = node === undefined || node.host === null ? node : plan.nodes[node.host];
  return top?.id ?? null;
}

const containsNode = ({ container }: Plan["nodes"][number], id: string): boolean =>
  container?.body.nodes.some((node) => node.id === id || containsNode(node, id)) ?? false;
