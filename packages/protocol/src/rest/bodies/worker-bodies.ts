// REST bodies about workers: their state and health, what they hold and can run, commands to them, and scaling figures.

import type { Static } from "typebox";
import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageOf } from "./body-parts.ts";
import { ManifestHoldersSchema } from "./catalog-bodies.ts";

export const WorkerPackageSchema = t.object({
  name: t.id(),
  version: t.id(),
  status: t.oneOf(["installed", "installing", "uninstalling", "removed", "failed", "missing", "unknown"]),
  manifest: t.optional(t.id("Digest of the manifest that it announced, where other workers announced another one.")),
  otherManifests: t.optional(t.list(ManifestHoldersSchema)),
});
export type WorkerPackage = Static<typeof WorkerPackageSchema>;

const LivenessSchema = t.oneOf(
  ["fresh", "warn", "degraded", "unhealthy"],
  "By missed heartbeat periods: none, one, two, three or more.",
);
export type Liveness = Static<typeof LivenessSchema>;

const workerFields = {
  id: t.id("The worker's name; instanceId is its identity."),
  lastHeartbeatAt: t.instant(),
  queues: t.list(t.name()),
  hostname: t.optional(t.name()),
  packages: t.optional(t.list(WorkerPackageSchema)),
  meta: t.optional(t.openObject()),
  status: t.optional(
    t.oneOf(
      ["online", "away", "lost", "enrolled", "left"],
      "away: no session, and its lease lasts still; lost: the lease has ended too; left: it has finished its work and closed its session by itself; enrolled: known over REST alone.",
    ),
  ),
  liveness: t.optional(LivenessSchema),
  connected: t.optional(t.boolean()),
  registered: t.optional(t.boolean()),
  draining: t.optional(t.boolean({ description: "It gets no new work; drainedBy says why." })),
  drainedBy: t.optional(t.list(t.oneOf(["operator", "strain"]), 2)),
  strain: t.optional(t.text("What there is too much of, while memory or disk is above its threshold.")),
  saturated: t.optional(t.boolean({ description: "It has held as much as it takes for longer than its tenant's threshold." })),
  saturatedSince: t.optional(t.instant()),
  tenant: t.optional(t.id()),
  instanceId: t.optional(t.id()),
  bootId: t.optional(t.id()),
  version: t.optional(t.name()),
  capabilities: t.optionalObject({
    concurrency: t.object({ maxParallel: t.integer(1), perNodeLimits: t.optional(t.map(t.integer(1))) }),
    runtimes: t.list(t.name()),
    features: t.list(t.name()),
    pool: t.optional(t.id()),
    tags: t.optional(t.map(t.name())),
  }),
  payloadTypes: t.optional(t.list(t.name())),
  heartbeat: t.optionalObject({
    healthy: t.boolean(),
    metrics: t.optional(
      t.object(
        {
          cpuPct: t.optional(t.number()),
          memPct: t.optional(t.number()),
          diskPct: t.optional(t.number()),
          inflight: t.optional(t.integer(0)),
          latencyMs: t.optional(t.integer(0)),
        },
        { additionalProperties: true },
      ),
    ),
    packages: t.optionalObject({ drift: t.optional(t.boolean()) }),
  }),
};
export const WorkerSchema = t.object(workerFields);
export type Worker = Static<typeof WorkerSchema>;
export const WorkerListSchema = pageOf(WorkerSchema);
export type WorkerList = Static<typeof WorkerListSchema>;

export const WorkerDetailSchema = t.object({ ...workerFields, asOf: asOfPosition() });
export type WorkerDetail = Static<typeof WorkerDetailSchema>;

const WorkerAttemptSummarySchema = t.object({
  taskId: t.id(),
  runId: t.id(),
  nodeId: t.optional(t.id()),
  nodeType: t.optional(t.name()),
  fence: t.integer(0),
  attempt: t.integer(0),
  pendingAck: t.boolean({ description: "The worker has not acknowledged the dispatch yet." }),
  since: t.optional(t.instant()),
});
export type WorkerAttemptSummary = Static<typeof WorkerAttemptSummarySchema>;

const WorkerHandlerSchema = t.object({
  package: t.id(),
  version: t.id(),
  runtime: t.optional(t.name()),
  nodeType: t.optional(t.name("Absent where the worker sent no manifest of the package.")),
  capabilities: t.optional(t.list(t.name())),
});
export type WorkerHandler = Static<typeof WorkerHandlerSchema>;

export const WorkerDiagnosticsSchema = t.object({
  worker: WorkerSchema,
  session: t.object({
    phase: t.oneOf(["online", "away", "lost", "enrolled", "left"]),
    dialect: t.optional(t.name()),
    epoch: t.integer(0, "Raised by every join."),
    replica: t.name("The scheduler that holds its socket, or held it last."),
    joinedAt: t.instant(),
    leaseUntil: t.optional(t.instant("After this its attempts are given to other workers unless it sends a heartbeat.")),
  }),
  liveness: t.object({
    level: LivenessSchema,
    silentMs: t.integer(0, "Since its last heartbeat."),
    heartbeatMs: t.integer(1, "How often one is expected."),
  }),
  attempts: t.list(WorkerAttemptSummarySchema),
  hasMoreAttempts: t.boolean(),
  handlers: t.list(WorkerHandlerSchema),
  resources: t.map(t.number()),
  outbox: t.optional(t.integer(0, "Outcomes on its disk that no scheduler has acknowledged.")),
  vitals: t.optional(t.openObject("The numbers of its last heartbeat, as it sent them.")),
  asOf: asOfPosition(),
});
export type WorkerDiagnostics = Static<typeof WorkerDiagnosticsSchema>;

export const CommandRefSchema = t.object({ commandId: t.id(), workerName: t.name(), acceptedAt: t.instant() });
export type CommandRef = Static<typeof CommandRefSchema>;

export const WorkerKickRequestSchema = t.object({ reason: t.optional(t.string({ maxLength: limits.nameCharsMax })) });
export type WorkerKickRequest = Static<typeof WorkerKickRequestSchema>;

export const ExtensionRequestSchema = t.object({
  workerId: t.id("Instance id of the worker."),
  payload: t.openObject("Handed to the worker as it is."),
  corr: t.optional(t.id("Id of the frame that this one answers.")),
});
export type ExtensionRequest = Static<typeof ExtensionRequestSchema>;

export const ExtensionRefSchema = t.object({
  id: t.id("Id of the frame; a worker that sees one twice has it twice."),
  workerId: t.id(),
  type: t.id(),
  acceptedAt: t.instant(),
});
export type ExtensionRef = Static<typeof ExtensionRefSchema>;

/** One frame of a worker, as the events of an extension carry it. */
export const ExtensionFrameSchema = t.object({
  id: t.id("Of the frame: after a reset of the worker's session the same one may come again."),
  type: t.id(),
  corr: t.optional(t.id()),
  workerId: t.id(),
  at: t.instant(),
  payload: t.openObject(),
});
export type ExtensionFrame = Static<typeof ExtensionFrameSchema>;

/** Of the caller's tenant. */
export const ScalingSchema = t.object({
  queued: t.integer(0, "Tasks that could run now and have no worker."),
  running: t.integer(0, "Tasks that a worker holds."),
  isPartial: t.boolean({ description: "Not every open task was counted: queued and running are at least this." }),
  slots: t.integer(0, "What the workers that get work take together."),
  free: t.integer(0, "slots - running, at least 0: what draining and absent workers hold counts against it."),
  workers: t.object(
    {
      online: t.integer(0),
      away: t.integer(0),
      lost: t.integer(0),
      left: t.integer(0),
      saturated: t.integer(0),
      draining: t.integer(0),
    },
    { description: "Saturated and draining ones are online too." },
  ),
  wantedSlots: t.integer(0, "queued + running."),
  asOf: asOfPosition(),
});
export type Scaling = Static<typeof ScalingSchema>;
