// The frame that a grant becomes: made from rows alone, so that a repeat of it is the same frame under the same id.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData, SendDispatch } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "../crew/floor.ts";
import { aboutOf } from "../rows/about.ts";
import { planIn, scopeOf, slotOf } from "../rows/slot.ts";
import { stateOf } from "../rows/state.ts";
import type { Tools } from "../tools.ts";

export const attemptTimeoutMs = (tools: Tools, node: PlanNode): number | null =>
  node.policy.timeoutMs ?? tools.settings.attemptTimeoutMs;

export function sendDispatch(board: Board, tools: Tools, seat: Seat, run: RunRow, node: PlanNode, task: TaskRow): void {
  const plain = {
    id: `${task.id}#${task.fence}`,
    run: run.id,
    task: task.id,
    node: node.id,
    nodeType: node.type,
    packageName: node.packageName,
    packageVersion: stateOf(task).version ?? node.packageVersion,
    params: task.params ?? "{}",
    fence: task.fence,
    attempt: task.attempt,
    timeoutMs: attemptTimeoutMs(tools, node),
    concurrencyKey: wireKey(run, node, task),
    priority: task.band,
  };
  // Hot: a task with no more to say is not copied for it.
  const isPlain = task.state === null && run.source === "" && node.host === null && node.chain.length === 0;
  const dispatch = isPlain ? plain : { ...plain, ...moreWords(board, tools, run, node, task) };
  board.effect({ type: "dispatch", session: seat.session, worker: seat.worker, tenant: run.tenant, dispatch });
}

function moreWords(
  board: Board,
  tools: Tools,
  run: RunRow,
  node: PlanNode,
  task: TaskRow,
): Pick<SendDispatch["dispatch"], "workflow" | keyof ChainWords | "resourceRefs" | "affinity"> {
  const { refs, affinity } = stateOf(task);
  return {
    ...workflowWord(run),
    ...chainWords(board, tools, run, node, task),
    ...(refs === undefined ? {} : { resourceRefs: refs }),
    ...(affinity === undefined ? {} : { affinity: affinityWords(affinity) }),
  };
}

/** Only a run of a kept version, or of the draft, is the workflow's: a definition that was sent may name any id it likes. */
export function workflowWord(run: RunRow): Pick<SendDispatch["dispatch"], "workflow"> {
  if (run.source === "") return {};
  const { version = null } = aboutOf(run);
  return version === null ? {} : { workflow: run.source };
}

type ChainWords = Pick<SendDispatch["dispatch"], "hostNode" | "chain" | "chainIndex">;

/** What a middleware, or a host that is run through its chain, is told of the chain. */
function chainWords(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow): ChainWords {
  if (node.host === null && node.chain.length === 0) return {};
  const nodes = planIn(tools.plans.of(board, run), scopeOf(slotOf(task)))?.nodes;
  const host = nodes?.[node.host ?? node.ordinal];
  const words = { hostNode: host?.id ?? "", chain: host?.chain.map((ordinal) => nodes?.[ordinal]?.id ?? "") ?? [] };
  return node.chainIndex === null ? words : { ...words, chainIndex: node.chainIndex };
}

/** What contradicts itself in what the dispatch of this task would say of its chain; a worker could only guess what is meant. */
export function chainFlaw(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow): FaultData | null {
  if (node.host === null && node.chain.length === 0 && node.chainIndex === null) return null;
  const { hostNode = "", chain = [], chainIndex } = chainWords(board, tools, run, node, task);
  const isMiddleware = node.host !== null;
  const flaw =
    hostNode === ""
      ? "its chain has no host"
      : isMiddleware && chain[chainIndex ?? -1] !== node.id
        ? `it is not at place ${chainIndex ?? "none"} of its chain`
        : !isMiddleware && chainIndex !== undefined
          ? "a host has no place in its own chain"
          : null;
  if (flaw === null) return null;
  return {
    code: "E.DISPATCH.INVALID_METADATA",
    message: `node ${node.id} cannot be dispatched: ${flaw}`,
    details: { node: node.id, hostNode, chain, chainIndex: chainIndex ?? null },
  };
}

function affinityWords({ key, mode, until }: NonNullable<ReturnType<typeof stateOf>["affinity"]>) {
  return until === null ? { key, mode } : { key, mode, expiresAt: until };
}

/**
 * A worker lets one task of a key run at a time; a key with room for more is kept by the engine alone, and every task gets its own. A node
 * that runs more than once (in frames, or called through a chain) has a key for each time.
 */
function wireKey(run: RunRow, node: PlanNode, task: TaskRow): string {
  const { key, limit = 1 } = node.policy.concurrency ?? {};
  // Without a row's key it runs under the one that its caller holds at this moment.
  if (key !== undefined && limit === 1 && task.key !== null) return key;
  const slot = slotOf(task);
  return slot === String(node.ordinal) ? `${run.id}:${node.id}` : `${run.id}:${slot}:${node.id}`;
}
