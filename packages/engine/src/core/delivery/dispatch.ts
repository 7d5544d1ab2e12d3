// The dispatch of a grant: built from rows alone, so that a repeat is the same dispatch under the same id.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { SendDispatch } from "../../interface/effect.ts";
import type { LeasedTask, RunRow, TaskRow } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import { readRunOrigin } from "../rows/run.ts";
import { planOfScope, scopeOf, taskPathOf } from "../rows/task-path.ts";
import { readTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** How long an attempt may take: as its node says, or as long as any may. */
export const attemptTimeoutMs = (work: UnitOfWork, node: PlanNode): number | null =>
  node.policy.timeoutMs ?? work.settings.attemptTimeoutMs;

export function sendDispatch(work: UnitOfWork, connected: ConnectedWorker, run: RunRow, node: PlanNode, task: LeasedTask): void {
  const plain = {
    id: `${task.id}#${task.fence}`,
    run: run.id,
    task: task.id,
    node: node.id,
    nodeType: node.type,
    packageName: node.packageName,
    packageVersion: readTaskState(task).version ?? node.packageVersion,
    params: task.params ?? "{}",
    fence: task.fence,
    attempt: task.attempt,
    timeoutMs: node.policy.timeoutMs ?? null,
    concurrencyKey: wireConcurrencyKey(run, node, task),
    priority: task.band,
  };
  // Hot: a task without optional fields is not copied.
  const isPlain = task.state === null && run.source === "" && node.host === null && node.chain.length === 0;
  const dispatch = isPlain ? plain : { ...plain, ...optionalFields(work, run, node, task) };
  work.emit({ type: "dispatch", session: connected.session, worker: connected.worker, tenant: run.tenant, dispatch });
}

function optionalFields(work: UnitOfWork, run: RunRow, node: PlanNode, task: TaskRow): Partial<SendDispatch["dispatch"]> {
  const { refs, affinity } = readTaskState(task);
  const resources = refs !== undefined && { resourceRefs: refs };
  const key = affinity !== undefined && { affinity: affinityField(affinity) };
  return { ...workflowField(run), ...chainFields(work, run, node, task), ...resources, ...key };
}

/** Only a run of a stored version or draft names its workflow: a definition that came with the request may name any id. */
export function workflowField(run: RunRow): Pick<SendDispatch["dispatch"], "workflow"> {
  if (run.source === "") return {};
  const { version = null } = readRunOrigin(run);
  return version === null ? {} : { workflow: run.source };
}

type ChainFields = Pick<SendDispatch["dispatch"], "hostNode" | "chain" | "chainIndex">;

/** What the dispatch of a middleware, or of a host with middlewares, contains about the chain. */
function chainFields(work: UnitOfWork, run: RunRow, node: PlanNode, task: TaskRow): ChainFields {
  if (node.host === null && node.chain.length === 0) return {};
  const nodes = planOfScope(work.planOf(run), scopeOf(taskPathOf(task)))?.nodes;
  const host = nodes?.[node.host ?? node.ordinal];
  const fields = { hostNode: host?.id ?? "", chain: host?.chain.map((ordinal) => nodes?.[ordinal]?.id ?? "") ?? [] };
  return node.chainIndex === null ? fields : { ...fields, chainIndex: node.chainIndex };
}

/** What is contradictory in the chain fields of this task's dispatch; a worker could only guess. */
export function findChainContradiction(work: UnitOfWork, run: RunRow, node: PlanNode, task: TaskRow): FaultData | null {
  if (node.host === null && node.chain.length === 0 && node.chainIndex === null) return null;
  const { hostNode = "", chain = [], chainIndex } = chainFields(work, run, node, task);
  const isMiddleware = node.host !== null;
  const flaw =
    hostNode === ""
      ? "its chain has no host"
      : isMiddleware && chain[chainIndex ?? -1] !== node.id
        ? `it is not at place ${chainIndex ?? "none"} of its chain`
        : !isMiddleware && chainIndex !== undefined
          ? "a host cannot be a middleware of its own chain"
          : null;
  if (flaw === null) return null;
  return {
    code: "E.DISPATCH.INVALID_METADATA",
    message: `node ${node.id} cannot be dispatched: ${flaw}`,
    details: { node: node.id, hostNode, chain, chainIndex: chainIndex ?? null },
  };
}

function affinityField({ key, mode, until }: NonNullable<ReturnType<typeof readTaskState>["affinity"]>) {
  return until === null ? { key, mode } : { key, mode, expiresAt: until };
}

/** A worker runs one task of a key at a time: a key with a higher limit, or a node that runs more than once, has one for each time. */
function wireConcurrencyKey(run: RunRow, node: PlanNode, task: TaskRow): string {
  const { key, limit = 1 } = node.policy.concurrency ?? {};
  // Without a key in its row it runs under the key that its caller holds.
  if (key !== undefined && limit === 1 && task.key !== null) return key;
  const path = taskPathOf(task);
  return path === String(node.ordinal) ? `${run.id}:${node.id}` : `${run.id}:${path}:${node.id}`;
}
