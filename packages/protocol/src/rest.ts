// Bodies of the REST API that runs and their nodes are seen through. camelCase; absent optional fields are left out.
// Those about workers are in rest-workers.ts, those of routes that do not exist yet in rest-later.ts; the routes themselves in routes.ts.

import Type, { type Static, type TSchema } from "typebox";
import { Fault } from "./fault.ts";
import { type FaultCode, faultCodes } from "./fault-codes.ts";
import { shape } from "./shape.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional, text } from "./words.ts";
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
  });

export const RunStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled"]);
export type RunStatus = Static<typeof RunStatusSchema>;
/** A node may also be skipped. */
export const NodeStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled", "skipped"]);
export type NodeStatus = Static<typeof NodeStatusSchema>;

export const RunStartRequestSchema = Type.Object({
  workflow: WorkflowSchema,
  clientId: id("Session of the caller's event stream."),
  priority: optional(Type.Integer({ minimum: 0, maximum: 9, description: "Lower is sooner; nodes may say otherwise." })),
  timeoutMs: optional(int(1)),
});
export type RunStartRequest = Static<typeof RunStartRequestSchema>;

export const RunRefSchema = Type.Object({
  runId: id(),
  status: RunStatusSchema,
  definitionHash: id(),
  clientId: id(),
  createdAt: instant(),
});
export type RunRef = Static<typeof RunRefSchema>;

const RunArtifactSchema = Type.Object({
  resourceId: id(),
  workerName: id(),
  type: name(),
  sizeBytes: optional(int(0)),
  inline: optional(Type.Boolean()),
  expiresAt: optional(instant()),
  metadata: optional(bag()),
});
export type RunArtifact = Static<typeof RunArtifactSchema>;

export const RunNodeStatusSchema = Type.Object({
  nodeId: id(),
  taskId: id(),
  status: NodeStatusSchema,
  workerName: optional(name()),
  startedAt: optional(instant()),
  finishedAt: optional(instant()),
  seq: optional(int(0)),
  pendingAck: optional(Type.Boolean({ description: "A dispatch was sent and the worker has not acknowledged it." })),
  dispatchId: optional(id("Envelope id of the last dispatch.")),
  ackDeadline: optional(instant()),
  attempt: optional(int(0)),
  fence: optional(int(0)),
  resourceRefs: optional(list(bag())),
  affinity: optional(bag()),
  artifacts: optional(list(bag())),
  result: optional(bag()),
  metadata: optional(bag()),
  state: optional(WorkflowNodeStateSchema),
  error: optional(ResultErrorSchema),
});
export type RunNodeStatus = Static<typeof RunNodeStatusSchema>;

export const RunSchema = Type.Object({
  runId: id(),
  status: RunStatusSchema,
  definitionHash: id(),
  clientId: id(),
  createdAt: optional(instant()),
  startedAt: optional(instant()),
  finishedAt: optional(instant()),
  priority: optional(int(0, 9)),
  error: optional(ResultErrorSchema),
  artifacts: optional(list(RunArtifactSchema)),
  nodes: optional(list(RunNodeStatusSchema)),
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
  RunRef: RunRefSchema,
  RunArtifact: RunArtifactSchema,
  RunNodeStatus: RunNodeStatusSchema,
  Run: RunSchema,
  RunList: RunListSchema,
  RunEvent: RunEventSchema,
  RunEventList: RunEventListSchema,
  Health: HealthSchema,
} as const;

const startShape = shape(Type.Object({ ...RunStartRequestSchema.properties, workflow: bag() }), {
  code: "E.REQUEST.INVALID",
  what: "body",
  unknown: "drop",
});
/** The body of POST /api/v1/runs. Its workflow is read apart, so that a wrong one has a code of its own. */
export function readRunStartRequest(value: unknown): RunStartRequest | Fault {
  const body = startShape.read(value);
  if (body instanceof Fault) return body;
  const workflow = readWorkflow(body.workflow);
  return workflow instanceof Fault ? workflow : { ...body, workflow };
}
