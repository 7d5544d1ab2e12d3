// Rows as the API shows them: runs with their nodes, and facts. Pure; what a reader may see was decided by the tenant in the query.
// Workers are in view-workers.ts.

import { attemptPhase, type LogEntry, type RunDetail, type RunRow, type TaskRow } from "@astraflow/engine";
import type { NodeStatus, Run, RunEvent, RunNodeStatus, RunRef, RunStatus, Workflow } from "@astraflow/protocol";
import { instanceIn } from "./view-workers.ts";

export const instant = (ms: number): string => new Date(ms).toISOString();

/** A run whose tasks are still being told to stop has not ended yet. */
const statusOfRun = (phase: string): RunStatus => (phase === "ending" ? "running" : (phase as RunStatus));

const statusOfPhase: Readonly<Record<TaskRow["phase"], NodeStatus>> = {
  waiting: "queued",
  parked: "queued",
  ready: "queued",
  leased: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  skipped: "skipped",
};

/** A workflow row's key is `<tenant>/<digest>`; the tenant's name has no slash. */
export const digestIn = (workflow: string): string => workflow.slice(workflow.indexOf("/") + 1);

export function viewRunRef(run: { run: string; phase: string; workflow: string; client: string; createdAt: number }): RunRef {
  return {
    runId: run.run,
    status: statusOfRun(run.phase),
    definitionHash: digestIn(run.workflow),
    clientId: run.client,
    createdAt: instant(run.createdAt),
  };
}

export function viewRun(run: RunRow): Run {
  return {
    runId: run.id,
    status: statusOfRun(run.phase),
    definitionHash: digestIn(run.workflow),
    clientId: run.client,
    createdAt: instant(run.createdAt),
    ...(run.startedAt !== null && { startedAt: instant(run.startedAt) }),
    ...(run.endedAt !== null && { finishedAt: instant(run.endedAt) }),
    priority: run.band,
    ...(run.error !== null && { error: JSON.parse(run.error) as NonNullable<Run["error"]> }),
  };
}

export interface NodeContext {
  /** Names of workers by their id. */
  readonly workers: ReadonlyMap<string, string>;
  readonly ackDeadlineMs: number;
}

/** Every node of the definition; one that has no task yet waits for its predecessors, or never ran when the run is over. */
export function viewNodes(detail: RunDetail, context: NodeContext): RunNodeStatus[] {
  const definition = JSON.parse(detail.workflow) as Workflow;
  const tasks = new Map(detail.tasks.map((task) => [task.id, task]));
  const isOver = detail.run.endedAt !== null;
  return definition.nodes.map((node, ordinal) => {
    const taskId = `${detail.run.id}.${ordinal}`;
    const task = tasks.get(taskId);
    if (task === undefined) return { nodeId: node.id, taskId, status: isOver ? "cancelled" : "queued" };
    return viewNode(node.id, task, context);
  });
}

function viewNode(nodeId: string, task: TaskRow, context: NodeContext): RunNodeStatus {
  const status = statusOfPhase[task.phase];
  const isPending = attemptPhase(task) === "granted";
  const error = task.error === null ? undefined : (JSON.parse(task.error) as NonNullable<RunNodeStatus["error"]>);
  const changedAt = task.endedAt ?? task.grantedAt ?? task.readyAt;
  return {
    nodeId,
    taskId: task.id,
    status,
    ...(task.worker !== null && { workerName: context.workers.get(task.worker) ?? instanceIn(task.worker) }),
    ...(task.grantedAt !== null && { startedAt: instant(task.grantedAt) }),
    ...(task.endedAt !== null && { finishedAt: instant(task.endedAt) }),
    pendingAck: isPending,
    ...(task.worker !== null && { dispatchId: `${task.id}#${task.fence}` }),
    ...(isPending && task.grantedAt !== null && { ackDeadline: instant(task.grantedAt + context.ackDeadlineMs) }),
    attempt: task.attempt,
    fence: task.fence,
    ...(task.result !== null && { result: JSON.parse(task.result) as NonNullable<RunNodeStatus["result"]> }),
    state: {
      stage: task.phase,
      ...(changedAt !== null && { lastUpdatedAt: instant(changedAt) }),
      ...(error !== undefined && { message: error.message, error }),
    },
    ...(error !== undefined && { error }),
  };
}

/** The definition with the state of each node filled in, as the canvas shows a run. */
export function viewDefinition(detail: RunDetail, context: NodeContext): object {
  const definition = JSON.parse(detail.workflow) as Workflow;
  const states = viewNodes(detail, context);
  return {
    ...definition,
    nodes: definition.nodes.map((node, ordinal) => ({
      ...node,
      state: states[ordinal]?.state ?? { stage: states[ordinal]?.status ?? "queued" },
    })),
  };
}

export function viewEvent(entry: LogEntry, runId: string): RunEvent {
  return { position: entry.position, type: entry.type, at: instant(entry.at), runId, data: entry.data as RunEvent["data"] };
}
