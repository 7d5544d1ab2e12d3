// Bodies of the REST API about workers: who is there and how well, what one of them holds and can do, words to it, and the wish for more of them.

import Type, { type Static } from "typebox";
import type { Fault } from "./fault.ts";
import { limits } from "./limits.ts";
import { page } from "./rest.ts";
import { shape } from "./shape.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional, text } from "./words.ts";

const WorkerPackageSchema = Type.Object({
  name: id(),
  version: id(),
  status: oneOf(["installed", "installing", "uninstalling", "removed", "failed", "missing", "unknown"]),
});
export type WorkerPackage = Static<typeof WorkerPackageSchema>;

const LivenessSchema = oneOf(
  ["fresh", "warn", "degraded", "unhealthy"],
  "By heartbeat periods without a word: none, one, two, three or more.",
);
export type Liveness = Static<typeof LivenessSchema>;

const worker = {
  id: id("The worker's name; instanceId is its identity."),
  lastHeartbeatAt: instant(),
  queues: list(name()),
  hostname: optional(name()),
  packages: optional(list(WorkerPackageSchema)),
  meta: optional(bag()),
  status: optional(
    oneOf(
      ["online", "away", "lost", "enrolled"],
      "away: no session, and its lease lasts still; lost: the lease has ended too; enrolled: known over REST alone.",
    ),
  ),
  liveness: optional(LivenessSchema),
  connected: optional(Type.Boolean()),
  registered: optional(Type.Boolean()),
  draining: optional(Type.Boolean({ description: "It gets nothing new; drainedBy says why." })),
  drainedBy: optional(list(oneOf(["operator", "strain"]), 2)),
  strain: optional(text("What there is too much of, while memory or disk is above its threshold.")),
  saturated: optional(Type.Boolean({ description: "It has held as much as it takes for longer than its tenant's threshold." })),
  saturatedSince: optional(instant()),
  tenant: optional(id()),
  instanceId: optional(id()),
  bootId: optional(id()),
  version: optional(name()),
  capabilities: optional(
    Type.Object({
      concurrency: Type.Object({ maxParallel: int(1), perNodeLimits: optional(map(int(1))) }),
      runtimes: list(name()),
      features: list(name()),
      pool: optional(id()),
      tags: optional(map(name())),
    }),
  ),
  payloadTypes: optional(list(name())),
  heartbeat: optional(
    Type.Object({
      healthy: Type.Boolean(),
      metrics: optional(
        Type.Object(
          {
            cpuPct: optional(Type.Number()),
            memPct: optional(Type.Number()),
            diskPct: optional(Type.Number()),
            inflight: optional(int(0)),
            latencyMs: optional(int(0)),
          },
          { additionalProperties: true },
        ),
      ),
      packages: optional(Type.Object({ drift: optional(Type.Boolean()) })),
    }),
  ),
};
export const WorkerSchema = Type.Object(worker);
export type Worker = Static<typeof WorkerSchema>;
export const WorkerListSchema = page(WorkerSchema);
export type WorkerList = Static<typeof WorkerListSchema>;

const asOf = int(0, undefined, "Position of the tenant's log that this is true at.");
export const WorkerDetailSchema = Type.Object({ ...worker, asOf });
export type WorkerDetail = Static<typeof WorkerDetailSchema>;

const HeldAttemptSchema = Type.Object({
  taskId: id(),
  runId: id(),
  nodeId: optional(id()),
  nodeType: optional(name()),
  fence: int(0),
  attempt: int(0),
  pendingAck: Type.Boolean({ description: "The worker has not acknowledged the dispatch yet." }),
  since: optional(instant()),
});
export type HeldAttempt = Static<typeof HeldAttemptSchema>;

const WorkerHandlerSchema = Type.Object({
  package: id(),
  version: id(),
  runtime: optional(name()),
  nodeType: optional(name("Absent where the worker sent no manifest of the package.")),
  capabilities: optional(list(name())),
});
export type WorkerHandler = Static<typeof WorkerHandlerSchema>;

export const WorkerDiagnosticsSchema = Type.Object({
  worker: WorkerSchema,
  session: Type.Object({
    phase: oneOf(["online", "away", "lost", "enrolled"]),
    dialect: optional(name()),
    epoch: int(0, undefined, "Raised by every join."),
    replica: name("The scheduler that holds its socket, or held it last."),
    joinedAt: instant(),
    leaseUntil: optional(instant("What it holds is given to others after this, unless it is heard.")),
  }),
  liveness: Type.Object({
    level: LivenessSchema,
    silentMs: int(0, undefined, "Since its last heartbeat."),
    heartbeatMs: int(1, undefined, "How often one is expected."),
  }),
  attempts: list(HeldAttemptSchema),
  hasMoreAttempts: Type.Boolean(),
  handlers: list(WorkerHandlerSchema),
  resources: map(Type.Number()),
  outbox: optional(int(0, undefined, "Outcomes on its disk that no scheduler has acknowledged.")),
  vitals: optional(bag("The numbers of its last heartbeat, as it sent them.")),
  asOf,
});
export type WorkerDiagnostics = Static<typeof WorkerDiagnosticsSchema>;

export const CommandRefSchema = Type.Object({ commandId: id(), workerName: name(), acceptedAt: instant() });
export type CommandRef = Static<typeof CommandRefSchema>;

export const WorkerKickRequestSchema = Type.Object({ reason: optional(Type.String({ maxLength: limits.nameCharsMax })) });
export type WorkerKickRequest = Static<typeof WorkerKickRequestSchema>;

export const ExtensionRequestSchema = Type.Object({
  workerId: id("Instance id of the worker."),
  payload: bag("Handed to the worker as it is."),
  corr: optional(id("Id of the frame that this one answers.")),
});
export type ExtensionRequest = Static<typeof ExtensionRequestSchema>;

export const ExtensionRefSchema = Type.Object({
  id: id("Id of the frame; a worker that sees one twice has it twice."),
  workerId: id(),
  type: id(),
  acceptedAt: instant(),
});
export type ExtensionRef = Static<typeof ExtensionRefSchema>;

/** One frame of a worker, as the events of an extension carry it. */
const ExtensionFrameSchema = Type.Object({
  id: id("Of the frame: after a reset of the worker's session the same one may come again."),
  type: id(),
  corr: optional(id()),
  workerId: id(),
  at: instant(),
  payload: bag(),
});
export type ExtensionFrame = Static<typeof ExtensionFrameSchema>;

/** Of the caller's tenant. */
export const ScalingSchema = Type.Object({
  queued: int(0, undefined, "Tasks that could run now and have no worker."),
  running: int(0, undefined, "Tasks that a worker holds."),
  isPartial: Type.Boolean({ description: "Not every open task was counted: queued and running are at least this." }),
  slots: int(0, undefined, "What the workers that get work take together."),
  free: int(0, undefined, "slots - running, at least 0: what draining and absent workers hold counts against it."),
  workers: Type.Object(
    { online: int(0), away: int(0), lost: int(0), saturated: int(0), draining: int(0) },
    { description: "Saturated and draining ones are online too." },
  ),
  wantedSlots: int(0, undefined, "queued + running."),
  asOf,
});
export type Scaling = Static<typeof ScalingSchema>;

/** By the names they have in the OpenAPI document. */
export const workerSchemas = {
  WorkerPackage: WorkerPackageSchema,
  Worker: WorkerSchema,
  WorkerList: WorkerListSchema,
  WorkerDetail: WorkerDetailSchema,
  WorkerDiagnostics: WorkerDiagnosticsSchema,
  CommandRef: CommandRefSchema,
  WorkerKickRequest: WorkerKickRequestSchema,
  ExtensionRequest: ExtensionRequestSchema,
  ExtensionRef: ExtensionRefSchema,
  ExtensionFrame: ExtensionFrameSchema,
  Scaling: ScalingSchema,
} as const;

const reading = { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" } as const;
const kickShape = shape(WorkerKickRequestSchema, reading);
const extensionShape = shape(ExtensionRequestSchema, reading);

/** The body of POST /api/v1/workers/{workerId}/kick. */
export const readWorkerKickRequest = (value: unknown): WorkerKickRequest | Fault => kickShape.read(value);
/** The body of POST /api/v1/extensions/{type}. */
export const readExtensionRequest = (value: unknown): ExtensionRequest | Fault => extensionShape.read(value);
