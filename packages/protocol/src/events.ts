// Server-sent events: the envelope and what each type of event carries. Absent fields are left out.
// Events without an id are volatile: they are not in the log. How a stream is resumed, filtered and kept alive is the REST door's business.

import Type, { type Static, type TProperties } from "typebox";
import { NodeStatusSchema, RunNodeStatusSchema, RunSchema, RunStatusSchema } from "./rest.ts";
import { bag, id, instant, int, json, list, name, oneOf, optional, text } from "./words.ts";
import { ResultErrorSchema, WorkflowNodeStateSchema } from "./workflow.ts";

const node = {
  runId: id(),
  nodeId: id(),
  taskId: optional(id("Which of several, where a node runs more than once.")),
  hostNodeId: optional(id("Of a middleware: the node around which it is.")),
  chainIndex: optional(int(0)),
};
const artifact = {
  runId: id(),
  artifactId: id(),
  nodeId: optional(id()),
  url: optional(Type.String()),
  expiresAt: optional(instant()),
  sizeBytes: optional(int(0)),
};

/** `data` of every type of event; `kind` repeats the type, so that data alone can be told apart. */
const data = <const K extends string, P extends TProperties>(kind: K, properties: P) =>
  Type.Object({ kind: Type.Literal(kind), ...properties });

export const eventData = {
  "run.status": data("run.status", {
    runId: id(),
    status: RunStatusSchema,
    startedAt: optional(instant()),
    finishedAt: optional(instant()),
    reason: optional(text()),
  }),
  "run.snapshot": data("run.snapshot", {
    run: RunSchema,
    nodes: list(RunNodeStatusSchema),
    asOf: optional(int(0, undefined, "Position of the log at which it is true: events up to it change nothing more.")),
  }),
  "run.metrics": data("run.metrics", { runId: id(), metric: name(), value: Type.Number(), tags: optional(bag()) }),
  "node.state": data("node.state", { ...node, state: WorkflowNodeStateSchema }),
  "node.status": data("node.status", {
    ...node,
    status: Type.Union([NodeStatusSchema, oneOf(["dispatching", "completed"])]),
    workerName: optional(name()),
    seq: optional(int(0, undefined, "Of its dispatch, as in the node's detail; absent while it waits for one.")),
    ackPending: optional(Type.Boolean()),
  }),
  "node.error": data("node.error", { ...node, error: ResultErrorSchema }),
  "node.result.snapshot": data("node.result.snapshot", {
    ...node,
    revision: int(0),
    format: Type.Literal("json"),
    content: bag(),
    artifacts: list(
      bag("As in the frame of the result: resource_id, worker_name, type, size_bytes, inline, expires_at, metadata."),
    ),
    summary: optional(text()),
    complete: Type.Boolean(),
  }),
  "node.result.delta": data("node.result.delta", {
    ...node,
    revision: int(0),
    sequence: int(0),
    operation: oneOf(["append", "replace", "remove", "patch"]),
    path: optional(Type.String({ description: "JSON pointer relative to the node's results." })),
    payload: optional(bag()),
    patches: optional(
      list(Type.Object({ op: name(), path: Type.String(), from: optional(Type.String()), value: optional(json()) })),
    ),
    chunkMeta: optional(bag()),
    terminal: Type.Boolean(),
  }),
  "artifact.ready": data("artifact.ready", artifact),
  "artifact.removed": data("artifact.removed", { ...artifact, reason: optional(name()) }),
  "worker.heartbeat": data("worker.heartbeat", {
    workerName: name(),
    at: instant(),
    queues: list(name()),
    instanceId: id(),
    hostname: name(),
    version: name(),
    connected: Type.Boolean(),
    registered: Type.Boolean(),
    heartbeat: optional(bag()),
  }),
  "worker.package": data("worker.package", {
    workerName: name(),
    package: id(),
    version: id(),
    status: name(),
    message: optional(text()),
  }),
  "wire.frame": data("wire.frame", {
    workerName: name(),
    session: optional(id("Absent before there is one.")),
    direction: oneOf(["in", "out"]),
    type: id("As the present protocol calls it, whichever the worker speaks."),
    id: id(),
    seq: optional(int(0)),
    corr: optional(id()),
    ack: optional(
      Type.Object({
        request: optional(Type.Boolean()),
        for: optional(id("The frame that is acknowledged.")),
        seq: optional(Type.Integer({ description: "All frames up to this number are; below 0 none." })),
        ok: optional(Type.Boolean()),
      }),
    ),
    bytes: int(0),
    run: optional(id()),
    task: optional(id()),
    tasks: optional(list(name("Of a batch: task#fence."))),
    code: optional(name()),
    skipped: optional(int(1, undefined, "How many frames were left out since the last one that was told.")),
  }),
  "command.ack": data("command.ack", { commandId: id(), workerName: name(), receivedAt: instant() }),
  "command.error": data("command.error", { commandId: id(), workerName: name(), error: ResultErrorSchema }),
} as const;

export type EventType = keyof typeof eventData;
export type EventData<K extends EventType = EventType> = { [T in K]: Static<(typeof eventData)[T]> }[K];

const eventTypes = Object.keys(eventData) as EventType[];

export const EventSchema = Type.Object({
  version: Type.Literal("v1"),
  id: optional(id("Same as the id line of the stream; what Last-Event-ID names. A volatile event has none.")),
  type: oneOf(eventTypes),
  occurredAt: instant(),
  scope: Type.Object({
    tenant: id(),
    runId: optional(id()),
    workerName: optional(name()),
    clientSessionId: optional(id()),
    clientInstanceId: optional(id()),
  }),
  replayed: optional(Type.Boolean()),
  correlationId: optional(id()),
  meta: optional(
    Type.Object(
      {
        volatile: optional(Type.Boolean({ description: "True: it is not in the log, moves no cursor and is never replayed." })),
      },
      { additionalProperties: true },
    ),
  ),
  data: Type.Union(eventTypes.map((type) => eventData[type])),
});

/** One event of the stream. */
export type ServerEvent<K extends EventType = EventType> = {
  [T in K]: Omit<Static<typeof EventSchema>, "type" | "data"> & { type: T; data: Static<(typeof eventData)[T]> };
}[K];
