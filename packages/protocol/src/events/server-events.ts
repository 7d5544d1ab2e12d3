// Server-sent events: the envelope and what each type of event carries. Events without an id are volatile: they are not in the log.

import type { Static, TProperties } from "typebox";
import { ResultErrorSchema, WorkflowNodeStateSchema } from "../definitions/workflow.ts";
import {
  NodeStatusSchema,
  NodeWarningSchema,
  RunNodeStatusSchema,
  RunSchema,
  RunStatusSchema,
} from "../rest/bodies/run-bodies.ts";
import * as t from "../schema/field-types.ts";

const nodeFields = {
  runId: t.id(),
  nodeId: t.id(),
  taskId: t.optional(t.id("The task, if the node runs more than once.")),
  hostNodeId: t.optional(t.id("Of a middleware: the node that it wraps.")),
  chainIndex: t.optional(t.integer(0)),
};
const artifactFields = {
  runId: t.id(),
  artifactId: t.id(),
  nodeId: t.optional(t.id()),
  url: t.optional(t.string()),
  expiresAt: t.optional(t.instant()),
  sizeBytes: t.optional(t.integer(0)),
};

/** `data` of every type of event; `kind` repeats the type, so that the data identifies itself. */
const eventDataSchema = <const K extends string, P extends TProperties>(kind: K, properties: P) =>
  t.object({ kind: t.literal(kind), ...properties });

export const eventDataSchemas = {
  "run.status": eventDataSchema("run.status", {
    runId: t.id(),
    status: RunStatusSchema,
    startedAt: t.optional(t.instant()),
    finishedAt: t.optional(t.instant()),
    reason: t.optional(t.text()),
  }),
  "run.snapshot": eventDataSchema("run.snapshot", {
    run: RunSchema,
    nodes: t.list(RunNodeStatusSchema),
    asOf: t.optional(t.integer(0, "Position of the log at which it is true; it includes all events up to there.")),
  }),
  "run.metrics": eventDataSchema("run.metrics", {
    runId: t.id(),
    metric: t.name(),
    value: t.number(),
    tags: t.optional(t.openObject()),
  }),
  "node.state": eventDataSchema("node.state", { ...nodeFields, state: WorkflowNodeStateSchema }),
  "node.status": eventDataSchema("node.status", {
    ...nodeFields,
    status: t.union([NodeStatusSchema, t.oneOf(["dispatching", "completed"])]),
    workerName: t.optional(t.name()),
    seq: t.optional(t.integer(0, "Of its dispatch, as in the node's detail; absent while it waits for one.")),
    ackPending: t.optional(t.boolean()),
  }),
  "node.error": eventDataSchema("node.error", { ...nodeFields, error: ResultErrorSchema }),
  "node.warning": eventDataSchema("node.warning", { ...nodeFields, warning: NodeWarningSchema }),
  "node.result.snapshot": eventDataSchema("node.result.snapshot", {
    ...nodeFields,
    revision: t.integer(0),
    format: t.literal("json"),
    content: t.openObject(),
    artifacts: t.list(
      t.openObject("As in the frame of the result: resource_id, worker_name, type, size_bytes, inline, expires_at, metadata."),
    ),
    summary: t.optional(t.text()),
    complete: t.boolean(),
  }),
  "node.result.delta": eventDataSchema("node.result.delta", {
    ...nodeFields,
    revision: t.integer(0),
    sequence: t.integer(0),
    operation: t.oneOf(["append", "replace", "remove", "patch"]),
    path: t.optional(t.string({ description: "JSON pointer relative to the node's results." })),
    payload: t.optional(t.openObject()),
    patches: t.optional(
      t.list(t.object({ op: t.name(), path: t.string(), from: t.optional(t.string()), value: t.optional(t.anyJson()) })),
    ),
    chunkMeta: t.optional(t.openObject()),
    terminal: t.boolean(),
  }),
  "artifact.ready": eventDataSchema("artifact.ready", artifactFields),
  "artifact.removed": eventDataSchema("artifact.removed", { ...artifactFields, reason: t.optional(t.name()) }),
  "worker.heartbeat": eventDataSchema("worker.heartbeat", {
    workerName: t.name(),
    at: t.instant(),
    queues: t.list(t.name()),
    instanceId: t.id(),
    hostname: t.name(),
    version: t.name(),
    connected: t.boolean(),
    registered: t.boolean(),
    heartbeat: t.optional(t.openObject()),
  }),
  "worker.package": eventDataSchema("worker.package", {
    workerName: t.name(),
    package: t.id(),
    version: t.id(),
    status: t.name(),
    message: t.optional(t.text()),
  }),
  "wire.frame": eventDataSchema("wire.frame", {
    workerName: t.name(),
    session: t.optional(t.id("Absent before there is one.")),
    direction: t.oneOf(["in", "out"]),
    type: t.id("The v2 name, whatever dialect the worker uses."),
    id: t.id(),
    seq: t.optional(t.integer(0)),
    corr: t.optional(t.id()),
    ack: t.optionalObject({
      request: t.optional(t.boolean()),
      for: t.optional(t.id("The frame that is acknowledged.")),
      seq: t.optional(t.anyInteger({ description: "All frames up to this number; below 0: none." })),
      ok: t.optional(t.boolean()),
    }),
    bytes: t.integer(0),
    run: t.optional(t.id()),
    task: t.optional(t.id()),
    tasks: t.optional(t.list(t.name("Of a batch: task#fence."))),
    code: t.optional(t.name()),
    skipped: t.optional(t.integer(1, "Frames skipped since the last reported one.")),
  }),
  "command.ack": eventDataSchema("command.ack", { commandId: t.id(), workerName: t.name(), receivedAt: t.instant() }),
  "command.error": eventDataSchema("command.error", { commandId: t.id(), workerName: t.name(), error: ResultErrorSchema }),
} as const;

export type EventType = keyof typeof eventDataSchemas;
export type EventData<K extends EventType = EventType> = { [T in K]: Static<(typeof eventDataSchemas)[T]> }[K];

const eventTypes = Object.keys(eventDataSchemas) as EventType[];

export const EventSchema = t.object({
  version: t.literal("v1"),
  id: t.optional(t.id("Same as the id line of the stream; what Last-Event-ID names. A volatile event has none.")),
  type: t.oneOf(eventTypes),
  occurredAt: t.instant(),
  scope: t.object({
    tenant: t.id(),
    runId: t.optional(t.id()),
    workerName: t.optional(t.name()),
    clientSessionId: t.optional(t.id()),
    clientInstanceId: t.optional(t.id()),
  }),
  replayed: t.optional(t.boolean()),
  correlationId: t.optional(t.id()),
  meta: t.optional(
    t.object(
      {
        volatile: t.optional(
          t.boolean({ description: "True: it is not in the log, does not move the cursor and is never replayed." }),
        ),
      },
      { additionalProperties: true },
    ),
  ),
  data: t.union(eventTypes.map((type) => eventDataSchemas[type])),
});

export type ServerEvent<K extends EventType = EventType> = {
  [T in K]: Omit<Static<typeof EventSchema>, "type" | "data"> & { type: T; data: Static<(typeof eventDataSchemas)[T]> };
}[K];
