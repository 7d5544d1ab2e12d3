// A run started anew from one that was: with what succeeded in it, from a node on, with the same or another version of its workflow.

import { nodeAt, type RunDetail, readRunOrigin } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { fault, type ReplayRequest, type RunPlan, type Workflow } from "@astraflow/protocol";
import { type Caller, cachedPlanOf } from "@astraflow/services";
import { nodeNotFound } from "./run-detail-routes.ts";
import type { ResolvedRunStart, RunStarter, StartedRun } from "./run-starter.ts";

/** A run anew with what succeeded; only of one that is over and has something left to do. */
export async function retryRun(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  key: string | null,
  reason?: string,
): Promise<StartedRun> {
  checkRetryable(detail);
  return replayRun(starter, caller, detail, {}, key, reason);
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

/** A run anew from a node on, or of what did not succeed. */
export async function replayRun(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  request: ReplayRequest,
  key: string | null,
  reason?: string,
): Promise<StartedRun> {
  return starter.start(caller, await buildReplayStart(starter, caller, detail, request, key, reason));
}

/** What a replay would do, without doing it. */
export async function planReplay(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  request: ReplayRequest,
): Promise<RunPlan> {
  return starter.planRun(caller, await buildReplayStart(starter, caller, detail, request, null));
}

async function buildReplayStart(
  starter: RunStarter,
  caller: Caller,
  detail: RunDetail,
  { from, version = "same", allowUnknown }: ReplayRequest,
  key: string | null,
  reason?: string,
): Promise<ResolvedRunStart> {
  const { run } = detail;
  const same = JSON.parse(detail.workflow) as Workflow;
  if (from !== undefined && !same.nodes.some((node) => node.id === from) && version === "same") throw nodeNotFound(run.id, from);
  const chosen =
    version === "same"
      ? { workflow: same, ...(await starter.versionOf(caller, run)) }
      : await starter.workflowOf(caller, run.source, version);
  return {
    ...chosen,
    asked: { replay: run.id, version, ...(allowUnknown === true && { allowUnknown }) },
    client: run.client,
    priority: run.band,
    timeoutMs: null,
    labels: labelsOf(run.about),
    ...(from !== undefined && { from }),
    reuse: detail,
    replayOf: run.id,
    // What has run may run again, though its package has gone since; another version is a new thing, unless the run was allowed it.
    allowUnknown: version === "same" || allowUnknown === true || readRunOrigin(run)["allowUnknown"] === true,
    ...(reason !== undefined && { reason }),
    key,
  };
}

/**
 * The node of the top level that a node, a slot or a task belongs to: a run begins anew with a whole container, or with the host of a
 * middleware. Null: the run has no such node.
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

const labelsOf = (about: string): Readonly<Record<string, string>> =>
  (JSON.parse(about) as { labels?: Record<string, string> }).labels ?? {};
