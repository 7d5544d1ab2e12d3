// REST bodies about runs and their nodes. camelCase; absent optional fields are left out.

import type { Static } from "typebox";
import { ResultErrorSchema, readWorkflow, WorkflowNodeStateSchema, WorkflowSchema } from "../../definitions/workflow.ts";
import { Fault, fault } from "../../faults/fault.ts";
import { type FaultCode, faultCodes } from "../../faults/fault-codes.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageOf } from "./body-parts.ts";
import { WorkflowProblemSchema } from "./workflow-bodies.ts";

/** The one error body. `error` is a fault code. */
export const ErrorSchema = t.object({
  error: t.unsafe<FaultCode>({ type: "string", enum: Object.keys(faultCodes) }),
  message: t.text(),
  requestId: t.optional(t.id()),
  details: t.optional(t.openObject()),
});
export type ErrorBody = Static<typeof ErrorSchema>;

export const runStatuses = ["queued", "running", "succeeded", "failed", "cancelled"] as const;
export const RunStatusSchema = t.oneOf(runStatuses);
export type RunStatus = Static<typeof RunStatusSchema>;
/** A node may also be skipped. */
export const NodeStatusSchema = t.oneOf(["queued", "running", "succeeded", "failed", "cancelled", "skipped"]);
export type NodeStatus = Static<typeof NodeStatusSchema>;

export const runLabelLimits = { countMax: 64, keyCharsMax: 128 } as const;
const runLabels = () =>
  t.map(
    t.name(),
    t.published({
      maxProperties: runLabelLimits.countMax,
      propertyNames: { minLength: 1, maxLength: runLabelLimits.keyCharsMax, pattern: "^[^\\u0000-\\u001f\\u007f]*$" },
    }),
  );

const runStartFields = {
  clientId: t.id("Session of the caller's event stream."),
  priority: t.optional(t.between(0, 9, "Lower is sooner; nodes may override it.")),
  timeoutMs: t.optional(t.integer(1)),
  labels: t.optional(runLabels()),
  pins: t.optional(t.map(t.openObject("By node id: results to use for the node instead of running it."))),
  from: t.optional(t.id("Run this node and what follows it; what comes before must be pinned or reused.")),
  to: t.optional(t.id("Run this node and what it needs, nothing else.")),
  reuse: t.optional(t.id("Run whose results are reused for nodes that do not run again.")),
  dryRun: t.optional(t.boolean({ description: "Return the plan without starting anything." })),
  allowUnknown: t.optional(t.allowUnknownFlag()),
};
export const RunStartRequestSchema = t.object(
  {
    workflow: t.optional(WorkflowSchema),
    workflowId: t.optional(t.id("A stored workflow, where no definition is sent.")),
    version: t.optional(
      t.union([t.integer(1), t.oneOf(["draft", "latest"])], { description: "Of the stored workflow; latest by default." }),
    ),
    ...runStartFields,
  },
  t.published({ oneOf: [{ required: ["workflow"] }, { required: ["workflowId"] }] }),
);
export type RunStartRequest = Static<typeof RunStartRequestSchema>;

export const RunPlanSchema = t.object({
  dryRun: t.literal(true),
  definitionHash: t.optional(t.id()),
  nodes: t.objectList({
    nodeId: t.id(),
    label: t.name(),
    action: t.oneOf(["run", "pin", "reuse", "excluded"]),
    workers: t.optional(t.integer(0, "Workers that could take it now; absent for what the scheduler carries out itself.")),
  }),
  problems: t.objectList({
    path: t.text(),
    code: t.id(),
    message: t.text(),
    node: t.optional(t.id()),
    severity: t.optional(t.oneOf(["error", "warning"])),
  }),
});
export type RunPlan = Static<typeof RunPlanSchema>;

export const RunRefSchema = t.object({
  runId: t.id(),
  status: RunStatusSchema,
  definitionHash: t.id(),
  clientId: t.id(),
  createdAt: t.instant(),
});
export type RunRef = Static<typeof RunRefSchema>;
/** The answer to a start. */
export const StartedRunSchema = t.object({
  ...RunRefSchema.properties,
  /** With an idempotency key only what does not depend on the packages of the moment: the answer must be the same when it is repeated. */
  problems: t.optional(t.list(WorkflowProblemSchema)),
});
export type StartedRunRef = Static<typeof StartedRunSchema>;

export const RunArtifactSchema = t.object({
  resourceId: t.id(),
  nodeId: t.optional(t.id()),
  workerName: t.id(),
  type: t.name(),
  sizeBytes: t.optional(t.integer(0)),
  inline: t.optional(t.boolean()),
  expiresAt: t.optional(t.instant()),
  metadata: t.optional(t.openObject()),
  status: t.optional(t.oneOf(["ready", "expired", "removed"], "Whether it is still available.")),
  removed: t.optional(t.name("Why it is gone: evicted, expired, released or lost.")),
});
export type RunArtifact = Static<typeof RunArtifactSchema>;

export const NodeWarningSchema = t.object({
  code: t.id("E.PARAMS.INVALID or E.RESULT.INVALID."),
  message: t.text(),
  field: t.string({ description: "JSON pointer that begins with /parameters or /results." }),
});
export type NodeWarning = Static<typeof NodeWarningSchema>;

export const RunNodeStatusSchema = t.object({
  nodeId: t.id(),
  taskId: t.id(),
  status: NodeStatusSchema,
  workerName: t.optional(t.name()),
  startedAt: t.optional(t.instant()),
  finishedAt: t.optional(t.instant()),
  seq: t.optional(
    t.integer(0, "Of its dispatch, as revision of its results: it grows, and is not counted from 1. Absent while it has none."),
  ),
  pendingAck: t.optional(t.boolean({ description: "A dispatch was sent and the worker has not acknowledged it." })),
  dispatchId: t.optional(t.id("Envelope id of the last dispatch.")),
  ackDeadline: t.optional(t.instant()),
  attempt: t.optional(t.integer(0)),
  fence: t.optional(t.integer(0)),
  resourceRefs: t.optional(t.list(t.openObject())),
  affinity: t.optional(t.openObject()),
  artifacts: t.optional(t.list(RunArtifactSchema)),
  result: t.optional(t.openObject()),
  metadata: t.optional(t.openObject()),
  metrics: t.optional(t.map(t.number())),
  state: t.optional(WorkflowNodeStateSchema),
  error: t.optional(ResultErrorSchema),
  warnings: t.optional(t.list(NodeWarningSchema, 10)),
  label: t.optional(t.name()),
  middlewares: t.optional(t.list(t.id("On a host: the ids of its chain, outermost first."))),
  host_node_id: t.optional(t.nullable(t.id(), "On a middleware: its host. Null on the host.")),
  chain_index: t.optional(t.nullable(t.integer(0), "On a middleware: its place. Null on the host.")),
  call: t.optional(t.integer(1, "Which call through the chain, where a node is called more than once.")),
  frame: t.optionalObject({
    container: t.id("Node id of the container."),
    index: t.integer(0, "Which iteration."),
    number: t.optional(t.integer(0, "Of the frame; an iteration that was tried again has several.")),
    isFrame: t.optional(t.boolean({ description: "This entry is the iteration itself, not a node in it." })),
  }),
  why: t.optional(t.text("Why it was not run: pin, reuse, excluded, or an operator's reason.")),
});
export type RunNodeStatus = Static<typeof RunNodeStatusSchema>;

export const RunSchema = t.object({
  runId: t.id(),
  status: RunStatusSchema,
  definitionHash: t.id("Of what runs: the workflow with what its packages' manifests add."),
  clientId: t.id(),
  createdAt: t.optional(t.instant()),
  startedAt: t.optional(t.instant()),
  finishedAt: t.optional(t.instant()),
  priority: t.optional(t.between(0, 9)),
  error: t.optional(ResultErrorSchema),
  artifacts: t.optional(t.list(RunArtifactSchema)),
  nodes: t.optional(t.list(RunNodeStatusSchema)),
  nodesNextCursor: t.optional(t.nullable(t.string(), "More nodes: GET …/nodes with this cursor.")),
  name: t.optional(t.name("Of the workflow.")),
  workflowId: t.optional(t.id()),
  version: t.optional(t.union([t.integer(1), t.literal("draft")])),
  versionHash: t.optional(t.id("Of the version as it was published.")),
  labels: t.optional(t.map(t.name())),
  startedBy: t.optional(t.name()),
  repeatOf: t.optional(t.id("The run that this one retries, replays or takes results from.")),
  artifactsNextCursor: t.optional(t.string({ description: "More artifacts: GET …/artifacts with this cursor." })),
  openTasks: t.optional(t.integer(0, "Tasks that have not ended.")),
  at: t.optional(t.integer(0, "The requested position; the run is as of then.")),
  asOf: t.optional(asOfPosition()),
});
export type Run = Static<typeof RunSchema>;

export const RunListSchema = pageOf(RunSchema);
export type RunList = Static<typeof RunListSchema>;

export const RunEventSchema = t.object({
  position: t.integer(0, "Place in the tenant's log."),
  type: t.id(),
  at: t.instant(),
  runId: t.id(),
  data: t.openObject(),
});
export type RunEvent = Static<typeof RunEventSchema>;
export const RunEventListSchema = pageOf(RunEventSchema);
export type RunEventList = Static<typeof RunEventListSchema>;

export const HealthSchema = t.object({ ok: t.boolean(), checks: t.optional(t.map(t.boolean())) });
export type Health = Static<typeof HealthSchema>;

const readRunStartBody = createBodyReader(
  t.object({ ...RunStartRequestSchema.properties, workflow: t.optional(t.openObject()) }),
);
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
