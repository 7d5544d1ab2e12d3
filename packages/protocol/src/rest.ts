// Bodies of the REST API that runs and their nodes are seen through. camelCase; absent optional fields are left out.
// Those about other things are in the files rest-*.ts; the routes themselves in routes.ts.

import Type, { type Static, type TSchema } from "typebox";
import { Fault, fault } from "./fault.ts";
import { type FaultCode, faultCodes } from "./fault-codes.ts";
import { shape } from "./shape.ts";
import { allowUnknown, bag, id, instant, int, list, map, name, oneOf, optional, text } from "./words.ts";
import { ResultErrorSchema, readWorkflow, WorkflowNodeStateSchema, WorkflowSchema } from "./workflow.ts";

/** The one error body. `error` is a fault code. */
export const ErrorSchema = Type.Object({
  error: Type.Unsafe<FaultCode>({ type: "string", enum: Object.keys(faultCodes) }),
  message: text(),
  requestId: optional(id()),
  details: optional(bag()),
});
export type ErrorBody = Static<typeof ErrorSchema>;

export const page = <S extends TSchema>(items: S) =>
  Type.Object({
    items: Type.Array(items),
    nextCursor: Type.Union([Type.String(), Type.Null()], { description: "null at the end." }),
    asOf: optional(int(0, undefined, "Position of the log at which the page is true.")),
  });

export const RunStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled"]);
export type RunStatus = Static<typeof RunStatusSchema>;
/** A node may also be skipped. */
export const NodeStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled", "skipped"]);
export type NodeStatus = Static<typeof NodeStatusSchema>;

const startRest = {
  clientId: id("Session of the caller's event stream."),
  priority: optional(Type.Integer({ minimum: 0, maximum: 9, description: "Lower is sooner; nodes may say otherwise." })),
  timeoutMs: optional(int(1)),
  labels: optional(map(name())),
  pins: optional(map(bag("By node id: results that the node is taken to have had; it is not run."))),
  from: optional(id("Run this node and what follows it; what comes before must be pinned or reused.")),
  to: optional(id("Run this node and what it needs, nothing else.")),
  reuse: optional(id("Run whose results stand for nodes that are not run again.")),
  dryRun: optional(Type.Boolean({ description: "Answer the plan, start nothing." })),
  allowUnknown: optional(allowUnknown()),
};
export const RunStartRequestSchema = Type.Object({
  workflow: optional(WorkflowSchema),
  workflowId: optional(id("A stored workflow, where no definition is sent.")),
  version: optional(
    Type.Union([int(1), oneOf(["draft", "latest"])], { description: "Of the stored workflow; latest by default." }),
  ),
  ...startRest,
});
export type RunStartRequest = Static<typeof RunStartRequestSchema>;

/** What a start would do. */
export const RunPlanSchema = Type.Object({
  dryRun: Type.Literal(true),
  definitionHash: optional(id()),
  nodes: list(
    Type.Object({
      nodeId: id(),
      label: name(),
      action: oneOf(["run", "pin", "reuse", "excluded"]),
      workers: optional(int(0, undefined, "Workers that could take it now; absent for what the scheduler carries out itself.")),
    }),
  ),
  problems: list(
    Type.Object({
      path: text(),
      code: id(),
      message: text(),
      node: optional(id()),
      severity: optional(oneOf(["error", "warning"])),
    }),
  ),
});
export type RunPlan = Static<typeof RunPlanSchema>;

export const RunRefSchema = Type.Object({
  runId: id(),
  status: RunStatusSchema,
  definitionHash: id(),
  clientId: id(),
  createdAt: instant(),
});
export type RunRef = Static<typeof RunRefSchema>;

export const RunArtifactSchema = Type.Object({
  resourceId: id(),
  nodeId: optional(id()),
  workerName: id(),
  type: name(),
  sizeBytes: optional(int(0)),
  inline: optional(Type.Boolean()),
  expiresAt: optional(instant()),
  metadata: optional(bag()),
  status: optional(oneOf(["ready", "expired", "removed"], "Whether it can still be had.")),
  removed: optional(name("Why it is no longer there: evicted, expired, released or lost.")),
});
export type RunArtifact = Static<typeof RunArtifactSchema>;

export const RunNodeStatusSchema = Type.Object({
  nodeId: id(),
  taskId: id(),
  status: NodeStatusSchema,
  workerName: optional(name()),
  startedAt: optional(instant()),
  finishedAt: optional(instant()),
  seq: optional(
    int(
      0,
      undefined,
      "Of its dispatch, as revision of its results: it grows, and is not counted from 1. Absent while it has none.",
    ),
  ),
  pendingAck: optional(Type.Boolean({ description: "A dispatch was sent and the worker has not acknowledged it." })),
  dispatchId: optional(id("Envelope id of the last dispatch.")),
  ackDeadline: optional(instant()),
  attempt: optional(int(0)),
  fence: optional(int(0)),
  resourceRefs: optional(list(bag())),
  affinity: optional(bag()),
  artifacts: optional(list(RunArtifactSchema)),
  result: optional(bag()),
  metadata: optional(bag()),
  metrics: optional(map(Type.Number())),
  state: optional(WorkflowNodeStateSchema),
  error: optional(ResultErrorSchema),
  label: optional(name()),
  middlewares: optional(list(id("On a host: the ids of its chain, outermost first."))),
  host_node_id: optional(Type.Union([id(), Type.Null()], { description: "On a middleware: its host. Null on the host." })),
  chain_index: optional(Type.Union([int(0), Type.Null()], { description: "On a middleware: its place. Null on the host." })),
  call: optional(int(1, undefined, "Which call through the chain, where a node is called more than once.")),
  frame: optional(
    Type.Object({
      container: id("Node id of the container."),
      index: int(0, undefined, "Which iteration."),
      number: optional(int(0, undefined, "Of the frame; an iteration that was tried again has several.")),
      isFrame: optional(Type.Boolean({ description: "This entry is the iteration itself, not a node in it." })),
    }),
  ),
  why: optional(text("Why it was not run: pin, reuse, excluded, or an operator's reason.")),
});
export type RunNodeStatus = Static<typeof RunNodeStatusSchema>;

export const RunSchema = Type.Object({
  runId: id(),
  status: RunStatusSchema,
  definitionHash: id("Of what runs: the workflow with what its packages' manifests add."),
  clientId: id(),
  createdAt: optional(instant()),
  startedAt: optional(instant()),
  finishedAt: optional(instant()),
  priority: optional(int(0, 9)),
  error: optional(ResultErrorSchema),
  artifacts: optional(list(RunArtifactSchema)),
  nodes: optional(list(RunNodeStatusSchema)),
  nodesNextCursor: optional(
    Type.Union([Type.String(), Type.Null()], { description: "More nodes: GET …/nodes with this cursor." }),
  ),
  name: optional(name("Of the workflow.")),
  workflowId: optional(id()),
  version: optional(Type.Union([int(1), Type.Literal("draft")])),
  versionHash: optional(id("Of the version as it was published.")),
  labels: optional(map(name())),
  startedBy: optional(name()),
  repeatOf: optional(id("The run that this one retries, replays or takes results from.")),
  artifactsNextCursor: optional(Type.String({ description: "More artifacts: GET …/artifacts with this cursor." })),
  openTasks: optional(int(0, undefined, "Tasks that have not ended.")),
  at: optional(int(0, undefined, "The position that was asked for: the run as it was then.")),
  asOf: optional(int(0, undefined, "Position of the log at which this is true.")),
});
export type Run = Static<typeof RunSchema>;

export const RunListSchema = page(RunSchema);
export type RunList = Static<typeof RunListSchema>;

/** One fact of a run, as the log keeps it. */
const RunEventSchema = Type.Object({
  position: int(0, undefined, "Place in the tenant's log."),
  type: id(),
  at: instant(),
  runId: id(),
  data: bag(),
});
export type RunEvent = Static<typeof RunEventSchema>;
export const RunEventListSchema = page(RunEventSchema);
export type RunEventList = Static<typeof RunEventListSchema>;

export const HealthSchema = Type.Object({ ok: Type.Boolean(), checks: optional(map(Type.Boolean())) });
export type Health = Static<typeof HealthSchema>;

/** By the names they have in the OpenAPI document. */
export const restSchemas = {
  Error: ErrorSchema,
  RunStatus: RunStatusSchema,
  NodeStatus: NodeStatusSchema,
  RunStartRequest: RunStartRequestSchema,
  RunPlan: RunPlanSchema,
  RunRef: RunRefSchema,
  RunArtifact: RunArtifactSchema,
  RunNodeStatus: RunNodeStatusSchema,
  Run: RunSchema,
  RunList: RunListSchema,
  RunEvent: RunEventSchema,
  RunEventList: RunEventListSchema,
  Health: HealthSchema,
} as const;

const startShape = shape(Type.Object({ ...RunStartRequestSchema.properties, workflow: optional(bag()) }), {
  code: "E.REQUEST.INVALID",
  what: "body",
  unknown: "drop",
});
/** The body of POST /api/v1/runs. Its workflow is read apart, so that a wrong one has a code of its own. */
export function readRunStartRequest(value: unknown): RunStartRequest | Fault {
  const body = startShape.read(value);
  if (body instanceof Fault) return body;
  const { workflow: sent, ...rest } = body;
  if ((sent === undefined) === (rest.workflowId === undefined))
    return fault("E.REQUEST.INVALID", "body must have either workflow or workflowId", { path: "body.workflow" });
  if (sent === undefined) return rest;
  const workflow = readWorkflow(sent);
  return workflow instanceof Fault ? workflow : { ...rest, workflow };
}
