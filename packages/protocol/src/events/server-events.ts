// Server-sent events: the envelope and what each type of event carries. Absent fields are left out.
// Events without an id are volatile: they are not in the log.

import Type, { type Static, type TProperties } from "typebox";
import { ResultErrorSchema, WorkflowNodeStateSchema } from "../definitions/workflow.ts";
import { NodeStatusSchema, RunNodeStatusSchema, RunSchema, RunStatusSchema } from "../rest/bodies/run-bodies.ts";
import {
  anyJson,
  idString,
  instantString,
  integer,
  listOf,
  nameString,
  oneOf,
  openObject,
  optional,
  textString,
} from "../schema/field-types.ts";

const nodeFields = {
  runId: idString(),
  nodeId: idString(),
  taskId: optional(idString("The task, if the node runs more than once.")),
  hostNodeId: optional(idString("Of a middleware: the node that it wraps.")),
  chainIndex: optional(integer(0)),
};
const artifactFields = {
  runId: idString(),
  artifactId: idString(),
  nodeId: optional(idString()),
  url: optional(Type.String()),
  expiresAt: optional(instantString()),
  sizeBytes: optional(integer(0)),
};

/** `data` of every type of event; `kind` repeats the type, so that the data identifies itself. */
const eventDataSchema = <const K extends string, P extends TProperties>(kind: K, properties: P) =>
  Type.Object({ kind: Type.Literal(kind), ...properties });

export const eventDataSchemas = {
  "run.status": eventDataSchema("run.status", {
    runId: idString(),
    status: RunStatusSchema,
    startedAt: optional(instantString()),
    finishedAt: optional(instantString()),
    reason: optional(textString()),
  }),
  "run.snapshot": eventDataSchema("run.snapshot", {
    run: RunSchema,
    nodes: listOf(RunNodeStatusSchema),
    asOf: optional(integer(0, undefined, "Position of the log at which it is true; it includes all events up to there.")),
  }),
  "run.metrics": eventDataSchema("run.metrics", {
    runId: idString(),
    metric: nameString(),
    value: Type.Number(),
    tags: optional(openObject()),
  }),
  "node.state": eventDataSchema("node.state", { ...nodeFields, state: WorkflowNodeStateSchema }),
  "node.status": eventDataSchema("node.status", {
    ...nodeFields,
    status: Type.Union([NodeStatusSchema, oneOf(["dispatching", "completed"])]),
    workerName: optional(nameString()),
    seq: optional(integer(0, undefined, "Of its dispatch, as in the node's detail; absent while it waits for one.")),
    ackPending: optional(Type.Boolean()),
  }),
  "node.error": eventDataSchema("node.error", { ...nodeFields, error: ResultErrorSchema }),
  "node.result.snapshot": eventDataSchema("node.result.snapshot", {
    ...nodeFields,
    revision: integer(0),
    format: Type.Literal("json"),
    content: openObject(),
    artifacts: listOf(
      openObject("As in the frame of the result: resource_id, worker_name, type, size_bytes, inline, expires_at, metadata."),
    ),
    summary: optional(textString()),
    complete: Type.Boolean(),
  }),
  "node.result.delta": eventDataSchema("node.result.delta", {
    ...nodeFields,
    revision: integer(0),
    sequence: integer(0),
    operation: oneOf(["append", "replace", "remove", "patch"]),
    path: optional(Type.String({ description: "JSON pointer relative to the node's results." })),
    payload: optional(openObject()),
    patches: optional(
      listOf(Type.Object({ op: nameString(), path: Type.String(), from: optional(Type.String()), value: optional(anyJson()) })),
    ),
    chunkMeta: optional(openObject()),
    terminal: Type.Boolean(),
  }),
  "artifact.ready": eventDataSchema("artifact.ready", artifactFields),
  "artifact.removed": eventDataSchema("artifact.removed", { ...artifactFields, reason: optional(nameString()) }),
  "worker.heartbeat": eventDataSchema("worker.heartbeat", {
    workerName: nameString(),
    at: instantString(),
    queues: listOf(nameString()),
    instanceId: idString(),
    hostname: nameString(),
    version: nameString(),
    connected: Type.Boolean(),
    registered: Type.Boolean(),
    heartbeat: optional(openObject()),
  }),
  "worker.package": eventDataSchema("worker.package", {
    workerName: nameString(),
    package: idString(),
    version: idString(),
    status: nameString(),
    message: optional(textString()),
  }),
  "wire.frame": eventDataSchema("wire.frame", {
    workerName: nameString(),
    session: optional(idString("Absent before there is one.")),
    direction: oneOf(["in", "out"]),
    type: idString("The v2 name, whatever dialect the worker uses."),
    id: idString(),
    seq: optional(integer(0)),
    corr: optional(idString()),
    ack: optional(
      Type.Object({
        request: optional(Type.Boolean()),
        for: optional(idString("The frame that is acknowledged.")),
        seq: optional(Type.Integer({ description: "All frames up to this number; below 0: none." })),
        ok: optional(Type.Boolean()),
      }),
    ),
    bytes: integer(0),
    run: optional(idString()),
    task: optional(idString()),
    tasks: optional(listOf(nameString("Of a batch: task#fence."))),
    code: optional(nameString()),
    skipped: optional(integer(1, undefined, "Frames skipped since the last reported one.")),
  }),
  "command.ack": eventDataSchema("command.ack", { commandId: idString(), workerName: nameString(), receivedAt: instantString() }),
  "command.error": eventDataSchema("command.error", {
    commandId: idString(),
    workerName: nameString(),
    error: ResultErrorSchema,
  }),
} as const;

export type EventType = keyof typeof eventDataSchemas;
export type EventData<K extends EventType = EventType> = { [T in K]: Static<(typeof eventDataSchemas)[T]> }[K];

const eventTypes = Object.keys(eventDataSchemas) as EventType[];

export const EventSchema = Type.Object({
  version: Type.Literal("v1"),
  id: optional(idString("Same as the id line of the stream; what Last-Event-ID names. A volatile event has none.")),
  type: oneOf(eventTypes),
  occurredAt: instantString(),
  scope: Type.Object({
    tenant: idString(),
    runId: optional(idString()),
    workerName: optional(nameString()),
    clientSessionId: optional(idString()),
    clientInstanceId: optional(idString()),
  }),
  replayed: optional(Type.Boolean()),
  correlationId: optional(idString()),
  meta: optional(
    Type.Object(
      {
        volatile: optional(
          Type.Boolean({ description: "True: it is not in the log, does not move the cursor and is never replayed." }),
        ),
      },
      { additionalProperties: true },
    ),
  ),
  data: Type.Union(eventTypes.map((type) => eventDataSchemas[type])),
});

/** One event of the stream. */
export type ServerEvent<K extends EventType = EventType> = {
  [T in K]: Omit<Static<typeof EventSchema>, "type" | "data"> & { type: T; data: Static<(typeof eventDataSchemas)[T]> };
}[K];
