// The nodes of a run as the API shows them, with their middlewares, iterations and artifacts. Pure.

import {
  lastStep,
  nodeAt,
  type ResourceRef,
  type RunDetail,
  type RunRow,
  readTaskState,
  scopeOf,
  type TaskRow,
  type TaskState,
  taskPathOf,
} from "@astraflow/engine";
import { compilePlan, type Plan, type PlanNode } from "@astraflow/graph";
import {
  defaultStageOfPhase,
  type JsonObject,
  nodeStatusByPhase,
  type RunArtifact,
  type RunNodeStatus,
  type Workflow,
} from "@astraflow/protocol";
import { chainAndFrameMetadata } from "./frame-metadata.ts";
import { isoTime } from "./iso-time.ts";
import { type CompiledDefinition, cachedDefinitionOf } from "./plan-cache.ts";
import { isAckPending } from "./run-view.ts";
import { instanceIdOf } from "./worker-view.ts";

type StoredArtifact = NonNullable<TaskState["artifacts"]>[number];

/** Whether an artifact can still be had, until when, and if not, why. */
export type ArtifactStatus = Pick<RunArtifact, "status" | "removed" | "expiresAt">;

export interface NodeViewContext {
  /** Names of workers by their id. */
  readonly workers: ReadonlyMap<string, string>;
  readonly ackDeadlineMs: number;
  /** Absent where nobody has looked: then nothing is said of it. */
  readonly fateOf?: (artifact: StoredArtifact, task: string) => ArtifactStatus;
}

/** Every node of the top level, then those in containers and chains, by id. `cutAfter`: later tasks were not read, so their nodes are left out. */
export function presentNodes(
  detail: Pick<RunDetail, "run" | "tasks" | "workflow">,
  context: NodeViewContext,
  cutAfter: string | null = null,
  definition: CompiledDefinition = cachedDefinitionOf(detail.workflow),
): RunNodeStatus[] {
  const { plan } = definition;
  const tasks = new Map(detail.tasks.map((task) => [task.id, task]));
  const top = plan.nodes.flatMap((node) => {
    const taskId = `${detail.run.id}.${node.ordinal}`;
    const task = tasks.get(taskId);
    tasks.delete(taskId);
    if (task !== undefined) return [presentNode(definition, node, task, context, new Map())];
    return cutAfter !== null && taskId > cutAfter ? [] : [presentUnstartedNode(detail.run, plan, node, taskId)];
  });
  return [...top, ...presentTasks(definition, [...tasks.values()], context)];
}

/** Tasks of a run as nodes, without those that were never reached. */
export function presentTasks(
  definition: CompiledDefinition,
  tasks: readonly TaskRow[],
  context: NodeViewContext,
): RunNodeStatus[] {
  const iterations = iterationIndexesOf(tasks);
  return tasks.flatMap((task) => {
    const node = nodeAt(definition.plan, taskPathOf(task));
    return node === null ? [] : [presentNode(definition, node, task, context, iterations)];
  });
}

/** Which iteration each frame is, by its path: one that was tried again has a number of its own. */
type IterationIndexes = ReadonlyMap<string, number>;

function iterationIndexesOf(tasks: readonly TaskRow[]): IterationIndexes {
  const found = new Map<string, number>();
  for (const task of tasks) {
    const { frame } = readTaskState(task);
    if (frame !== undefined) found.set(taskPathOf(task), frame.index);
  }
  return found;
}

/** A node that has no task yet waits for its predecessors, or never ran when the run is over. */
function presentUnstartedNode(run: RunRow, plan: Plan, node: PlanNode, taskId: string): RunNodeStatus {
  const isOver = run.endedAt !== null;
  const wasSkipped = isOver && run.phase === "succeeded";
  const status = wasSkipped ? "skipped" : isOver ? "cancelled" : "queued";
  const chain = chainFields(plan, node);
  const state = { stage: isOver ? status : "waiting", ...chain };
  const metadata = chain.middlewares !== undefined && { metadata: { middlewares: chain.middlewares } };
  return { nodeId: node.id, taskId, status, label: node.label, ...chain, ...metadata, state };
}

function presentNode(
  definition: CompiledDefinition,
  node: PlanNode,
  task: TaskRow,
  context: NodeViewContext,
  iterations: IterationIndexes,
) {
  const { plan } = definition;
  const status = nodeStatusByPhase[task.phase];
  const isPending = isAckPending(task);
  const error = task.error === null ? undefined : (JSON.parse(task.error) as NonNullable<RunNodeStatus["error"]>);
  const state = readTaskState(task);
  const workerName = task.worker === null ? undefined : (context.workers.get(task.worker) ?? instanceIdOf(task.worker));
  // The plan that the node stands in: the top level's, or a container's body.
  const path = taskPathOf(task);
  const scope = scopeOf(path);
  const holder = lastStep(path).iteration === null ? scope : path;
  const chain = chainFields(scope === "" ? plan : (nodeAt(plan, scope)?.container?.body ?? plan), node);
  const shown: RunNodeStatus = {
    nodeId: node.id,
    taskId: task.id,
    status,
    label: node.label,
    ...(workerName !== undefined && { workerName }),
    ...(task.grantedAt !== null && { startedAt: isoTime(task.grantedAt) }),
    ...(task.endedAt !== null && { finishedAt: isoTime(task.endedAt) }),
    pendingAck: isPending,
    ...(task.worker !== null && { seq: task.fence, dispatchId: `${task.id}#${task.fence}` }),
    ...(isPending && task.grantedAt !== null && { ackDeadline: isoTime(task.grantedAt + context.ackDeadlineMs) }),
    attempt: task.attempt,
    fence: task.fence,
    ...resultFields(task, state, context),
    ...metadataField(state, chainAndFrameMetadata(definition, holder, chain)),
    ...iterationFields(plan, task, state, iterations),
    ...chain,
    state: { ...stateFields(task, state, error), ...(workerName !== undefined && { worker: workerName }), ...chain },
    ...(error !== undefined && { error }),
  };
  return shown;
}

/** Hosts name their chain, middlewares their host; all others say nothing. */
function chainFields(plan: Plan, node: PlanNode): Pick<RunNodeStatus, "middlewares" | "host_node_id" | "chain_index"> {
  if (node.chain.length > 0)
    return { middlewares: node.chain.map((at) => plan.nodes[at]?.id ?? ""), host_node_id: null, chain_index: null };
  if (node.host === null) return {};
  return { host_node_id: plan.nodes[node.host]?.id ?? "", chain_index: node.chainIndex };
}

/** What the node gave so far: its result, or what feedback has made of it. */
function resultFields(task: TaskRow, state: TaskState, context: NodeViewContext): Partial<RunNodeStatus> {
  const partial = state.results as JsonObject | undefined;
  const result = task.result === null ? partial : (JSON.parse(task.result) as JsonObject);
  const artifacts = presentArtifacts(task.id, state, context);
  return {
    ...(result !== undefined && { result }),
    ...(state.said?.metrics !== undefined && { metrics: state.said.metrics as Record<string, number> }),
    ...(artifacts.length > 0 && { artifacts }),
    ...(state.refs !== undefined && { resourceRefs: state.refs.map(presentResourceRef) }),
    ...(state.affinity !== undefined && { affinity: presentAffinity(state.affinity) }),
    ...(state.why !== undefined && { why: state.why }),
    ...(state.warnings !== undefined && { warnings: [...state.warnings] }),
  };
}

/** What the node says of its result is added to what it said while it ran; chain and frame are the scheduler's to name. */
function metadataField(state: TaskState, added: JsonObject): { metadata?: JsonObject } {
  const metadata = { ...state.said?.metadata, ...state.metadata, ...added } as JsonObject;
  return Object.keys(metadata).length > 0 ? { metadata } : {};
}

/** As its artifact is spelt, so that one can be sent as the other. */
const presentResourceRef = ({ resource, expiresAt, metadata, ...ref }: ResourceRef): JsonObject => ({
  resourceId: resource,
  ...ref,
  ...expiryField(expiresAt),
  ...(metadata !== undefined && { metadata: metadata as JsonObject }),
});

const presentAffinity = ({ until: at, ...rest }: NonNullable<TaskState["affinity"]>): JsonObject => ({
  ...rest,
  ...expiryField(at),
});

const expiryField = (at: number | null = null): { expiresAt?: string } => (at === null ? {} : { expiresAt: isoTime(at) });

function presentArtifacts(task: string, state: TaskState, { workers, fateOf }: NodeViewContext): RunArtifact[] {
  return (state.artifacts ?? []).map((one) => ({
    resourceId: one.resource,
    workerName: workers.get(one.worker) ?? instanceIdOf(one.worker),
    type: one.type,
    ...(one.sizeBytes !== undefined && { sizeBytes: one.sizeBytes }),
    ...(one.inline !== undefined && { inline: one.inline }),
    ...expiryField(one.expiresAt),
    ...(one.metadata !== undefined && { metadata: one.metadata as JsonObject }),
    ...(fateOf === undefined ? one.removed !== undefined && { removed: one.removed } : fateOf(one, task)),
  }));
}

/** Which iteration and which call, where a node runs more than once. */
function iterationFields(plan: Plan, task: TaskRow, state: TaskState, iterations: IterationIndexes): Partial<RunNodeStatus> {
  const slot = taskPathOf(task);
  const step = lastStep(slot);
  const scope = scopeOf(slot);
  const isFrame = step.iteration !== null;
  const holder = isFrame ? slot : scope;
  const container = holder === "" ? null : nodeAt(plan, holder);
  const number = (isFrame ? step.iteration : lastStep(holder === "" ? "0" : holder).iteration) ?? 0;
  const index = isFrame ? (state.frame?.index ?? number) : (iterations.get(holder) ?? number);
  return {
    ...(step.call !== null && { call: step.call }),
    ...(container !== null && { frame: { container: container.id, index, number, ...(isFrame && { isFrame }) } }),
  };
}

/** How far the node has come and what it last said of it; what has succeeded is done. */
export function lastReportOf(task: TaskRow): { progress?: number; message?: string } {
  const { progress, message } = readTaskState(task).said ?? {};
  return {
    ...(progress !== undefined && { progress: task.phase === "succeeded" ? 1 : progress }),
    ...(message !== undefined && { message }),
  };
}

/** Kept apart from parameters and results, which belong to the package. */
function stateFields(task: TaskRow, { said }: TaskState, error: RunNodeStatus["error"]): NonNullable<RunNodeStatus["state"]> {
  const isOver = task.endedAt !== null;
  const changedAt = task.endedAt ?? said?.at ?? task.grantedAt ?? task.readyAt;
  const { progress, message: last } = lastReportOf(task);
  const message = error?.message ?? last;
  return {
    // What the node last called its stage says nothing once it is over.
    stage: isOver ? task.phase : (said?.stage ?? defaultStageOfPhase(task.phase)),
    ...(progress !== undefined && { progress }),
    ...(changedAt !== null && { lastUpdatedAt: isoTime(changedAt) }),
    ...(message !== undefined && { message }),
    ...(error !== undefined && { error }),
    ...(task.attempt > 0 && { attempt: task.attempt }),
  };
}

/** The definition with the state of each node filled in, as the canvas shows a run. */
export function presentDefinition(detail: RunDetail, context: NodeViewContext): object {
  const definition = JSON.parse(detail.workflow) as Workflow;
  const states = new Map(presentNodes(detail, context).map((node) => [node.taskId, node]));
  const plan = compilePlan(definition);
  const stateAt = (ordinal: number) => states.get(`${detail.run.id}.${ordinal}`)?.state ?? { stage: "waiting" };
  return {
    ...definition,
    nodes: definition.nodes.map((node, ordinal) => ({
      ...node,
      state: stateAt(ordinal),
      ...(node.middlewares !== undefined && {
        middlewares: node.middlewares.map((middleware, at) => ({
          ...middleware,
          state: stateAt(plan.nodes[ordinal]?.chain[at] ?? -1),
        })),
      }),
    })),
  };
}
