// REST bodies about packages on many workers: an install or removal on chosen workers, a rollout in phases, a rollback, and alerts.

import type { Static } from "typebox";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageAsOf } from "./body-parts.ts";

export const packageFleetLimits = {
  /** Workers that one install, rollout or rollback may concern. */
  workersMax: 2_000,
  phasesMax: 20,
  /** So long a phase may be watched. */
  observeMsMax: 7 * 86_400_000,
  alertsMax: 500,
} as const;

const versionText = (description?: string) =>
  t.string({ minLength: 1, maxLength: 64, pattern: "^[0-9A-Za-z.+-]+$", ...(description && { description }) });

const workerSteps = ["waiting", "sent", "done", "failed"] as const;
const FleetWorkerSchema = t.object({
  name: t.name("Name of the worker."),
  workerId: t.id("Instance id of the worker."),
  commandId: t.nullable(t.id(), "The command that was sent to it; null: none yet, or none was needed."),
  status: t.oneOf(
    workerSteps,
    "waiting: nothing was sent yet. sent: the worker is at it. done: the version is there, or gone. failed: code and message say why.",
  ),
  code: t.optional(t.id("Fault code of the failure.")),
  message: t.optional(t.text()),
});
export type FleetWorker = Static<typeof FleetWorkerSchema>;

const installActions = ["install", "uninstall"] as const;
export const FleetInstallRequestSchema = t.object(
  {
    action: t.optional(t.oneOf(installActions, "install where it is left out.")),
    version: t.optional(
      versionText("Absent: for install the newest that is neither a pre-release nor withdrawn, for uninstall every version."),
    ),
    workers: t.optional(
      t.array(t.id(), {
        minItems: 1,
        maxItems: packageFleetLimits.workersMax,
        description: "Names or instance ids of workers.",
      }),
    ),
    pool: t.optional(t.id("Every worker of this pool that is connected.")),
    all: t.optional(t.literal(true, { description: "Every worker that is connected." })),
    allowOlder: t.optional(t.boolean({ description: "Install it although a worker had a newer version." })),
  },
  t.published({ oneOf: [{ required: ["workers"] }, { required: ["pool"] }, { required: ["all"] }] }),
);
export type FleetInstallRequest = Static<typeof FleetInstallRequestSchema>;

const fleetInstallFields = {
  installId: t.id(),
  packageName: t.id(),
  version: t.nullable(t.id(), "null: every version, of an uninstall."),
  action: t.oneOf(installActions),
  status: t.oneOf(["running", "done"], "done: every worker has ended, well or not."),
  counts: t.object({
    waiting: t.integer(0, "Workers that are not finished."),
    done: t.integer(0),
    failed: t.integer(0),
  }),
  workers: t.list(FleetWorkerSchema, packageFleetLimits.workersMax),
  createdAt: t.instant(),
  createdBy: t.id(),
  updatedAt: t.instant(),
};
export const FleetInstallSchema = t.object(fleetInstallFields);
export type FleetInstall = Static<typeof FleetInstallSchema>;
export const FleetInstallDetailSchema = t.object({ ...fleetInstallFields, asOf: asOfPosition() });
export const FleetInstallListSchema = pageAsOf(FleetInstallSchema);

const PhaseTargetSchema = t.union([t.between(1, packageFleetLimits.workersMax), t.string({ pattern: "^([1-9][0-9]?|100)%$" })], {
  description: "How many workers have the version after this phase: a number, or a share such as 25%, rounded up.",
});
export type PhaseTarget = Static<typeof PhaseTargetSchema>;

const failureLimitFields = {
  max: t.integer(0, "Tasks of the new version that may fail in the whole rollout; one more stops it."),
  ratio: t.number({ minimum: 0, maximum: 1, description: "Share of its finished tasks that may fail, once there are minTasks." }),
  minTasks: t.integer(1, "Finished tasks of the new version from which on the share counts."),
};
const FailureLimitsSchema = t.object(failureLimitFields);
export type FailureLimits = Static<typeof FailureLimitsSchema>;

export const RolloutRequestSchema = t.object({
  version: versionText("A published version."),
  pool: t.optional(t.id("Only workers of this pool; absent: every worker.")),
  phases: t.optional(
    t.array(PhaseTargetSchema, {
      minItems: 1,
      maxItems: packageFleetLimits.phasesMax,
      description: '[1, "25%", "100%"] where it is left out. Each has to reach at least as far as the one before.',
    }),
  ),
  failures: t.optional(
    t.object({
      max: t.optional(failureLimitFields.max),
      ratio: t.optional(failureLimitFields.ratio),
      minTasks: t.optional(failureLimitFields.minTasks),
    }),
  ),
  observeMs: t.optional(
    t.between(
      0,
      packageFleetLimits.observeMsMax,
      "So long each phase is watched after its last install. 60,000 where it is left out.",
    ),
  ),
});
export type RolloutRequest = Static<typeof RolloutRequestSchema>;

export const RolloutStopRequestSchema = t.object({
  rollback: t.optional(
    t.boolean({ description: "Also go back to the version before: as after too many failures. false where it is left out." }),
  ),
});

export const PackageRollbackRequestSchema = t.object({
  to: t.optional(versionText("A published version; absent: the one before the version that is in use.")),
  pool: t.optional(t.id("Only workers of this pool; absent: every worker.")),
});
export type PackageRollbackRequest = Static<typeof PackageRollbackRequestSchema>;

const rolloutFields = {
  rolloutId: t.id(),
  kind: t.oneOf(["rollout", "rollback"]),
  packageName: t.id(),
  version: t.id("The version that workers get; of a rollback, the one they go back to."),
  previousVersion: t.nullable(
    t.id(),
    "The version in use before; of a rollback, the one that is taken away. null: there was none.",
  ),
  pool: t.nullable(t.id(), "null: every worker."),
  status: t.oneOf(
    ["running", "finished", "stopped", "rollingBack", "rolledBack"],
    "stopped: it ended early and every worker keeps what it has. rolledBack: the version was taken away again and withdrawn.",
  ),
  phase: t.integer(0, "Index of the phase it is in, or ended in."),
  phases: t.list(
    t.object({
      target: PhaseTargetSchema,
      status: t.oneOf(["waiting", "installing", "observing", "done", "failed"]),
      workers: t.list(FleetWorkerSchema, packageFleetLimits.workersMax),
    }),
    packageFleetLimits.phasesMax,
  ),
  failures: FailureLimitsSchema,
  observeMs: t.integer(0),
  tasks: t.object({
    succeeded: t.integer(0, "Tasks of the new version that ended well since the rollout began."),
    failed: t.integer(0),
  }),
  rollback: t.nullable(
    t.object({
      installs: t.list(FleetWorkerSchema, packageFleetLimits.workersMax),
      uninstalls: t.list(FleetWorkerSchema, packageFleetLimits.workersMax),
    }),
    "Workers on their way back: where the version before is installed again, then where the other one is removed. null: nobody goes back.",
  ),
  reason: t.nullable(
    t.object({ code: t.oneOf(["install-failed", "tasks-failed", "operator", "rollback-failed"]), message: t.text() }),
    "Why it ended early; null: it did not. rollback-failed: some workers, which the message names, could not go back.",
  ),
  createdAt: t.instant(),
  createdBy: t.id(),
  updatedAt: t.instant(),
  finishedAt: t.nullable(t.instant()),
};
export const RolloutSchema = t.object(rolloutFields);
export type Rollout = Static<typeof RolloutSchema>;
export const RolloutDetailSchema = t.object({ ...rolloutFields, asOf: asOfPosition() });
export const RolloutListSchema = pageAsOf(RolloutSchema);

export const AlertSchema = t.object({
  code: t.oneOf(["worker.lost", "worker.disk_full", "store.disk_full", "package.rollout_stopped", "package.install_failed"]),
  subject: t.object({ type: t.oneOf(["worker", "rollout", "install", "scheduler"]), id: t.id() }),
  since: t.instant(),
  message: t.text("What is wrong, in a sentence."),
  remedy: t.text("What to do about it."),
});
export type Alert = Static<typeof AlertSchema>;
export const AlertListSchema = t.object({
  items: t.list(AlertSchema, packageFleetLimits.alertsMax),
  isPartial: t.boolean({ description: "There are more than are listed." }),
  asOf: asOfPosition(),
});
