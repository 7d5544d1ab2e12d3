// REST bodies about workers: their state and health, what they hold and can run, commands to them, and scaling figures.

import Type, { type Static } from "typebox";
import { limits } from "../../json/limits.ts";
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
} from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageOf } from "./body-parts.ts";

export const WorkerPackageSchema = Type.Object({
  name: idString(),
  version: idString(),
  status: oneOf(["installed", "installing", "uninstalling", "removed", "failed", "missing", "unknown"]),
});
export type WorkerPackage = Static<typeof WorkerPackageSchema>;

const LivenessSchema = oneOf(
  ["fresh", "warn", "degraded", "unhealthy"],
  "By missed heartbeat periods: none, one, two, three or more.",
);
export type Liveness = Static<typeof LivenessSchema>;

const workerFields = {
  id: idString("The worker's name; instanceId is its identity."),
  lastHeartbeatAt: instantString(),
  queues: listOf(nameString()),
  hostname: optional(nameString()),
  packages: optional(listOf(WorkerPackageSchema)),
  meta: optional(openObject()),
  status: optional(
    oneOf(
      ["online", "away", "lost", "enrolled"],
      "away: no session, and its lease lasts still; lost: the lease has ended too; enrolled: known over REST alone.",
    ),
  ),
  liveness: optional(LivenessSchema),
  connected: optional(Type.Boolean()),
  registered: optional(Type.Boolean()),
  draining: optional(Type.Boolean({ description: "It gets no new work; drainedBy says why." })),
  drainedBy: optional(listOf(oneOf(["operator", "strain"]), 2)),
  strain: optional(textString("What there is too much of, while memory or disk is above its threshold.")),
  saturated: optional(Type.Boolean({ description: "It has held as much as it takes for longer than its tenant's threshold." })),
  saturatedSince: optional(instantString()),
  tenant: optional(idString()),
  instanceId: optional(idString()),
  bootId: optional(idString()),
  version: optional(nameString()),
  capabilities: optional(
    Type.Object({
      concurrency: Type.Object({ maxParallel: integer(1), perNodeLimits: optional(mapOf(integer(1))) }),
      runtimes: listOf(nameString()),
      features: listOf(nameString()),
      pool: optional(idString()),
      tags: optional(mapOf(nameString())),
    }),
  ),
  payloadTypes: optional(listOf(nameString())),
  heartbeat: optional(
    Type.Object({
      healthy: Type.Boolean(),
      metrics: optional(
        Type.Object(
          {
            cpuPct: optional(Type.Number()),
            memPct: optional(Type.Number()),
            diskPct: optional(Type.Number()),
            inflight: optional(integer(0)),
            latencyMs: optional(integer(0)),
          },
          { additionalProperties: true },
        ),
      ),
      packages: optional(Type.Object({ drift: optional(Type.Boolean()) })),
    }),
  ),
};
export const WorkerSchema = Type.Object(workerFields);
export type Worker = Static<typeof WorkerSchema>;
export const WorkerListSchema = pageOf(WorkerSchema);
export type WorkerList = Static<typeof WorkerListSchema>;

export const WorkerDetailSchema = Type.Object({ ...workerFields, asOf: asOfPosition() });
export type WorkerDetail = Static<typeof WorkerDetailSchema>;

const WorkerAttemptSummarySchema = Type.Object({
  taskId: idString(),
  runId: idString(),
  nodeId: optional(idString()),
  nodeType: optional(nameString()),
  fence: integer(0),
  attempt: integer(0),
  pendingAck: Type.Boolean({ description: "The worker has not acknowledged the dispatch yet." }),
  since: optional(instantString()),
});
export type WorkerAttemptSummary = Static<typeof WorkerAttemptSummarySchema>;

const WorkerHandlerSchema = Type.Object({
  package: idString(),
  version: idString(),
  runtime: optional(nameString()),
  nodeType: optional(nameString("Absent where the worker sent no manifest of the package.")),
  capabilities: optional(listOf(nameString())),
});
export type WorkerHandler = Static<typeof WorkerHandlerSchema>;

export const WorkerDiagnosticsSchema = Type.Object({
  worker: WorkerSchema,
  session: Type.Object({
    phase: oneOf(["online", "away", "lost", "enrolled"]),
    dialect: optional(nameString()),
    epoch: integer(0, undefined, "Raised by every join."),
    replica: nameString("The scheduler that holds its socket, or held it last."),
    joinedAt: instantString(),
    leaseUntil: optional(instantString("After this its attempts are given to other workers unless it sends a heartbeat.")),
  }),
  liveness: Type.Object({
    level: LivenessSchema,
    silentMs: integer(0, undefined, "Since its last heartbeat."),
    heartbeatMs: integer(1, undefined, "How often one is expected."),
  }),
  attempts: listOf(WorkerAttemptSummarySchema),
  hasMoreAttempts: Type.Boolean(),
  handlers: listOf(WorkerHandlerSchema),
  resources: mapOf(Type.Number()),
  outbox: optional(integer(0, undefined, "Outcomes on its disk that no scheduler has acknowledged.")),
  vitals: optional(openObject("The numbers of its last heartbeat, as it sent them.")),
  asOf: asOfPosition(),
});
export type WorkerDiagnostics = Static<typeof WorkerDiagnosticsSchema>;

export const CommandRefSchema = Type.Object({ commandId: idString(), workerName: nameString(), acceptedAt: instantString() });
export type CommandRef = Static<typeof CommandRefSchema>;

export const WorkerKickRequestSchema = Type.Object({ reason: optional(Type.String({ maxLength: limits.nameCharsMax })) });
export type WorkerKickRequest = Static<typeof WorkerKickRequestSchema>;

export const ExtensionRequestSchema = Type.Object({
  workerId: idString("Instance id of the worker."),
  payload: openObject("Handed to the worker as it is."),
  corr: optional(idString("Id of the frame that this one answers.")),
});
export type ExtensionRequest = Static<typeof ExtensionRequestSchema>;

export const ExtensionRefSchema = Type.Object({
  id: idString("Id of the frame; a worker that sees one twice has it twice."),
  workerId: idString(),
  type: idString(),
  acceptedAt: instantString(),
});
export type ExtensionRef = Static<typeof ExtensionRefSchema>;

/** One frame of a worker, as the events of an extension carry it. */
export const ExtensionFrameSchema = Type.Object({
  id: idString("Of the frame: after a reset of the worker's session the same one may come again."),
  type: idString(),
  corr: optional(idString()),
  workerId: idString(),
  at: instantString(),
  payload: openObject(),
});
export type ExtensionFrame = Static<typeof ExtensionFrameSchema>;

/** Of the caller's tenant. */
export const ScalingSchema = Type.Object({
  queued: integer(0, undefined, "Tasks that could run now and have no worker."),
  running: integer(0, undefined, "Tasks that a worker holds."),
  isPartial: Type.Boolean({ description: "Not every open task was counted: queued and running are at least this." }),
  slots: integer(0, undefined, "What the workers that get work take together."),
  free: integer(0, undefined, "slots - running, at least 0: what draining and absent workers hold counts against it."),
  workers: Type.Object(
    { online: integer(0), away: integer(0), lost: integer(0), saturated: integer(0), draining: integer(0) },
    { description: "Saturated and draining ones are online too." },
  ),
  wantedSlots: integer(0, undefined, "queued + running."),
  asOf: asOfPosition(),
});
export type Scaling = Static<typeof ScalingSchema>;

/** The body of POST /api/v1/workers/{workerIdParam}/kick. */
export const readWorkerKickRequest = createBodyReader(WorkerKickRequestSchema);
/** The body of POST /api/v1/extensions/{type}. */
export const readExtensionRequest = createBodyReader(ExtensionRequestSchema);
