// The shape of a workflow definition. Whether its graph makes sense is checked in the graph package.

import type { Static } from "typebox";
import { type Fault, fault } from "../faults/fault.ts";
import { isRecord } from "../json/json-value.ts";
import { limits } from "../json/limits.ts";
import * as t from "../schema/field-types.ts";
import { createSchemaReader } from "../schema/schema-reader.ts";
import type { SchemaNode } from "../schema/schema-violations.ts";
import { findUnknownFields, type UnknownField } from "../schema/unknown-fields.ts";
import { NodeSchemasSchema, NodeUiSchema, nodeRoles, nodeStatuses, schemaModes } from "./node-ui.ts";

export const ResultErrorSchema = t.object({ code: t.id(), message: t.text(), details: t.optional(t.openObject()) });
export type ResultError = Static<typeof ResultErrorSchema>;

export const WorkflowNodeStateSchema = t.object(
  {
    stage: t.optional(t.name()),
    progress: t.optional(t.number({ minimum: 0, maximum: 1 })),
    lastUpdatedAt: t.optional(t.instant()),
    message: t.optional(t.text()),
    error: t.optional(ResultErrorSchema),
  },
  { additionalProperties: true },
);
export type WorkflowNodeState = Static<typeof WorkflowNodeStateSchema>;

/** Of a policy nothing is kept that is not known: the work would run under other limits than its author wrote. */
const closed = { additionalProperties: false } as const;

/** How a node is run; absent: the defaults of the scheduler. */
export const NodePolicySchema = t.object(
  {
    retry: t.optional(
      t.object(
        {
          maxAttempts: t.optional(t.between(1, 1_000)),
          backoffMs: t.optional(t.integer(0)),
          factor: t.optional(t.number({ minimum: 1, maximum: 100 })),
          backoffMsMax: t.optional(t.integer(0)),
        },
        closed,
      ),
    ),
    timeoutMs: t.optional(t.integer(1)),
    queueTimeoutMs: t.optional(t.integer(1)),
    priority: t.optional(t.anyInteger({ minimum: 0, maximum: 9, default: 5, description: "Lower is sooner." })),
    concurrency: t.optional(t.object({ key: t.id(), limit: t.optional(t.between(1, 1_000_000)) }, closed)),
    pool: t.optional(t.id()),
    tags: t.optional(t.map(t.name())),
    maxDeliveries: t.optional(t.between(1, 1_000)),
    affinity: t.optional(
      t.object(
        {
          key: t.id("Tasks of one tenant with the same key go to one worker."),
          mode: t.optional(t.oneOf(["sticky", "preferred"])),
          ttlSeconds: t.optional(t.between(1, 31_536_000)),
        },
        closed,
      ),
    ),
    resourceRefs: t.optional(
      t.list(
        t.object({
          resourceId: t.id(),
          workerName: t.optional(t.name()),
          type: t.optional(t.name()),
          scope: t.optional(t.name()),
          metadata: t.optional(t.openObject()),
        }),
        256,
      ),
    ),
    minVersion: t.optional(t.id("This version of the node's package or a newer one.")),
    schemaMode: t.optional(
      t.oneOf(schemaModes, "Whether parameters and results that do not match their schema are a warning, or fail the task."),
    ),
  },
  closed,
);
export type NodePolicy = Static<typeof NodePolicySchema>;

const nodeFields = {
  id: t.uuid(),
  type: t.id(),
  package: t.object({
    name: t.id(),
    version: t.id(),
    manifest: t.optional(t.id("Set when the workflow runs: digest of the manifest that the node's schemas are from.")),
    idempotency: t.optional(
      t.name(
        "Set when the workflow runs: what the manifest declares for the adapter, unless that is per_request. An attempt that may have begun is then not repeated without a retry policy.",
      ),
    ),
  }),
  label: t.name(),
  status: t.optional(t.oneOf(nodeStatuses)),
  category: t.optional(t.name()),
  description: t.optional(t.text()),
  tags: t.optional(t.list(t.name(), 1_000)),
  parameters: t.optional(t.openObject("Passed to the node as authored, after edge values were written in.")),
  results: t.optional(t.openObject()),
  state: t.optional(WorkflowNodeStateSchema),
  schema: t.optional(NodeSchemasSchema),
  ui: t.optional(NodeUiSchema),
  policy: t.optional(NodePolicySchema),
  runtimes: t.optional(t.openObject()),
  conditions: t.optional(t.openObject()),
  extensions: t.optional(t.openObject()),
  metadata: t.optional(t.openObject()),
};

const MiddlewareSchema = t.object({
  ...nodeFields,
  role: t.optional(t.oneOf(["middleware"])),
  // Of the node that an editor made it from; it is drawn at its host.
  position: t.optional(t.openObject()),
  layout: t.optional(t.openObject()),
});
export type Middleware = Static<typeof MiddlewareSchema>;

const WorkflowNodeSchema = t.object({
  ...nodeFields,
  role: t.optional(t.oneOf(nodeRoles)),
  position: t.object({ x: t.number(), y: t.number() }),
  layout: t.optionalObject({ width: t.optional(t.number()), height: t.optional(t.number()) }),
  middlewares: t.optional(t.list(MiddlewareSchema, 64)),
});
export type WorkflowNode = Static<typeof WorkflowNodeSchema>;

const edgeEndSchema = t.object({
  node: t.uuid(),
  port: t.id("A port key, or mw:<middleware id>:<input|output>:<key> at the host."),
});
const EdgeSchema = t.object({ id: t.id(), source: edgeEndSchema, target: edgeEndSchema });
export type Edge = Static<typeof EdgeSchema>;

export const WorkflowSchema = t.cyclic(
  {
    Workflow: t.object({
      id: t.uuid(),
      schemaVersion: t.string({ pattern: "^[0-9]{4}-[0-9]{2}$" }),
      metadata: t.object({
        name: t.name(),
        description: t.optional(t.text()),
        tags: t.optional(t.list(t.name(), 1_000)),
        environment: t.optional(t.name()),
        namespace: t.optional(t.name()),
        originId: t.optional(t.uuid()),
        ownerId: t.optional(t.id()),
        ownerName: t.optional(t.name()),
        createdBy: t.optional(t.name()),
        updatedBy: t.optional(t.name()),
      }),
      nodes: t.array(WorkflowNodeSchema, { minItems: 1, maxItems: limits.workflowNodesMax }),
      edges: t.list(EdgeSchema, limits.workflowEdgesMax),
      runtimes: t.optional(
        t.map(
          t.object(
            {
              workerHints: t.optional(
                t.object({ package: t.optional(t.id()), minVersion: t.optional(t.id()) }, { additionalProperties: true }),
              ),
            },
            { additionalProperties: true },
          ),
        ),
      ),
      schemaMode: t.optional(
        t.oneOf(schemaModes, "For every node whose policy does not name one; absent: as manifest and tenant say."),
      ),
      tags: t.optional(t.list(t.name(), 1_000)),
      previewImage: t.optional(t.string({ maxLength: limits.requestBytesMax })),
      subgraphs: t.optional(
        t.list(
          t.object({
            id: t.id(),
            definition: t.ref("Workflow"),
            metadata: t.optionalObject({
              label: t.optional(t.name()),
              description: t.optional(t.text()),
              referenceWorkflowId: t.optional(t.id()),
              referenceWorkflowName: t.optional(t.name()),
              ownerId: t.optional(t.id()),
              notes: t.optional(t.text()),
            }),
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
  unknownKeys: "keep",
});

/** What stands beside the fields of a workflow in requests and answers and is no part of it. */
const envelopeFields = ["allowUnknown", "revision", "latestVersion", "createdAt", "updatedAt", "asOf"] as const;

/** Reads a workflow, with fields that are not known, or a fault that names the field. */
export function readWorkflow(value: unknown): Workflow | Fault {
  if (isNestedTooDeep(value, limits.subgraphDepthMax)) return nestingFault();
  return workflowReader.read(withoutEnvelopeFields(value));
}

/** All invalid fields of a workflow, up to `max`. */
export function findWorkflowFaults(value: unknown, max: number): Fault[] {
  if (isNestedTooDeep(value, limits.subgraphDepthMax)) return [nestingFault()];
  return workflowReader.findFaults(withoutEnvelopeFields(value), max);
}

/** Fields of a workflow that nothing reads, up to `max`. They are kept for the program that wrote them. */
export function findUnknownWorkflowFields(workflow: Workflow, max: number): UnknownField[] {
  const found: UnknownField[] = [];
  for (const field of findUnknownFields(WorkflowSchema as unknown as SchemaNode, workflow)) if (found.push(field) >= max) break;
  return found;
}

function withoutEnvelopeFields(value: unknown): unknown {
  if (!isRecord(value) || !envelopeFields.some((key) => Object.hasOwn(value, key))) return value;
  const rest = { ...value };
  for (const key of envelopeFields) delete rest[key];
  return rest;
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
