// A run started anew from one that was: with what succeeded in it, from a node on, with the same or another version of its workflow.

import { aboutOf, nodeAt, type RunDetail } from "@astraflow/engine";
import { type Plan } from "@astraflow/graph";
import { fault, type ReplayRequest, type RunPlan, type Workflow } from "@astraflow/protocol";
import { cachedPlanOf } from "../../plans.ts";
import type { Asker } from "../call.ts";
import { missingNode } from "./run-parts.ts";
import type { RunAnswer, Starter, StartOrder } from "./run-start.ts";

/** A run anew with what succeeded; only of one that is over and has something left to do. */
export async function retryRun(
  starter: Starter,
  call: Asker,
  detail: RunDetail,
  key: string | null,
  reason?: string,
): Promise<RunAnswer> {
  refuseRetry(detail);
  return replayRun(starter, call, detail, {}, key, reason);
}

/** What a retry would do, without doing it. */
export async function planRetry(starter: Starter, call: Asker, detail: RunDetail): Promise<RunPlan> {
  refuseRetry(detail);
  return planReplay(starter, call, detail, {});
}

function refuseRetry({ run }: RunDetail): void {
  if (run.endedAt === null)
    throw fault("E.RUN.ACTIVE", `run ${run.id} is ${run.phase}; wait until it has ended or cancel it, then retry it`, {
      run: run.id,
    });
  if (run.phase === "succeeded")
    throw fault("E.RUN.TERMINAL", `run ${run.id} succeeded, so nothing is left to retry; replay it from a node`, { run: run.id });
}

/** A run anew from a node on, or of what did not succeed. */
export async function replayRun(
  starter: Starter,
  call: Asker,
  detail: RunDetail,
  request: ReplayRequest,
  key: string | null,
  reason?: string,
): Promise<RunAnswer> {
  return starter.start(call, await orderOf(starter, call, detail, request, key, reason));
}

/** What a replay would do, without doing it. */
export async function planReplay(starter: Starter, call: Asker, detail: RunDetail, request: ReplayRequest): Promise<RunPlan> {
  return starter.planRun(call, await orderOf(starter, call, detail, request, null));
}

async function orderOf(
  starter: Starter,
  call: Asker,
  detail: RunDetail,
  { from, version = "same", allowUnknown }: ReplayRequest,
  key: string | null,
  reason?: string,
): Promise<StartOrder> {
  const { run } = detail;
  const same = JSON.parse(detail.workflow) as Workflow;
  if (from !== undefined && !same.nodes.some((node) => node.id === from) && version === "same") throw missingNode(run.id, from);
  const chosen =
    version === "same"
      ? { workflow: same, ...(await starter.versionOf(call, run)) }
      : await starter.workflowOf(call, run.source, version);
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
    allowUnknown: version === "same" || allowUnknown === true || aboutOf(run)["allowUnknown"] === true,
    ...(reason !== undefined && { reason }),
    key,
  };
}

/**
 * The node of the top level that a node, a slot or a task belongs to: a run begins anew with a whole container, or with the host of a
 * middleware. Null: the run has no such node.
 */
export function topNodeOf({ run, workflow }: RunDetail, name: string): string | null {
  const plan = cachedPlanOf(workflow);
  const slot = name.startsWith(`${run.id}.`) ? name.slice(run.id.length + 1) : name;
  const isSlot = /^[0-9]+([~*/]|$)/.test(slot) && nodeAt(plan, slot) !== null;
  const node = isSlot ? plan.nodes[Number.parseInt(slot, 10)] : plan.nodes.find((one) => one.id === name || isInside(one, name));
  const top = node === undefined || node.host === null ? node : plan.nodes[node.host];
  return top?.id ?? null;
}

const isInside = ({ container }: Plan["nodes"][number], id: string): boolean =>
  container?.body.nodes.some((node) => node.id === id || isInside(node, id)) ?? false;

const labelsOf = (about: string): Readonly<Record<string, string>> =>
  (JSON.parse(about) as { labels?: Record<string, string> }).labels ?? {};
