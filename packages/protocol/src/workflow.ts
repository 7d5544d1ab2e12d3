// The workflow definition: what the builder saves, the scheduler runs and the API returns. Shape only.
// Whether the graph makes sense (ends of edges, cycles, chains) is decided by the graph room.

import Type, { type Static } from "typebox";
import { type Fault, fault } from "./fault.ts";
import { limits } from "./limits.ts";
import { NodeSchemasSchema, NodeUiSchema, nodeStatuses, roles } from "./node-face.ts";
import { shape } from "./shape.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional, text, uuid } from "./words.ts";

export const ResultErrorSchema = Type.Object({ code: id(), message: text(), details: optional(bag()) });
export type ResultError = Static<typeof ResultErrorSchema>;

export const WorkflowNodeStateSchema = Type.Object(
  {
    stage: optional(name()),
    progress: optional(Type.Number({ minimum: 0, maximum: 1 })),
    lastUpdatedAt: optional(instant()),
    message: optional(text()),
    error: optional(ResultErrorSchema),
  },
  { additionalProperties: true },
);
export type WorkflowNodeState = Static<typeof WorkflowNodeStateSchema>;

/** How a node is to be run. Ours; absent means the defaults of the scheduler. */
export const PolicySchema = Type.Object({
  retry: optional(
    Type.Object({
      maxAttempts: optional(int(1, 1_000)),
      backoffMs: optional(int(0)),
      factor: optional(Type.Number({ minimum: 1, maximum: 100 })),
      backoffMsMax: optional(int(0)),
    }),
  ),
  timeoutMs: optional(int(1)),
  queueTimeoutMs: optional(int(1)),
  priority: optional(Type.Integer({ minimum: 0, maximum: 9, default: 5, description: "Lower is sooner." })),
  concurrency: optional(Type.Object({ key: id(), limit: optional(int(1, 1_000_000)) })),
  pool: optional(id()),
  tags: optional(map(name())),
  maxDeliveries: optional(int(1, 1_000)),
  affinity: optional(
    Type.Object({
      key: id("Tasks of one tenant under one key go to one worker."),
      mode: optional(oneOf(["sticky", "preferred"])),
      ttlSeconds: optional(int(1, 31_536_000)),
    }),
  ),
  resourceRefs: optional(
    list(
      Type.Object({
        resourceId: id(),
        workerName: optional(name()),
        type: optional(name()),
        scope: optional(name()),
        metadata: optional(bag()),
      }),
      256,
    ),
  ),
  minVersion: optional(id("Any installed version of the node's package from this one on will do.")),
});
export type Policy = Static<typeof PolicySchema>;

const nodeRest = {
  id: uuid(),
  type: id(),
  package: Type.Object({ name: id(), version: id() }),
  label: name(),
  status: optional(oneOf(nodeStatuses)),
  category: optional(name()),
  description: optional(text()),
  tags: optional(list(name(), 1_000)),
  parameters: optional(bag("Passed to the node as authored, after edge values were written in.")),
  results: optional(bag()),
  state: optional(WorkflowNodeStateSchema),
  schema: optional(NodeSchemasSchema),
  ui: optional(NodeUiSchema),
  policy: optional(PolicySchema),
  runtimes: optional(bag()),
  conditions: optional(bag()),
  extensions: optional(bag()),
  metadata: optional(bag()),
};

const MiddlewareSchema = Type.Object({ ...nodeRest, role: optional(oneOf(["middleware"])) });
export type Middleware = Static<typeof MiddlewareSchema>;

const WorkflowNodeSchema = Type.Object({
  ...nodeRest,
  role: optional(oneOf(roles)),
  position: Type.Object({ x: Type.Number(), y: Type.Number() }),
  layout: optional(Type.Object({ width: optional(Type.Number()), height: optional(Type.Number()) })),
  middlewares: optional(list(MiddlewareSchema, 64)),
});
export type WorkflowNode = Static<typeof WorkflowNodeSchema>;

const end = Type.Object({ node: uuid(), port: id("A port key, or mw:<middleware id>:<input|output>:<key> at the host.") });
const EdgeSchema = Type.Object({ id: id(), source: end, target: end });
export type Edge = Static<typeof EdgeSchema>;

export const WorkflowSchema = Type.Cyclic(
  {
    Workflow: Type.Object({
      id: uuid(),
      schemaVersion: Type.String({ pattern: "^[0-9]{4}-[0-9]{2}$" }),
      metadata: Type.Object({
        name: name(),
        description: optional(text()),
        tags: optional(list(name(), 1_000)),
        environment: optional(name()),
        namespace: optional(name()),
        originId: optional(uuid()),
        ownerId: optional(id()),
        ownerName: optional(name()),
        createdBy: optional(name()),
        updatedBy: optional(name()),
      }),
      nodes: Type.Array(WorkflowNodeSchema, { minItems: 1, maxItems: limits.workflowNodesMax }),
      edges: list(EdgeSchema, limits.workflowEdgesMax),
      runtimes: optional(
        map(
          Type.Object(
            {
              workerHints: optional(
                Type.Object({ package: optional(id()), minVersion: optional(id()) }, { additionalProperties: true }),
              ),
            },
            { additionalProperties: true },
          ),
        ),
      ),
      tags: optional(list(name(), 1_000)),
      previewImage: optional(Type.String({ maxLength: limits.requestBytesMax })),
      subgraphs: optional(
        list(
          Type.Object({
            id: id(),
            definition: Type.Ref("Workflow"),
            metadata: optional(
              Type.Object({
                label: optional(name()),
                description: optional(text()),
                referenceWorkflowId: optional(id()),
                referenceWorkflowName: optional(name()),
                ownerId: optional(id()),
                notes: optional(text()),
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

const workflowShape = shape(WorkflowSchema, { code: "E.WORKFLOW.INVALID", what: "workflow", unknown: "drop" });

/** A workflow from outside: known fields only, or a fault that names the field. */
export function readWorkflow(value: unknown): Workflow | Fault {
  return isTooDeep(value, limits.subgraphDepthMax) ? tooDeep() : workflowShape.read(value);
}

/** All fields of a workflow from outside that are wrong, up to a number of them. */
export function workflowFaults(value: unknown, max: number): Fault[] {
  return isTooDeep(value, limits.subgraphDepthMax) ? [tooDeep()] : workflowShape.faults(value, max);
}

const tooDeep = (): Fault =>
  fault("E.WORKFLOW.INVALID", `workflow.subgraphs must not nest deeper than ${limits.subgraphDepthMax}`, {
    path: "workflow.subgraphs",
  });

/** Looked at before the check, which recurses into subgraphs. */
function isTooDeep(value: unknown, depthLeft: number): boolean {
  if (depthLeft < 0) return true;
  const subgraphs = (value as { subgraphs?: unknown } | null)?.subgraphs;
  if (!Array.isArray(subgraphs)) return false;
  return subgraphs.some((subgraph: { definition?: unknown } | null) => isTooDeep(subgraph?.definition, depthLeft - 1));
}
