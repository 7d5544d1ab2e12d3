// REST bodies about runs and their nodes. camelCase; absent optional fields are left out.

import Type, { type Static } from "typebox";
import { ResultErrorSchema, readWorkflow, WorkflowNodeStateSchema, WorkflowSchema } from "../../definitions/workflow.ts";
import { Fault, fault } from "../../faults/fault.ts";
import { type FaultCode, faultCodes } from "../../faults/fault-codes.ts";
import {
  allowUnknownFlag,
  idString,
  instantString,
  integer,
  listOf,
  mapOf,
  nameString,
  oneOf,
  openObject,
  optional,
  textString,
} from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageOf } from "./body-parts.ts";

/** The one error body. `error` is a fault code. */
export const ErrorSchema = Type.Object({
  error: Type.Unsafe<FaultCode>({ type: "string", enum: Object.keys(faultCodes) }),
  message: textString(),
  requestId: optional(idString()),
  details: optional(openObject()),
});
export type ErrorBody = Static<typeof ErrorSchema>;

export const RunStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled"]);
export type RunStatus = Static<typeof RunStatusSchema>;
/** A node may also be skipped. */
export const NodeStatusSchema = oneOf(["queued", "running", "succeeded", "failed", "cancelled", "skipped"]);
export type NodeStatus = Static<typeof NodeStatusSchema>;

const runStartFields = {
  clientId: idString("Session of the caller's event stream."),
  priority: optional(Type.Integer({ minimum: 0, maximum: 9, description: "Lower is sooner; nodes may override it." })),
  timeoutMs: optional(integer(1)),
  labels: optional(mapOf(nameString())),
  pins: optional(mapOf(openObject("By node id: results to use for the node instead of running it."))),
  from: optional(idString("Run this node and what follows it; what comes before must be pinned or reused.")),
  to: optional(idString("Run this node and what it needs, nothing else.")),
  reuse: optional(idString("Run whose results are reused for nodes that do not run again.")),
  dryRun: optional(Type.Boolean({ description: "Return the plan without starting anything." })),
  allowUnknown: optional(allowUnknownFlag()),
};
export const RunStartRequestSchema = Type.Object({
  workflow: optional(WorkflowSchema),
  workflowId: optional(idString("A stored workflow, where no definition is sent.")),
  version: optional(
    Type.Union([integer(1), oneOf(["draft", "latest"])], { description: "Of the stored workflow; latest by default." }),
  ),
  ...runStartFields,
});
export type RunStartRequest = Static<typeof RunStartRequestSchema>;

/** What a start would do. */
export const RunPlanSchema = Type.Object({
  dryRun: Type.Literal(true),
  definitionHash: optional(idString()),
  nodes: listOf(
    Type.Object({
      nodeId: idString(),
      label: nameString(),
      action: oneOf(["run", "pin", "reuse", "excluded"]),
      workers: optional(
        integer(0, undefined, "Workers that could take it now; absent for what the scheduler carries out itself."),
      ),
    }),
  ),
  problems: listOf(
    Type.Object({
      path: textString(),
      code: idString(),
      message: textString(),
      node: optional(idString()),
      severity: optional(oneOf(["error", "warning"])),
    }),
  ),
});
export type RunPlan = Static<typeof RunPlanSchema>;

export const RunRefSchema = Type.Object({
  runId: idString(),
  status: RunStatusSchema,
  definitionHash: idString(),
  clientId: idString(),
  createdAt: instantString(),
});
export type RunRef = Static<typeof RunRefSchema>;

export const RunArtifactSchema = Type.Object({
  resourceId: idString(),
  nodeId: optional(idString()),
  workerName: idString(),
  type: nameString(),
  sizeBytes: optional(integer(0)),
  inline: optional(Type.Boolean()),
  expiresAt: optional(instantString()),
  metadata: optional(openObject()),
  status: optional(oneOf(["ready", "expired", "removed"], "Whether it is still available.")),
  removed: optional(nameString("Why it is gone: evicted, expired, released or lost.")),
});
export type RunArtifact = Static<typeof RunArtifactSchema>;

export const RunNodeStatusSchema = Type.Object({
  nodeId: idString(),
  taskId: idString(),
  status: NodeStatusSchema,
  workerName: optional(nameString()),
  startedAt: optional(instantString()),
  finishedAt: optional(instantString()),
  seq: optional(
    integer(
      0,
      undefined,
      "Of its dispatch, as revision of its results: it grows, and is not counted from 1. Absent while it has none.",
    ),
  ),
  pendingAck: optional(Type.Boolean({ description: "A dispatch was sent and the worker has not acknowledged it." })),
  dispatchId: optional(idString("Envelope id of the last dispatch.")),
  ackDeadline: optional(instantString()),
  attempt: optional(integer(0)),
  fence: optional(integer(0)),
  resourceRefs: optional(listOf(openObject())),
  affinity: optional(openObject()),
  artifacts: optional(listOf(RunArtifactSchema)),
  result: optional(openObject()),
  metadata: optional(openObject()),
  metrics: optional(mapOf(Type.Number())),
  state: optional(WorkflowNodeStateSchema),
  error: optional(ResultErrorSchema),
  label: optional(nameString()),
  middlewares: optional(listOf(idString("On a host: the ids of its chain, outermost first."))),
  host_node_id: optional(Type.Union([idString(), Type.Null()], { description: "On a middleware: its host. Null on the host." })),
  chain_index: optional(Type.Union([integer(0), Type.Null()], { description: "On a middleware: its place. Null on the host." })),
  call: optional(integer(1, undefined, "Which call through the chain, where a node is called more than once.")),
  frame: optional(
    Type.Object({
      container: idString("Node id of the container."),
      index: integer(0, undefined, "Which iteration."),
      number: optional(integer(0, undefined, "Of the frame; an iteration that was tried again has several.")),
      isFrame: optional(Type.Boolean({ description: "This entry is the iteration itself, not a node in it." })),
    }),
  ),
  why: optional(textString("Why it was not run: pin, reuse, excluded, or an operator's reason.")),
});
export type RunNodeStatus = Static<typeof RunNodeStatusSchema>;

export const RunSchema = Type.Object({
  runId: idString(),
  status: RunStatusSchema,
  definitionHash: idString("Of what runs: the workflow with what its packages' manifests add."),
  clientId: idString(),
  createdAt: optional(instantString()),
  startedAt: optional(instantString()),
  finishedAt: optional(instantString()),
  priority: optional(integer(0, 9)),
  error: optional(ResultErrorSchema),
  artifacts: optional(listOf(RunArtifactSchema)),
  nodes: optional(listOf(RunNodeStatusSchema)),
  nodesNextCursor: optional(
    Type.Union([Type.String(), Type.Null()], { description: "More nodes: GET …/nodes with this cursor." }),
  ),
  name: optional(nameString("Of the workflow.")),
  workflowId: optional(idString()),
  version: optional(Type.Union([integer(1), Type.Literal("draft")])),
  versionHash: optional(idString("Of the version as it was published.")),
  labels: optional(mapOf(nameString())),
  startedBy: optional(nameString()),
  repeatOf: optional(idString("The run that this one retries, replays or takes results from.")),
  artifactsNextCursor: optional(Type.String({ description: "More artifacts: GET …/artifacts with this cursor." })),
  openTasks: optional(integer(0, undefined, "Tasks that have not ended.")),
  at: optional(integer(0, undefined, "The requested position; the run is as of then.")),
  asOf: optional(asOfPosition()),
});
export type Run = Static<typeof RunSchema>;

export const RunListSchema = pageOf(RunSchema);
export type RunList = Static<typeof RunListSchema>;

/** One fact of a run, as the log keeps it. */
export const RunEventSchema = Type.Object({
  position: integer(0, undefined, "Place in the tenant's log."),
  type: idString(),
  at: instantString(),
  runId: idString(),
  data: openObject(),
});
export type RunEvent = Static<typeof RunEventSchema>;
export const RunEventListSchema = pageOf(RunEventSchema);
export type RunEventList = Static<typeof RunEventListSchema>;

export const HealthSchema = Type.Object({ ok: Type.Boolean(), checks: optional(mapOf(Type.Boolean())) });
export type Health = Static<typeof HealthSchema>;

const readRunStartBody = createBodyReader(Type.Object({ ...RunStartRequestSchema.properties, workflow: optional(openObject()) }));
/** The body of POST /api/v1/runs. Its workflow is read apart, so that a wrong one has a code of its own. */
export function readRunStartRequest(value: unknown): RunStartRequest | Fault {
  const body = readRunStartBody(value);
  if (body instanceof Fault) return body;
  const { workflow: sent, ...rest } = body;
  if ((sent === undefined) === (rest.workflowId === undefined))
    return fault("E.REQUEST.INVALID", "body must have either workflow or workflowId", { path: "body.workflow" });
  if (sent === undefined) return rest;
  const workflow = readWorkflow(sent);
  return workflow instanceof Fault ? workflow : { ...rest, workflow };
}
