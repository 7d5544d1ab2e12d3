// The workflow definition: what the builder saves, the scheduler runs and the API returns. Shape only.
// The graph package checks whether the graph makes sense (edges, cycles, chains).

import Type, { type Static } from "typebox";
import { type Fault, fault } from "../faults/fault.ts";
import { limits } from "../json/limits.ts";
import {
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
  uuidString,
} from "../schema/field-types.ts";
import { createSchemaReader } from "../schema/schema-reader.ts";
import { NodeSchemasSchema, NodeUiSchema, nodeRoles, nodeStatuses } from "./node-ui.ts";

export const ResultErrorSchema = Type.Object({ code: idString(), message: textString(), details: optional(openObject()) });
export type ResultError = Static<typeof ResultErrorSchema>;

export const WorkflowNodeStateSchema = Type.Object(
  {
    stage: optional(nameString()),
    progress: optional(Type.Number({ minimum: 0, maximum: 1 })),
    lastUpdatedAt: optional(instantString()),
    message: optional(textString()),
    error: optional(ResultErrorSchema),
  },
  { additionalProperties: true },
);
export type WorkflowNodeState = Static<typeof WorkflowNodeStateSchema>;

/** How a node is run; absent: the defaults of the scheduler. */
export const NodePolicySchema = Type.Object({
  retry: optional(
    Type.Object({
      maxAttempts: optional(integer(1, 1_000)),
      backoffMs: optional(integer(0)),
      factor: optional(Type.Number({ minimum: 1, maximum: 100 })),
      backoffMsMax: optional(integer(0)),
    }),
  ),
  timeoutMs: optional(integer(1)),
  queueTimeoutMs: optional(integer(1)),
  priority: optional(Type.Integer({ minimum: 0, maximum: 9, default: 5, description: "Lower is sooner." })),
  concurrency: optional(Type.Object({ key: idString(), limit: optional(integer(1, 1_000_000)) })),
  pool: optional(idString()),
  tags: optional(mapOf(nameString())),
  maxDeliveries: optional(integer(1, 1_000)),
  affinity: optional(
    Type.Object({
      key: idString("Tasks of one tenant with the same key go to one worker."),
      mode: optional(oneOf(["sticky", "preferred"])),
      ttlSeconds: optional(integer(1, 31_536_000)),
    }),
  ),
  resourceRefs: optional(
    listOf(
      Type.Object({
        resourceId: idString(),
        workerName: optional(nameString()),
        type: optional(nameString()),
        scope: optional(nameString()),
        metadata: optional(openObject()),
      }),
      256,
    ),
  ),
  minVersion: optional(idString("This version of the node's package or a newer one.")),
});
export type NodePolicy = Static<typeof NodePolicySchema>;

const nodeFields = {
  id: uuidString(),
  type: idString(),
  package: Type.Object({ name: idString(), version: idString() }),
  label: nameString(),
  status: optional(oneOf(nodeStatuses)),
  category: optional(nameString()),
  description: optional(textString()),
  tags: optional(listOf(nameString(), 1_000)),
  parameters: optional(openObject("Passed to the node as authored, after edge values were written in.")),
  results: optional(openObject()),
  state: optional(WorkflowNodeStateSchema),
  schema: optional(NodeSchemasSchema),
  ui: optional(NodeUiSchema),
  policy: optional(NodePolicySchema),
  runtimes: optional(openObject()),
  conditions: optional(openObject()),
  extensions: optional(openObject()),
  metadata: optional(openObject()),
};

const MiddlewareSchema = Type.Object({ ...nodeFields, role: optional(oneOf(["middleware"])) });
export type Middleware = Static<typeof MiddlewareSchema>;

const WorkflowNodeSchema = Type.Object({
  ...nodeFields,
  role: optional(oneOf(nodeRoles)),
  position: Type.Object({ x: Type.Number(), y: Type.Number() }),
  layout: optional(Type.Object({ width: optional(Type.Number()), height: optional(Type.Number()) })),
  middlewares: optional(listOf(MiddlewareSchema, 64)),
});
export type WorkflowNode = Static<typeof WorkflowNodeSchema>;

const edgeEndSchema = Type.Object({
  node: uuidString(),
  port: idString("A port key, or mw:<middleware id>:<input|output>:<key> at the host."),
});
const EdgeSchema = Type.Object({ id: idString(), source: edgeEndSchema, target: edgeEndSchema });
export type Edge = Static<typeof EdgeSchema>;

export const WorkflowSchema = Type.Cyclic(
  {
    Workflow: Type.Object({
      id: uuidString(),
      schemaVersion: Type.String({ pattern: "^[0-9]{4}-[0-9]{2}$" }),
      metadata: Type.Object({
        name: nameString(),
        description: optional(textString()),
        tags: optional(listOf(nameString(), 1_000)),
        environment: optional(nameString()),
        namespace: optional(nameString()),
        originId: optional(uuidString()),
        ownerId: optional(idString()),
        ownerName: optional(nameString()),
        createdBy: optional(nameString()),
        updatedBy: optional(nameString()),
      }),
      nodes: Type.Array(WorkflowNodeSchema, { minItems: 1, maxItems: limits.workflowNodesMax }),
      edges: listOf(EdgeSchema, limits.workflowEdgesMax),
      runtimes: optional(
        mapOf(
          Type.Object(
            {
              workerHints: optional(
                Type.Object({ package: optional(idString()), minVersion: optional(idString()) }, { additionalProperties: true }),
              ),
            },
            { additionalProperties: true },
          ),
        ),
      ),
      tags: optional(listOf(nameString(), 1_000)),
      previewImage: optional(Type.String({ maxLength: limits.requestBytesMax })),
      subgraphs: optional(
        listOf(
          Type.Object({
            id: idString(),
            definition: Type.Ref("Workflow"),
            metadata: optional(
              Type.Object({
                label: optional(nameString()),
                description: optional(textString()),
                referenceWorkflowId: optional(idString()),
                referenceWorkflowName: optional(nameString()),
                ownerId: optional(idString()),
                notes: optional(textString()),
              }),
            ),
          }),
          1_000,
        ),
      ),
    }),
  },
  "Workflow",
);
export type Workflow = Static<typeof WorkflowSchema>;

const workflowReader = createSchemaReader(WorkflowSchema, {
  code: "E.WORKFLOW.INVALID",
  subject: "workflow",
  unknownKeys: "drop",
});

/** Reads a workflow: known fields only, or a fault that names the field. */
export function readWorkflow(value: unknown): Workflow | Fault {
  return isNestedTooDeep(value, limits.subgraphDepthMax) ? nestingFault() : workflowReader.read(value);
}

/** All invalid fields of a workflow, up to `max`. */
export function findWorkflowFaults(value: unknown, max: number): Fault[] {
  return isNestedTooDeep(value, limits.subgraphDepthMax) ? [nestingFault()] : workflowReader.findFaults(value, max);
}

const nestingFault = (): Fault =>
  fault("E.WORKFLOW.INVALID", `workflow.subgraphs must not nest deeper than ${limits.subgraphDepthMax}`, {
    path: "workflow.subgraphs",
  });

/** Checked first, because the schema check recurses into subgraphs. */
function isNestedTooDeep(value: unknown, depthLeft: number): boolean {
  if (depthLeft < 0) return true;
  const subgraphs = (value as { subgraphs?: unknown } | null)?.subgraphs;
  if (!Array.isArray(subgraphs)) return false;
  return subgraphs.some((subgraph: { definition?: unknown } | null) => isNestedTooDeep(subgraph?.definition, depthLeft - 1));
}
