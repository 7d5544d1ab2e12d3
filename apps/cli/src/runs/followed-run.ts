// The state of a followed run: what was read once, changed by every event since. Pure: the same events give the same state.

import type { EventData, Run, RunNodeStatus, ServerEvent } from "@astraflow/protocol";
import { isFinalStatus } from "./run-status.ts";

/** A node with the end of the output of its current attempt. */
export type FollowedNode = RunNodeStatus & { printed?: string };

export interface FollowedRun {
  readonly run: Run;
  /** By task id. `applyRunEvent` changes it in place and returns the task it changed: a run may have ten thousand of them. */
  readonly nodes: Map<string, FollowedNode>;
  /** Log position of the nodes: older events are already contained in them. */
  readonly asOf: number;
}

const printedCharsMax = 400;

/** The state after reading the run again. A run has no printed output, so the output stays. */
export function mergeFreshRun(run: Run, before: FollowedRun | null = null): FollowedRun {
  const nodes = new Map(before?.nodes);
  for (const node of run.nodes ?? []) {
    const printed = before?.nodes.get(node.taskId)?.printed;
    nodes.set(node.taskId, printed === undefined || isFinalStatus(node.status) ? node : { ...node, printed });
  }
  return { run: { ...before?.run, ...run }, nodes, asOf: Math.max(before?.asOf ?? 0, run.asOf ?? 0) };
}

/** The log position of the fact behind an event: an id such as `7.2` is an event of the fact at position 8. */
const factPosition = (id = "0"): number => (id.includes(".") ? Number.parseInt(id, 10) + 1 : Number(id));

/** The state after an event, and the task it is about. */
export function applyRunEvent(before: FollowedRun, event: ServerEvent): { after: FollowedRun; task: string | null } {
  const { data } = event;
  if (data.kind === "run.snapshot") {
    const run: Run = { ...data.run, nodes: data.nodes, ...(data.asOf !== undefined && { asOf: data.asOf }) };
    return { after: mergeFreshRun(run, before), task: null };
  }
  if (data.kind === "run.status") {
    const { startedAt = before.run.startedAt, finishedAt = before.run.finishedAt } = data;
    // The run that was read may be newer than the event.
    if (factPosition(event.id) <= before.asOf) return { after: before, task: null };
    const times = { ...(startedAt !== undefined && { startedAt }), ...(finishedAt !== undefined && { finishedAt }) };
    return { after: { ...before, run: { ...before.run, status: data.status, ...times } }, task: null };
  }
  if (!("taskId" in data) || data.taskId === undefined) return { after: before, task: null };
  const old = before.nodes.get(data.taskId) ?? createNode(data);
  const isNews = factPosition(event.id) > before.asOf;
  const node =
    data.kind === "node.result.delta" ? appendPrinted(old, data) : isNews ? applyNodeEvent(old, data, event.occurredAt) : old;
  before.nodes.set(data.taskId, node);
  return { after: before, task: data.taskId };
}

type NodeEventData = Extract<EventData, { nodeId: string; taskId?: string }>;

function createNode(data: NodeEventData): FollowedNode {
  const chain = "hostNodeId" in data && data.hostNodeId !== undefined ? { host_node_id: data.hostNodeId } : {};
  return { nodeId: data.nodeId, taskId: data.taskId ?? "", status: "queued", ...chain };
}

function applyNodeEvent(old: FollowedNode, data: NodeEventData, at: string): FollowedNode {
  if (data.kind === "node.status") return applyNodeStatus(old, data, at);
  if (data.kind === "node.error") return { ...old, error: data.error };
  if (data.kind === "node.warning") return { ...old, warnings: [...(old.warnings ?? []), data.warning] };
  if (data.kind !== "node.state") return old;
  const { attempt } = data.state as { attempt?: unknown };
  // A worker that reports has the dispatch, although its acknowledgement may come later. The scheduler's own reports name the attempt.
  const isFromWorker = attempt === undefined;
  return {
    ...old,
    state: { ...old.state, ...data.state },
    ...(typeof attempt === "number" && { attempt }),
    ...(isFromWorker && { pendingAck: false }),
  };
}

function applyNodeStatus(old: FollowedNode, data: EventData<"node.status">, at: string): FollowedNode {
  const status = data.status === "dispatching" ? "running" : data.status === "completed" ? "succeeded" : data.status;
  const worker = data.workerName === undefined ? {} : { workerName: data.workerName };
  if (data.status === "dispatching") {
    // A new attempt: the state and the error of the previous one are obsolete.
    const { printed: _printed, error: _error, state: _state, finishedAt: _end, ...rest } = old;
    return { ...rest, status, startedAt: at, pendingAck: true, ...worker };
  }
  if (status === "queued") return { ...old, status, pendingAck: false };
  const startTime = old.startedAt === undefined && status === "running" ? { startedAt: at } : {};
  return { ...old, status, pendingAck: false, ...startTime, ...worker, ...(isFinalStatus(status) && { finishedAt: at }) };
}

function appendPrinted(old: FollowedNode, data: EventData<"node.result.delta">): FollowedNode {
  const text = data.operation === "append" ? data.payload?.["text"] : undefined;
  if (typeof text !== "string") return old;
  return { ...old, pendingAck: false, printed: ((old.printed ?? "") + text).slice(-printedCharsMax) };
}

/** The run with its nodes, as the views take it. */
export const toRun = ({ run, nodes }: FollowedRun): Run => ({ ...run, nodes: [...nodes.values()] });
